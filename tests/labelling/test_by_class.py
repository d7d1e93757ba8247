"""Precision, recall and confusion of classes, counted by hand."""

import numpy as np
import pytest

from everylabel.labelling.quality.accuracy import wilson
from everylabel.labelling.quality.by_class import class_figures, confusion

TRUTH = np.array([0] * 12 + [1] * 10 + [2] * 3)
GUESS = np.array([0] * 9 + [1] * 3 + [1] * 8 + [0] * 2 + [2] * 3)
MASKS = np.eye(3)[TRUTH], np.eye(3)[GUESS] == 1.0


def test_shares_are_of_predicted_and_of_true_items() -> None:
    first, second, third = class_figures(*MASKS, np.ones(25), range(3))
    assert first["precision"] == wilson(9 / 11, 11)._asdict()
    assert first["recall"] == wilson(9 / 12, 12)._asdict()
    assert second["precision"]["estimate"] == pytest.approx(8 / 11)
    assert (third["predicted"], third["true"], third["precision"], third["recall"]) == (3, 3, None, None)


def test_weights_undo_a_class_that_was_tested_more() -> None:
    weights = np.where(GUESS == 1, 0.5, 1.0)
    figures = class_figures(*MASKS, weights, range(3))
    assert figures[0]["recall"]["estimate"] == pytest.approx(9 / (9 + 1.5))
    n = (9 + 1.5) ** 2 / (9 + 0.75)
    assert figures[0]["recall"] == wilson(9 / 10.5, n)._asdict()


def test_confusion_counts_pairs() -> None:
    assert confusion(TRUTH[10:14], GUESS[10:14]) == [
        {"true": 0, "guess": 1, "count": 2},
        {"true": 1, "guess": 1, "count": 2},
    ]
