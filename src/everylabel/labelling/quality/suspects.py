"""The probability that a label is wrong.

Labels that were chosen because the model was unsure always look odd to it, so a disagreement with the model
alone is no evidence. q are the class probabilities of an item with its own label left out, at a temperature
t, y is its label, k the number of classes and e the share of labels that are wrong, with all other classes
equally likely:
    q ~ softmax(log p / t)
    P(y) = (1 - e) q_y + e (1 - q_y) / (k - 1),      P(wrong | y) = e (1 - q_y) / (k - 1) / P(y)
averaged over a grid of t and e by their posterior given all labels, with log t ~ N(0, SPREAD^2) and
e ~ Beta(1, RIGHT). The temperature explains many mild surprises, the share of errors a few large ones.

Measured at 60, 120 and 240 labels by herding, with 3 % or 10 % of them swapped at random. On the four
datasets where the constants were chosen (12 runs), 15 of 5,040 right labels are LIKELY wrong, though the
model predicts another class for 1,584. Of the labels shown, 28 of 39 are wrong with 3 % swapped, 88 of 100
with 10 %. On four other datasets (11 runs): 9 of 4,620 right labels; 8 of 15 and 28 of 42 shown ones. Few
errors are found, but the labels shown are worth a look. The sum of all probabilities is too high if no label
is wrong (1.2 %), and too low if 10 % are (a third of the errors).
"""

import numpy as np

from everylabel.core.arrays import softmax

TEMPERATURES = np.array([0.5, 0.7, 1.0, 1.4, 2.0, 2.8])
SHARES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25])  # grid of e
SPREAD = 0.4
RIGHT = 20.0
LIKELY = 0.3  # a label is shown from this probability on
TINY = 1e-12


def probably_wrong(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probability that each label is wrong (n,).

    probs : (n, k), each item's with its own label left out; labels : (n,)
    """
    n, k = probs.shape
    if k < 2 or not n:
        return np.zeros(n)
    logs, rows, e = np.log(np.maximum(probs, TINY)), np.arange(n), SHARES[:, None]
    evidence, wrong = [], []
    for t in TEMPERATURES:
        own = np.asarray(softmax(logs / t))[rows, labels]
        by_error = e * (1.0 - own) / (k - 1)  # (shares, n)
        likelihood = np.maximum((1.0 - e) * own + by_error, TINY)
        prior = (RIGHT - 1.0) * np.log1p(-SHARES) - 0.5 * (np.log(t) / SPREAD) ** 2
        evidence.append(np.log(likelihood).sum(axis=1) + prior)
        wrong.append(by_error / likelihood)
    weights = np.asarray(softmax(np.concatenate(evidence)[None]))[0]
    return np.asarray(weights @ np.concatenate(wrong))
