"""The features of the experiments, with the paper's settings for each dataset.

`load_dataset` finds them. The split is the same in every run: a tenth of the training data is held out for
validation (Sec. 4.1); accuracies are measured on a fixed random part of the test data.
"""

import gzip
import hashlib
from csv import DictReader
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.data.datasets import Split, read_dataset

CYCLES = 20  # cycles of a learning curve
MOST_TESTED = 1000  # instances of the test and of the validation data at most


class Setting(NamedTuple):
    """The paper's settings for a dataset (Sec. 4.1, App. F)."""

    kind: str  # "image" or "text"; "items" that a network is trained on, not features
    batch: int  # acquisition size b
    title: str  # the dataset's name in reports

    @property
    def learning_rate(self) -> float:
        return 0.1 if self.kind == "text" else 0.01

    @property
    def exponent(self) -> float:
        """The Monte Carlo update's gamma (App. B)."""
        return 0.01 if self.kind == "text" else 0.005


SETTINGS = {
    "digits": Setting("image", 10, "Digits"),
    "cifar10": Setting("image", 10, "CIFAR-10"),
    "snacks": Setting("image", 20, "Snacks"),
    "dtd": Setting("image", 50, "DTD"),
    "dbpedia": Setting("text", 10, "DBpedia"),
    "banking77": Setting("text", 200, "Banking-77"),
    "clinc150": Setting("text", 150, "Clinc-150"),
    "fashion-mnist": Setting("items", 20, "Fashion-MNIST"),
    "texts": Setting("items", 20, "Texts"),
}


class Data(NamedTuple):
    """Features and labels of one dataset."""

    name: str
    x: np.ndarray
    y: np.ndarray
    val_x: np.ndarray
    val_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    n_classes: int
    setting: Setting
    digest: str  # hash of all features and labels, before the split
    encoder: str = ""  # of texts: the folder of the network that is trained


def available(folder: str) -> list[str]:
    """Return the available datasets: digits, and those with a file in the folder."""
    items = places(folder)
    return [name for name in SETTINGS if name == "digits" or name in items or _files(name, folder)]


def _files(name: str, folder: str) -> list[str]:
    """Return a dataset's feature files in the folder."""
    return sorted(file.name for file in Path(folder).glob(f"{name}*.npz"))


@lru_cache(maxsize=2)
def load(name: str, folder: str) -> Data:
    """Return a dataset's features; the split is the same in every run."""
    check_choice(name, "dataset", list(SETTINGS))
    if SETTINGS[name].kind == "items":
        return load_items(name, folder)
    files = _files(name, folder)
    if name != "digits" and not files:
        raise EverylabelError(
            f"dataset {name!r} has no feature file in {folder!r}; expected {name}*.npz with X_train, "
            "y_train, X_test, y_test and classes (load_dataset(...).embed().save(...) makes one; --data "
            "names the folder)"
        )
    if name != "digits" and len(files) > 1:
        raise EverylabelError(
            f"dataset {name!r} has several feature files in {folder!r}: {', '.join(files)}; expected one: "
            "move the others away, or name another folder with --data"
        )
    whole = read_dataset(name, None if name == "digits" else folder, download=False, check=False)
    order = np.random.default_rng(1).permutation(len(whole.train))
    n_held = len(order) // 10
    held, rest = order[:n_held][:MOST_TESTED], order[n_held:]
    tested = np.random.default_rng(2).permutation(len(whole.test))[:MOST_TESTED]
    n_classes, setting = len(whole.classes), SETTINGS[name]
    if len(rest) <= CYCLES * setting.batch:  # the pool is too small for 20 cycles of b: b is one per class
        setting = setting._replace(batch=n_classes)
    return Data(
        name,
        *_part(whole.train, rest),
        *_part(whole.train, held),
        *_part(whole.test, tested),
        n_classes,
        setting,
        digest_of(*(part for split in (whole.train, whole.test) for part in (split.features, split.labels))),
    )


def digest_of(*arrays: Any) -> str:
    """Return a short digest of features (or of texts) and labels."""
    digest = hashlib.sha256()
    for array in arrays:
        is_text = array.dtype == object
        digest.update(repr(array.tolist()).encode() if is_text else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def _part(split: Split, idx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if split.features is None:
        raise EverylabelError("the dataset has items but no features; make them by .embed()")
    return np.asarray(split.features[np.sort(idx)], dtype=np.float64), split.labels[np.sort(idx)]


SYSTEM = Path("/usr/share/datasets/fashion-mnist")  # of the Debian package dataset-fashion-mnist
IMAGES, TEXTS, ENCODER = "fashion-mnist", "texts.csv", "encoder"
POOL, TESTED = 3000, 1000  # items at most


def places(folder: str) -> dict[str, Path]:
    """Return the place of each available dataset; none without torch."""
    own, texts = Path(folder) / IMAGES, Path(folder) / TEXTS
    found: dict[str, Path] = {}
    if find_spec("torch") is not None:
        images = next((place for place in (own, SYSTEM) if place.is_dir()), None)
        found |= {} if images is None else {"fashion-mnist": images}
        found |= {"texts": texts} if texts.is_file() and (texts.parent / ENCODER).is_dir() else {}
    return found


def load_items(name: str, folder: str) -> Data:
    """Return images as pixels from 0 to 1, or texts, with class numbers, split the same way in every run."""
    place = places(folder).get(name)
    if place is None:
        raise EverylabelError(
            f"dataset {name!r} is not in {folder!r}; expected {IMAGES}/ with the four files of Fashion-MNIST "
            f"(Debian: dataset-fashion-mnist), or {TEXTS} (columns text and label) and {ENCODER}/ (a folder "
            "that sentence-transformers opens), and torch"
        )
    rng, parts = np.random.default_rng(1), list[np.ndarray]()
    if name == "texts":
        with place.open(newline="", encoding="utf-8") as file:
            rows = [(row["text"], row["label"]) for row in DictReader(file)]
        x, names = (np.array(column, object) for column in zip(*rows, strict=True))
        y = np.unique(names.astype(str), return_inverse=True)[1]
        order, n_test = rng.permutation(len(x)), min(TESTED, len(x) // 3)
        train, test = order[n_test:][:POOL], order[:n_test]
        parts = [x[train], y[train], x[test], y[test]]
    else:
        whole = [_read_idx(place, part, kind) for part in ("train", "t10k") for kind in ("images", "labels")]
        train, test = (rng.permutation(len(y))[:most] for y, most in ((whole[1], POOL), (whole[3], TESTED)))
        parts = [array[idx] for array, idx in zip(whole, (train, train, test, test), strict=True)]
    x, y, test_x, test_y = parts
    k, encoder = int(max(y.max(), test_y.max())) + 1, str(place.parent / ENCODER) if name == "texts" else ""
    return Data(name, x, y, x[:0], y[:0], test_x, test_y, k, SETTINGS[name], digest_of(*parts), encoder)


def _read_idx(folder: Path, part: str, kind: str) -> np.ndarray:
    """Return images (n, 1, height, width) or labels (n,) of one file of the MNIST format."""
    path = folder / f"{part}-{kind}-idx{3 if kind == 'images' else 1}-ubyte.gz"
    try:
        raw = gzip.decompress(path.read_bytes())
        shape = np.frombuffer(raw, ">i4", 1 + raw[3])[1:]
        values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)
    except (OSError, EOFError, IndexError, ValueError) as error:
        raise EverylabelError(
            f"{str(path)!r} cannot be read ({error}); expected a file of Fashion-MNIST"
        ) from error
    return (
        values.astype(np.int64)
        if kind == "labels"
        else (values[:, None] / np.float32(255)).astype(np.float32)
    )
