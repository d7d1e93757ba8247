"""Background assessment of a real model, against training without each label."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core.arrays import softmax
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import CLASSIFIES, FeatureTable, TrainingSet, train
from everylabel.labelling.quality.assessment import AssessmentLabels, assess
from everylabel.labelling.state.types import Place, check_weights
from everylabel.selection.pool import Where
from tests.labelling.desks import FEATURES, IDS, N, Y, fingerprint, label, service


def trained(labels: dict[int, int]) -> tuple[TrainingSet, Learner]:
    """Return a training set of these labels, and the model trained on it."""
    places = {item: Place(Where.LABELLED, number) for item, number in labels.items()}
    training = TrainingSet(tuple(range(10)), places, {}, N)
    return training, Learner(FeatureTable(IDS, FEATURES, ready=True), IDS, training)


def test_verdicts_are_those_of_models_that_did_not_know_the_label(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2, strategy="random") as made:
        label(made, 60)
        checks, labels = check_weights(made.state.standing_checks()), dict(made.state.labels)
        training, learner = trained(labels)  # type: ignore[arg-type]
        evidence = AssessmentLabels(made.state.first_answers())
        found = assess(training._replace(drawn=checks), learner.trained, learner, evidence)
    assert (found.body.labels, found.body.checks) == (60, len(checks))
    right = 0
    for i in checks:
        rest = {j: y for j, y in labels.items() if j != i}
        mean = np.asarray(train(made.desk.features, rest, 10).mean)
        right += (made.desk.features[i] @ mean[:-1] + mean[-1]).argmax() == labels[i]
    told = sum(pair["count"] for pair in found.checks["confusion"] if pair["true"] == pair["guess"])
    assert abs(told - right) <= 2
    before = evidence.first
    sure = {i for i in labels if before[i].guess == labels[i] and (before[i].sure or 0.0) >= 0.9}
    last = [i for i in labels if i not in sure or i in checks][-10:]
    assert {*last} != {*list(labels)[-10:]}  # some labels were foretold
    kept = {i: y for i, y in labels.items() if i not in last}
    mean = np.asarray(train(made.desk.features, labels, 10).mean)
    then = np.asarray(train(made.desk.features, kept, 10, tol=CLASSIFIES).mean)
    left = np.array([i for i in range(N) if i not in labels])
    p, q = (softmax(made.desk.features[left] @ each[:-1] + each[-1]) for each in (mean, then))
    assert found.body.expected == pytest.approx(p.max(axis=1).mean(), abs=1e-4)
    gain = np.mean([p[i, c] - p[i, q[i].argmax()] for i, c in enumerate(p.argmax(axis=1))])
    assert found.body.gain == pytest.approx(gain, abs=1e-4)
    assert found.body.without == 10
    assert found.body.share == pytest.approx(np.bincount(Y[left]).max() / len(left), abs=0.05)


def test_assessment_is_logged_once_and_does_not_change_labels(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2) as made:
        label(made, 40)
        retrain(made.desk)
        retrain(made.desk)
        kinds = [event.body.kind for event in made.desk.log.read()]
        assert kinds.count("assessed") == 1
        assert made.state.assessed[-1].estimate is not None
        shown, state = made.next("me").result()["progress"]["accuracy"], fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state
        assert made.next("me").result()["progress"]["accuracy"] == shown  # before anything was computed


def test_a_pool_that_is_labelled_to_the_end_has_nothing_left() -> None:
    labels = dict(enumerate(Y[:N].tolist()))
    training, learner = trained(labels)
    training = training._replace(drawn=dict.fromkeys(range(20), 1.0))
    found = assess(training, learner.trained, learner, AssessmentLabels())
    assert found.body.estimate is None
    assert found.body.gain is None


def test_the_test_set_is_judged_by_the_model_that_never_saw_it(tmp_path: Path) -> None:
    labels, test = dict(enumerate(Y[:40].tolist())), {i: int(Y[i]) for i in range(100, 160)}
    training, learner = trained(labels)
    found = assess(training, learner.trained, learner, AssessmentLabels({}, test, set(test) | {200}))
    mean = np.asarray(train(FEATURES, labels, 10).mean)
    right = (FEATURES[100:160] @ mean[:-1] + mean[-1]).argmax(axis=1) == Y[100:160]
    assert found.test is not None
    assert (found.test["n"], found.test["estimate"]) == (60, pytest.approx(right.mean()))
    assert found.test["low"] < right.mean() < found.test["high"]
    assert sum(each["true"] for each in found.test["classes"]) == 60
    left = [i for i in range(40, N) if i not in test and i != 200]
    p = softmax(FEATURES[left] @ mean[:-1] + mean[-1])
    assert found.body.expected == pytest.approx(p.max(axis=1).mean(), abs=1e-4)  # test items are not left


def test_checks_are_judged_by_people_where_the_model_learned_a_consensus() -> None:
    labels = dict(enumerate(Y[:60].tolist()))
    training, learner = trained(labels)
    training = training._replace(drawn=dict.fromkeys(range(40), 1.0))
    found = assess(training, learner.trained, learner, AssessmentLabels())
    voted = {i: (labels[i] + 1) % 10 for i in range(20)}
    other = assess(training, learner.trained, learner, AssessmentLabels(voted=voted))
    right, less = (
        sum(pair["count"] for pair in each.checks["confusion"] if pair["true"] == pair["guess"])
        for each in (found, other)
    )
    assert right - less > 10
    assert other.body.estimate < found.body.estimate  # type: ignore[operator]
