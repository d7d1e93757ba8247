"""Digits, the data of all tests in this folder."""

import numpy as np
from sklearn.datasets import load_digits


def digits(n: int = 300, n_class: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return n features of handwritten digits and their labels."""
    x, y = load_digits(n_class=n_class, return_X_y=True)
    return x[:n] / 16.0, y[:n]
