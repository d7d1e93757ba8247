"""Features and labels to measure on: digits, and the feature files that exist."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

FILES = {
    "Banking-77": "banking77_minilm384",
    "Clinc-150": "clinc150_minilm384",
    "CIFAR-10": "cifar10_efflite2_pca384",
    "DTD-10": "dtd10_efflite2_1280",
}
N_TEST = 2000


class Dataset(NamedTuple):
    """Unscaled features, split into a pool to draw labels from and test data."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    k: int


def load(folder: Path) -> dict[str, Dataset]:
    """Return all available datasets; digits as pixels from 0 to 1 and from 0 to 16."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]
    found = {
        name: Dataset(x[:1297] / by, y[:1297], x[1297:] / by, y[1297:], 10)
        for name, by in (("digits", 16.0), ("digits, raw", 1.0))
    }
    for name, stem in FILES.items():
        path = folder / f"{stem}.npz"
        if path.exists():
            with np.load(path) as file:
                arrays = [file[key] for key in ("X_train", "y_train", "X_test", "y_test")]
                k = len(file["classes"])
            x, y, test_x, test_y = arrays
            found[name] = Dataset(
                x.astype(np.float64), y, test_x[:N_TEST].astype(np.float64), test_y[:N_TEST], k
            )
    return found
