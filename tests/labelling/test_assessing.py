"""What the background finds of a real model, against training without each label."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core.softmax import softmax
from everylabel.labelling.assessing import Evidence, assess
from everylabel.labelling.drawn import check_weights
from everylabel.labelling.refit import refit
from everylabel.labelling.replay import Start, start_of
from everylabel.labelling.training import train
from tests.labelling.desks import FEATURES, N, Y, fingerprint, label, service


def test_verdicts_are_those_of_models_that_did_not_know_the_label(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2, strategy="random") as made:
        label(made, 60)
        start = start_of(made.ledger)
        checks = check_weights(made.ledger.standing_checks())
        learner = start.learner(made.desk.features)
        found = assess(start, learner.pool.posterior, learner, Evidence(checks, made.ledger.foretold()))
    assert (found.body.labels, found.body.checks) == (60, len(checks))
    right = 0
    for i in checks:
        rest = {j: y for j, y in start.labels.items() if j != i}
        mean = np.asarray(train(made.desk.features, rest, start.n_classes).mean)
        right += (made.desk.features[i] @ mean[:-1] + mean[-1]).argmax() == start.labels[i]
    told = sum(pair["count"] for pair in found.checks["confusion"] if pair["true"] == pair["guess"])
    assert abs(told - right) <= 2
    kept = dict(list(start.labels.items())[:-12])
    mean, then = (np.asarray(train(made.desk.features, some, 10).mean) for some in (start.labels, kept))
    left = np.array([i for i in range(N) if i not in start.labels])
    p, q = (softmax(made.desk.features[left] @ each[:-1] + each[-1]) for each in (mean, then))
    assert found.body.expected == pytest.approx(p.max(axis=1).mean(), abs=1e-4)
    gain = np.mean([p[i, c] - q[i, c] for i, c in enumerate(p.argmax(axis=1))])
    assert found.body.gain == pytest.approx(gain, abs=1e-3)
    assert found.body.without == 12
    assert found.body.share == pytest.approx(np.bincount(Y[left]).max() / len(left), abs=0.05)


def test_it_is_written_down_once_and_changes_nothing(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2) as made:
        label(made, 40)
        refit(made.desk)
        refit(made.desk)
        kinds = [event.body.kind for event in made.desk.log.read()]
        assert kinds.count("assessed") == 1
        assert made.ledger.assessed[-1].estimate is not None
        shown, state = made.next("me").result()["progress"]["accuracy"], fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state
        assert made.next("me").result()["progress"]["accuracy"] == shown  # before anything was computed


def test_a_pool_that_is_labelled_to_the_end_has_nothing_left() -> None:
    labels = dict(enumerate(Y[:N].tolist()))
    start = Start(1, labels, [], tuple(range(10)), {}, True)
    learner = start.learner(FEATURES)
    found = assess(start, learner.pool.posterior, learner, Evidence(dict.fromkeys(range(20), 1.0), {}))
    assert found.body.estimate is None
    assert found.body.gain is None


def test_the_test_set_is_judged_by_the_model_that_never_saw_it(tmp_path: Path) -> None:
    labels, test = dict(enumerate(Y[:40].tolist())), {i: int(Y[i]) for i in range(100, 160)}
    start = Start(1, labels, [], tuple(range(10)), {}, True)
    learner = start.learner(FEATURES)
    found = assess(start, learner.pool.posterior, learner, Evidence({}, {}, test, set(test) | {200}))
    mean = np.asarray(train(FEATURES, labels, 10).mean)
    right = (FEATURES[100:160] @ mean[:-1] + mean[-1]).argmax(axis=1) == Y[100:160]
    assert found.test is not None
    assert (found.test["n"], found.test["estimate"]) == (60, pytest.approx(right.mean()))
    assert found.test["low"] < right.mean() < found.test["high"]
    assert sum(each["true"] for each in found.test["classes"]) == 60
    left = [i for i in range(40, N) if i not in test and i != 200]
    p = softmax(FEATURES[left] @ mean[:-1] + mean[-1])
    assert found.body.expected == pytest.approx(p.max(axis=1).mean(), abs=1e-4)  # test items are not left
