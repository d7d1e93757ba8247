"""How good an update is: measured against retraining on everything.

n test points, k classes; probs (n, k).
"""

import numpy as np


def accuracy(probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of labels that the most probable class gets right."""
    return float(np.mean(np.argmax(probs, axis=1) == labels))


def distance(probs: np.ndarray, others: np.ndarray) -> float:
    """Return the mean total variation between two sets of predictions, from 0 to 1."""
    return float(np.mean(0.5 * np.sum(np.abs(probs - others), axis=1)))


def share_of_gain(base: float, updated: float, retrained: float) -> float:
    """Return how much of what retraining gains in accuracy the update gains; NaN if nothing is gained."""
    gain = retrained - base
    return (updated - base) / gain if gain > 0 else float("nan")
