"""Handwritten digits, which ship with scikit-learn: 1,797 pictures of 8 x 8, from 0 (paper) to 16 (ink).

Its file is read as it lies there: to import its datasets takes 1.4 s, as the rest of a server's start does.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from everylabel.data.datasets.dataset import Dataset, Split

CLASSES = tuple("0123456789")
DARKEST = 16.0
FILE = ("datasets", "data", "digits.csv.gz")  # below scikit-learn's folder: 64 numbers and the digit, a row


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return ink (n, 64), from 0 to DARKEST, and labels (n,), in scikit-learn's order."""
    found = find_spec("sklearn")
    places = [] if found is None else found.submodule_search_locations or []
    file = next((path for place in places if (path := Path(place, *FILE)).is_file()), None)
    if file is None:  # it has moved: they know where
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
