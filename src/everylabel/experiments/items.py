"""Items for training networks: Fashion-MNIST, and texts with an encoder of the user."""

import gzip
import hashlib
from csv import DictReader
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError

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


class Split(NamedTuple):
    """Images as pixels from 0 to 1, or texts, with class numbers, split the same way in every run."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    digest: str
    encoder: str = ""  # folder of the encoder of texts


def load_items(name: str, folder: str) -> Split:
    """Return the items of a dataset."""
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
    contents = [repr(part.tolist()).encode() if part.dtype == object else part.tobytes() for part in parts]
    digest = hashlib.sha256(b"".join(contents)).hexdigest()[:12]
    x, y, test_x, test_y = parts
    return Split(x, y, test_x, test_y, digest, str(place.parent / ENCODER) if name == "texts" else "")


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
