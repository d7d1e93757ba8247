"""The datasets of App. E: their files and URLs, their readers, and their sizes.

SHA-256 sums are of the publishers' files. App. E prints 3,840 / 920 for Snacks, which does not add up to its
total of 6,745; the published sizes do. Its 5,000 test instances of DBpedia are those of one class: the file
has 70,000. Digits ship with scikit-learn; their file is read directly, since importing scikit-learn's
datasets takes 1.4 s.
"""

import csv
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.datasets.dataset import Dataset, Split, numbered
from everylabel.data.datasets.fetch import locate
from everylabel.data.readers.rows import read_rows

RECORD = 1 + 3 * 32 * 32  # a label and 32 x 32 pixels, all red, all green, all blue
CLASSES = tuple("0123456789")
DARKEST = 16.0
FILE = ("datasets", "data", "digits.csv.gz")  # below scikit-learn's folder: 64 numbers and the digit, a row


def read_banking77(folder: Path) -> Dataset:
    """Read train.csv and test.csv with the columns text and category."""
    root = locate(folder, "train.csv", "test.csv")
    rows = {part: list(read_rows(root / f"{part}.csv", ["text", "category"])) for part in ("train", "test")}
    classes = tuple(sorted({row["category"] for row in rows["train"]}))
    return Dataset("banking77", "text", classes, {part: _split(rows[part], classes) for part in rows})


def read_clinc150(folder: Path) -> Dataset:
    """Read data_full.json: six lists of [text, intent], three of them out of scope."""
    path = locate(folder, "data_full.json") / "data_full.json"
    try:
        stored: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8"))
        parts = {name: stored[name] for name in ("train", "val", "test", "oos_train", "oos_val", "oos_test")}
        rows = {
            name: [{"text": text, "category": intent} for text, intent in part]
            for name, part in parts.items()
        }
    except (ValueError, KeyError, TypeError) as error:
        raise EverylabelError(f"path {str(path)!r} is not Clinc-150's data_full.json ({error!r})") from error
    classes = tuple(sorted({row["category"] for row in rows["train"]}))
    return Dataset("clinc150", "text", classes, {name: _split(rows[name], classes) for name in rows})


def read_dbpedia(folder: Path) -> Dataset:
    """Read classes.txt, train.csv and test.csv with class (from 1), title and content, which is the item."""
    root = locate(folder, "classes.txt", "train.csv", "test.csv")
    classes = tuple((root / "classes.txt").read_text(encoding="utf-8").split())
    splits = {}
    for part in ("train", "test"):
        path, rows = root / f"{part}.csv", []
        with path.open(encoding="utf-8", newline="") as file:
            for line, row in enumerate(csv.reader(file), 1):
                if len(row) != 3 or not row[0].isdigit() or not 1 <= int(row[0]) <= len(classes):
                    raise EverylabelError(
                        f"row {line} of {str(path)!r} is {row!r:.80}; expected class, title, content"
                    )
                rows.append({"text": row[2].strip(), "category": classes[int(row[0]) - 1]})
        splits[part] = _split(rows, classes)
    return Dataset("dbpedia", "text", classes, splits)


def _split(rows: list[dict[str, Any]], classes: tuple[str, ...]) -> Split:
    return Split(numbered([row["category"] for row in rows], classes), [row["text"] for row in rows])


def read_cifar10(folder: Path) -> Dataset:
    """Read data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt."""
    root = locate(folder, "data_batch_1.bin", "test_batch.bin", "batches.meta.txt")
    classes = tuple((root / "batches.meta.txt").read_text().split())
    train = [_records(path, len(classes)) for path in sorted(root.glob("data_batch_*.bin"))]
    labels, pixels = (np.concatenate(part) for part in zip(*train, strict=True))
    test_labels, test_pixels = _records(root / "test_batch.bin", len(classes))
    splits = {"train": Split(labels, pixels), "test": Split(test_labels, test_pixels)}
    return Dataset("cifar10", "image", classes, splits)


def read_snacks(folder: Path) -> Dataset:
    """Read the folders train, val and test, each with one folder per class."""
    root = locate(folder, "train", "val", "test")
    classes = tuple(sorted(path.name for path in (root / "train").iterdir() if path.is_dir()))
    splits = {}
    for part in ("train", "val", "test"):
        paths = sorted((root / part).glob("*/*.jpg"))
        splits[part] = Split(numbered([path.parent.name for path in paths], classes), paths)
    return Dataset("snacks", "image", classes, splits)


def read_dtd(folder: Path) -> Dataset:
    """Read the folders images and labels by the first of ten official splits: train1, val1 and test1.txt."""
    root = locate(folder, "labels/train1.txt", "labels/val1.txt", "labels/test1.txt", "images")
    names = {
        part: (root / "labels" / f"{part}1.txt").read_text().split() for part in ("train", "val", "test")
    }
    classes = tuple(sorted({name.partition("/")[0] for part in names.values() for name in part}))
    splits = {
        part: Split(
            numbered([name.partition("/")[0] for name in names[part]], classes),
            [root / "images" / name for name in names[part]],
        )
        for part in names
    }
    return Dataset("dtd", "image", classes, splits)


def _records(path: Path, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (n,) and pixels (n, 32, 32, 3) of one file."""
    stored = np.fromfile(path, dtype=np.uint8)
    if not stored.size or stored.size % RECORD:
        raise EverylabelError(f"path {str(path)!r} has {stored.size} bytes; expected a multiple of {RECORD}")
    records = stored.reshape(-1, RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= k:
        raise EverylabelError(f"path {str(path)!r} holds label {labels.max()}; expected 0 to {k - 1}")
    return labels, np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


class File(NamedTuple):
    """An official file."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2].partition("?")[0] or "data"


class Entry(NamedTuple):
    """An entry of the catalog: files, reader and expected sizes of a dataset."""

    files: tuple[File, ...]
    read: Callable[[Path], Dataset]
    n_classes: int
    sizes: dict[str, int]
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
        read_cifar10,
        10,
        {"train": 50_000, "test": 10_000},
        kind="image",
    ),
    "snacks": Entry(
        (File("https://huggingface.co/datasets/Matthijs/snacks/resolve/main/images.zip"),),
        read_snacks,
        20,
        {"train": 4838, "val": 955, "test": 952},
        kind="image",
    ),
    "dtd": Entry(
        (
            File(
                "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
                "e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
            ),
        ),
        read_dtd,
        47,
        {"train": 1880, "val": 1880, "test": 1880},
        kind="image",
    ),
    "dbpedia": Entry(
        (File("https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz"),),
        read_dbpedia,
        14,
        {"train": 560_000, "test": 70_000},
    ),
    "banking77": Entry(
        (
            File(_BANKING + "train.csv", "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"),
            File(_BANKING + "test.csv", "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d"),
        ),
        read_banking77,
        77,
        {"train": 10_003, "test": 3080},
    ),
    "clinc150": Entry(
        (
            File(
                "https://raw.githubusercontent.com/clinc/oos-eval/master/data/data_full.json",
                "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0",
            ),
        ),
        read_clinc150,
        150,
        {"train": 15_000, "val": 3000, "test": 4500, "oos_train": 100, "oos_val": 100, "oos_test": 1000},
    ),
}
NAMES = (*CATALOG, "digits")


def dataset_key(name: str) -> str | None:
    """Return the catalog's name of a dataset, in any spelling; None if it is unknown."""
    key = name.lower().replace("-", "").replace("_", "")
    return key if key in NAMES else None


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (n, 64), from 0 to DARKEST, and labels (n,), in scikit-learn's order."""
    found = find_spec("sklearn")
    places = [] if found is None else found.submodule_search_locations or []
    file = next((path for place in places if (path := Path(place, *FILE)).is_file()), None)
    if file is None:  # the file has moved: scikit-learn knows where
        from sklearn.datasets import load_digits

        ink, labels = load_digits(return_X_y=True)
    else:
        table = np.loadtxt(file, delimiter=",")
        ink, labels = table[:, :-1], table[:, -1]
    return np.ascontiguousarray(ink), labels.astype(np.int64)


def digits_dataset() -> Dataset:
    """Return digits as a dataset, pixels from 0 to 1; 500 of them, drawn once, are the test split."""
    ink, labels = read_digits()
    order = np.random.default_rng(0).permutation(len(labels))
    pixels = np.repeat((ink.reshape(-1, 8, 8, 1) * 15.9).astype(np.uint8), 3, axis=3)
    splits = {
        part: Split(labels[rows], pixels[rows], ink[rows] / DARKEST)
        for part, rows in (("train", order[500:]), ("test", order[:500]))
    }
    return Dataset("digits", "image", CLASSES, splits)
