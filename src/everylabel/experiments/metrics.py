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


def log_loss(probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean negative log probability of the true labels."""
    chosen = probs[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(chosen, np.finfo(np.float64).tiny))))


def brier_score(probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean squared distance between the probabilities and the true labels, from 0 to 2."""
    chosen = probs[np.arange(len(labels)), labels]
    return float(np.mean(np.sum(probs**2, axis=1) - 2.0 * chosen + 1.0))


def calibration_error(probs: np.ndarray, labels: np.ndarray, n_bins: int = 15) -> float:
    """Return the expected calibration error: |confidence - accuracy|, averaged over bins of confidence."""
    confidence = np.max(probs, axis=1)
    right = np.argmax(probs, axis=1) == labels
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=n_bins)
    return float(np.sum(np.abs(gaps)) / len(labels))


def flips(probs: np.ndarray, others: np.ndarray) -> float:
    """Return the share of instances whose most probable class differs between two predictions."""
    return float(np.mean(np.argmax(probs, axis=1) != np.argmax(others, axis=1)))
