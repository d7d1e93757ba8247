"""The probability that a label is wrong: against a plain loop, and against labels that were swapped."""

import math

import numpy as np
import pytest

from everylabel.labelling.quality.suspect_labels import (
    LIKELY,
    MIXED,
    RIGHT,
    SHARES,
    SPREAD,
    TEMPERATURES,
    USUAL_SHARE,
    probably_wrong,
    with_shares,
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


def _mixed(probs: np.ndarray, answers: np.ndarray) -> list[list[float]]:
    """Mix with the share of each class one by one."""
    n, k = answers.shape
    said = [(i, c) for i in range(n) for c in range(k) if not math.isnan(answers[i, c])]
    overall = sum(answers[i, c] for i, c in said) / len(said)
    found: tuple[float, list[list[float]]] = -math.inf, []
    for m in MIXED:
        rows = [[0.0] * k for _ in range(n)]
        for i in range(n):
            for c in range(k):
                others = [answers[j, c] for j in range(n) if j != i and (j, c) in said]
                share = (sum(others) + USUAL_SHARE * overall) / (len(others) + USUAL_SHARE)
                rows[i][c] = (1 - m) * probs[i, c] + m * share
        total = sum(math.log(rows[i][c] if answers[i, c] else 1 - rows[i][c]) for i, c in said)
        found = max(found, (total, rows), key=lambda one: one[0])
    return found[1]


@pytest.mark.parametrize("sure", [0.5, 3.0])
def test_probabilities_are_mixed_with_the_share_of_a_class_as_in_a_plain_loop(sure: float) -> None:
    rng = np.random.default_rng(0)
    logits = sure * rng.normal(size=(30, 4)) - 1.0
    answers = (rng.random((30, 4)) < 1.0 / (1.0 + np.exp(-logits / sure))).astype(float)
    answers[rng.random((30, 4)) < 0.2] = np.nan
    probs = 1.0 / (1.0 + np.exp(-logits))
    np.testing.assert_allclose(with_shares(probs, answers), _mixed(probs, answers), rtol=1e-12)


def test_a_model_that_never_says_yes_is_replaced_by_the_share_of_each_class() -> None:
    rng = np.random.default_rng(0)
    answers = (rng.random((200, 2)) < [0.05, 0.2]).astype(float)
    found = with_shares(np.full((200, 2), 0.002), answers)
    np.testing.assert_allclose(found.mean(axis=0), answers.mean(axis=0), atol=0.02)


def test_a_good_model_is_not_mixed() -> None:
    answers = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    probs = np.where(answers > 0.0, 0.99, 0.01)
    np.testing.assert_array_equal(with_shares(probs, answers), probs)
