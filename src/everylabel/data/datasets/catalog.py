"""The datasets of App. E: their files, where these are to be had, and how large they must be.

SHA-256 sums are of the publishers' files. Where we do not know one, it is None: the sum of the
first download is written beside the file and every later use is checked against it. App. E prints
3,840 / 920 for Snacks, which does not add up to its total of 6,745; the published sizes do. Its
5,000 test instances of DBpedia are those of one class: the file has 70,000.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from everylabel.data.datasets import pictures, texts
from everylabel.data.datasets.dataset import Dataset


class File(NamedTuple):
    """An official file."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2].partition("?")[0] or "data"


class Entry(NamedTuple):
    """What is known of a dataset."""

    files: tuple[File, ...]
    read: Callable[[Path], Dataset]
    n_classes: int
    sizes: dict[str, int]
    balanced: bool  # every class as often as any other, in every split with labels
    kind: str = "text"  # or "image"


_BANKING = "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master/banking_data/"

CATALOG: dict[str, Entry] = {
    "cifar10": Entry(
        (
            File(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        pictures.read_cifar10,
        10,
        {"train": 50_000, "test": 10_000},
        balanced=True,
        kind="image",
    ),
    "snacks": Entry(
        (File("https://huggingface.co/datasets/Matthijs/snacks/resolve/main/images.zip"),),
        pictures.read_snacks,
        20,
        {"train": 4838, "val": 955, "test": 952},
        balanced=False,
        kind="image",
    ),
    "dtd": Entry(
        (
            File(
                "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
                "e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
            ),
        ),
        pictures.read_dtd,
        47,
        {"train": 1880, "val": 1880, "test": 1880},
        balanced=True,
        kind="image",
    ),
    "dbpedia": Entry(
        (File("https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz"),),
        texts.read_dbpedia,
        14,
        {"train": 560_000, "test": 70_000},
        balanced=True,
    ),
    "banking77": Entry(
        (
            File(_BANKING + "train.csv", "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"),
            File(_BANKING + "test.csv", "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d"),
        ),
        texts.read_banking77,
        77,
        {"train": 10_003, "test": 3080},
        balanced=False,
    ),
    "clinc150": Entry(
        (
            File(
                "https://raw.githubusercontent.com/clinc/oos-eval/master/data/data_full.json",
                "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0",
            ),
        ),
        texts.read_clinc150,
        150,
        {"train": 15_000, "val": 3000, "test": 4500, "oos_train": 100, "oos_val": 100, "oos_test": 1000},
        balanced=True,
    ),
}
NAMES = (*CATALOG, "digits")


def dataset_key(name: str) -> str | None:
    """Return a dataset's name as it is known here, however it is spelt; None if there is none."""
    key = name.lower().replace("-", "").replace("_", "")
    return key if key in NAMES else None
