"""The probability that a label is wrong: against a plain loop, and against labels that were swapped."""

import math

import numpy as np
import pytest

from everylabel.labelling.quality.assessment import (
    LIKELY,
    RIGHT,
    SHARES,
    SPREAD,
    TEMPERATURES,
    probably_wrong,
)


def slow(probs: np.ndarray, labels: np.ndarray) -> list[float]:
    """Average over temperatures and shares of errors one by one."""
    k = probs.shape[1]
    weights, found = [], []
    for t in TEMPERATURES:
        for e in SHARES:
            weight = (1 - e) ** (RIGHT - 1) * math.exp(-0.5 * (math.log(t) / SPREAD) ** 2)
            wrong = []
            for row, label in zip(probs, labels, strict=True):
                powers = [p ** (1 / t) for p in row]
                own = powers[label] / sum(powers)
                said = (1 - e) * own + e * (1 - own) / (k - 1)
                weight *= said
                wrong.append(e * (1 - own) / (k - 1) / said)
            weights.append(weight)
            found.append(wrong)
    return [
        sum(w * one[i] for w, one in zip(weights, found, strict=True)) / sum(weights)
        for i in range(len(labels))
    ]


@pytest.mark.parametrize("k", [2, 5])
def test_probability_of_a_wrong_label_is_the_average_of_a_plain_loop(k: int) -> None:
    rng = np.random.default_rng(k)
    probs, labels = rng.dirichlet(np.full(k, 0.4), size=12), rng.integers(0, k, 12)
    probs = 0.99 * probs + 0.01 / k
    np.testing.assert_allclose(probably_wrong(probs, labels), slow(probs, labels), rtol=1e-9)


def test_unsure_predictions_are_no_evidence_and_sure_ones_are() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 2.0), size=200)
    labels = np.array([rng.choice(4, p=row) for row in probs])
    assert np.mean(probs.argmax(axis=1) != labels) > 0.4  # another class is likelier
    assert not np.any(probably_wrong(probs, labels) >= LIKELY)
    sure = np.full((200, 4), 0.001)
    sure[np.arange(200), rng.integers(0, 4, 200)] = 0.997
    labels = sure.argmax(axis=1)
    labels[:6] = (labels[:6] + 1) % 4
    wrong = probably_wrong(sure, labels)
    assert np.all(wrong[:6] >= LIKELY)
    assert not np.any(wrong[6:] >= LIKELY)
    assert wrong.sum() == pytest.approx(6, abs=3)


def test_one_class_or_no_label_is_never_suspect() -> None:
    assert probably_wrong(np.ones((3, 1)), np.zeros(3, int)).tolist() == [0.0] * 3
    assert probably_wrong(np.ones((0, 2)), np.zeros(0, int)).tolist() == []
