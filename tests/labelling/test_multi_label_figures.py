"""Figures of several classes per item against scikit-learn, and the coverage of their intervals."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import targets, train
from everylabel.labelling.quality.accuracy import wilson
from everylabel.labelling.quality.f1 import f1, set_figures
from everylabel.labelling.quality.suspect_labels import left_out, left_out_probabilities, probably_wrong
from everylabel.labelling.queues import QueueRequest, queue
from everylabel.labelling.state.types import ClassSet
from tests.labelling.desks import probabilities, service
from tests.labelling.test_multi_label import CLASSES, answer, classes_of_digit


def test_few_checks_give_no_f1_beside_the_panel_that_waits_for_more() -> None:
    truth = np.eye(4)
    assert set_figures(truth, truth == 1.0, np.ones(4), range(4))["micro"] is None
    assert [
        row["true_or_predicted"]
        for row in set_figures(truth, ~(truth == 1.0), np.ones(4), range(4))["classes"]
    ] == [4] * 4
    five = np.r_[truth, truth[:1]]
    assert set_figures(five, five == 1.0, np.ones(5), range(4))["micro"] is not None


def _drawn(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return answers and predictions (n, 5) that agree more often than not, classes of an item alike."""
    at = rng.normal(size=(n, 1))
    truth = at + rng.normal(size=(n, 5)) > np.linspace(-0.5, 1.5, 5)
    return truth, np.where(rng.random((n, 5)) < 0.15, ~truth, truth)


def test_figures_are_those_of_scikit_learn() -> None:
    truth, said = _drawn(400, np.random.default_rng(0))
    found = set_figures(truth.astype(float), said, np.ones(400), range(5))
    each = {
        name: [row[name]["estimate"] for row in found["classes"]] for name in ("precision", "recall", "f1")
    }
    np.testing.assert_allclose(each["precision"], precision_score(truth, said, average=None))
    np.testing.assert_allclose(each["recall"], recall_score(truth, said, average=None))
    np.testing.assert_allclose(each["f1"], f1_score(truth, said, average=None))
    np.testing.assert_allclose(found["micro"]["estimate"], f1_score(truth, said, average="micro"))
    np.testing.assert_allclose(found["macro"]["estimate"], f1_score(truth, said, average="macro"))
    np.testing.assert_allclose(found["exact"]["estimate"], accuracy_score(truth, said))


def test_an_unanswered_class_counts_for_nothing_and_weights_count_items_several_times() -> None:
    truth, said = _drawn(200, np.random.default_rng(1))
    partly = truth.astype(float)
    partly[50:, 2] = np.nan
    some = set_figures(partly, said, np.ones(200), range(5))["classes"][2]
    assert some["f1"]["estimate"] == f1(truth[:50, 2:3], said[:50, 2:3], np.ones(50))["estimate"]  # type: ignore
    twice = set_figures(truth.astype(float), said, np.r_[2 * np.ones(100), np.zeros(100)], range(5))
    half = set_figures(truth[:100].astype(float), said[:100], np.ones(100), range(5))
    np.testing.assert_allclose(twice["micro"]["estimate"], half["micro"]["estimate"])


def test_the_interval_of_a_perfect_share_reaches_it() -> None:
    for n in range(1, 400):
        assert wilson(1.0, n).high == 1.0, n
        assert wilson(0.0, n).low == 0.0, n


def test_the_interval_of_f1_is_no_narrower_if_classes_always_agree() -> None:
    rng = np.random.default_rng(1)
    present, predicted = rng.random((60, 1)) < 0.5, rng.random((60, 1)) < 0.6
    one = f1(present, predicted, np.ones(60))
    five = f1(np.tile(present, 5), np.tile(predicted, 5), np.ones(60))
    assert one is not None
    assert five == pytest.approx(one)


def test_intervals_hold_the_true_figures() -> None:
    rng = np.random.default_rng(2)
    truth, said = _drawn(100_000, rng)
    true = set_figures(truth.astype(float), said, np.ones(100_000), range(5))
    held = np.zeros(3)
    for _ in range(400):
        at = rng.choice(100_000, 60, replace=False)
        found = set_figures(truth[at].astype(float), said[at], np.ones(60), range(5))
        pairs = [
            (found["micro"], true["micro"]),
            *((found["classes"][1][n], true["classes"][1][n]) for n in ("recall", "f1")),
        ]
        held += [told["low"] <= is_so["estimate"] <= told["high"] for told, is_so in pairs]
    assert (held / 400 >= 0.95).all(), held


def test_random_checks_lead_to_figures_on_the_page(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=2, multi_label=True) as made:
        for _ in range(3):
            answer(made, 20)
            retrain(made.desk)  # as beside the page: steps since a training are replayed with each label
        last = made.state.assessed[-1]
        truth = np.array([[c in classes_of_digit(item) for c in range(3)] for item in made.desk.ids])
        left = [i for i in range(300) if i not in made.state.labels]
        whole = f1_score(truth[left], made.desk.learner.predicted(probabilities(made))[left], average="micro")
        assert last.checks >= 25
        assert last.low is not None
        assert last.high is not None
        assert last.low <= whole <= last.high
        figures = made.desk.read(made.views.class_figures).result()
        assert [row["class"] for row in figures["checks"]["classes"]] == [0, 1, 2]
        assert made.views.progress("me")["accuracy"]["estimate"] == last.estimate


def test_a_wrong_answer_is_suspect_and_says_which_class(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, multi_label=True) as made:
        items = []
        for _ in range(6):
            items += answer(made, 20)
            retrain(made.desk)  # as beside the page: steps since a training are replayed with each label
        right = {item: classes_of_digit(item) for item in items}
        sure = probabilities(made)
        plain = [i for i in items if 1 in right[i]]
        one = max(plain, key=lambda item: sure[made.desk.ids.index(item), 1])  # surely a large digit
        made.label_set("me", one, [], [1]).result()  # no, it says now
        retrain(made.desk)
        look = made.views.guesses.queue_data()
        found = [each.item for each in queue(look, QueueRequest("suspect"))]
        assert found[0] == made.state.position[one]
        verdict = look.left_out[found[0]]
        assert {*verdict.guess.present} ^ {*verdict.label.present} == {1}  # type: ignore[union-attr]
        assert found[0] in [each.item for each in queue(look, QueueRequest("suspect", 1))]
        assert found[0] not in [each.item for each in queue(look, QueueRequest("suspect", 0))]
        assert len(found) <= 12  # a tenth of the items


def test_suspect_answers_of_a_class_are_judged_as_yes_and_no() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(80, 6))
    truth = (x[:, :2] > 0.0).astype(float)
    truth[:5, 1] = np.nan
    rows = {
        i: ClassSet.of(np.flatnonzero(row == 1).tolist(), np.flatnonzero(row == 0).tolist())
        for i, row in enumerate(truth)
    }
    found = left_out(x, rows, [4, 7], multi_label=True)
    idx, answers = targets(rows, 2, True)
    yes = left_out_probabilities(train(x, rows, 2, multi_label=True), len(idx))
    known = ~np.isnan(answers)
    wrong = np.zeros(answers.shape)
    both = np.stack([1.0 - yes, yes], axis=2)[known]
    wrong[known] = probably_wrong(both, answers[known].astype(int))
    np.testing.assert_allclose([found[i].wrong for i in idx.tolist()], wrong.max(axis=1))
    assert all({*each.label.present, *each.label.absent} <= {4, 7} for each in found.values())  # type: ignore
