"""The consensus of several people: the model learns it, and doubtful labels are asked again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.labelling.model.learner import Fitted
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import prepare
from everylabel.labelling.service import Service
from everylabel.labelling.sources.consensus import (
    KNOWN,
    ItemConsensus,
    agree,
    certainty,
    doubtful,
    find_consensus,
)
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import CANNOT_TELL, NONE, Answer
from everylabel.projects import predictions
from tests.labelling.desks import FEATURES, IDS, Y, service


def learned(made: Service, item: int) -> object:
    """Return the label of an item that the model was trained on."""
    return made.desk.learner.places[item].label


def answer(made: Service, item: int, **said: int) -> None:
    for person, number in said.items():
        made.label(person, IDS[item], number).result()


def test_the_model_learns_the_consensus_and_the_log_keeps_the_votes(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0) as made:
        for i in range(60):
            right = int(Y[i])
            careless = (right + 1 + i % 8) % 10
            answer(
                made,
                i,
                anna=right,
                ben=careless if i % 3 == 0 else right,
                carl=careless if i % 4 == 0 else right,
            )
        retrain(made.desk)
        assert made.views.guesses.queue_data().consensus.keys() == set(range(60))
        fooled = [i for i in range(60) if made.state.labels[i] != Y[i]]
        assert fooled, "two who are wrong alike win the vote"
        better = [i for i in range(60) if learned(made, i) == Y[i]]
        assert len(better) > 60 - len(fooled)
        flipped = next(i for i in fooled if learned(made, i) == Y[i])
        voted = made.state.labels[flipped]
        assert isinstance(voted, int)
        answer(made, flipped, dora=voted)
        assert learned(made, flipped) == made.state.labels[flipped], (
            "a new answer waits for the next training"
        )
        assert flipped not in made.views.guesses.queue_data().consensus, (
            "nor is the item disputed by the older answers"
        )


def test_labels_are_the_majority_until_reliability_is_known(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0) as made:
        for i in range(KNOWN - 1):
            answer(made, i, anna=int(Y[i]), ben=(int(Y[i]) + 1) % 10)
        retrain(made.desk)
        assert made.desk.consensus == {}


def test_consensus_equals_agree_and_an_adjudicator_is_final() -> None:
    rng = np.random.default_rng(0)
    said = {
        i: [int(Y[i]) if rng.random() < p else int(rng.integers(10)) for p in (0.9, 0.7)] for i in range(50)
    }
    answers = {i: [Answer(j, str(j), v) for j, v in enumerate(vs)] for i, vs in said.items()}
    answers[50] = [Answer(0, "0", CANNOT_TELL)]
    found = find_consensus(FEATURES, answers, final={7: said[7][0]})  # others answered later
    votes = np.array([said[i] for i in range(50)])
    classes = np.unique(votes)
    probs = agree(
        FEATURES[:50],
        np.searchsorted(classes, votes),
        len(classes),
        {7: int(np.searchsorted(classes, said[7][0]))},
    )
    assert found.keys() == set(range(50))
    assert found[7].label == said[7][0]
    assert found[7].probs[said[7][0]] == 1.0
    for i in range(50):
        np.testing.assert_allclose([found[i].probs[int(c)] for c in classes], probs[i])
        assert (found[i].label, found[i].values) == (classes[probs[i].argmax()], sorted(said[i]))


@pytest.mark.parametrize("others", [0.99, 0.8])
def test_another_answer_is_worth_more_below_half_over_the_accuracy(others: float) -> None:
    certainty = dict.fromkeys(range(100), others) | {100: 0.6, 101: 0.3}
    accuracy = (100 * others + 0.6 + 0.3) / 102
    assert (1 / (2 * accuracy) > 0.6) == (others == 0.8)
    assert doubtful(certainty) == ([101, 100] if others == 0.8 else [101])
    assert doubtful({}) == []


def test_auto_asks_another_person_about_doubtful_labels(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0, annotators_per_item="auto") as made:
        for i in range(150):
            right = int(Y[i])
            answer(made, i, anna=(right + 1 + i % 7) % 10 if i % 10 == 0 else right)
        assert made.next("ben").result()["next"]["reason"] == "chosen"
        retrain(made.desk)
        task = made.next("carl").result()["next"]
        item = IDS.index(task["item"]["id"])
        assert (task["reason"], item % 10) == ("second", 0), "its label is wrong"
        answer(made, item, carl=int(Y[item]))
        assert made.next("anna").result()["next"]["reason"] == "chosen", "she has answered all of them"


def test_auto_asks_once_about_items_with_several_classes(tmp_path: Path) -> None:
    how: dict[str, Any] = {"check_every": 0, "annotators_per_item": "auto", "multi_label": True}
    with service(tmp_path / "log.sqlite", ["small", "large"], **how) as made:
        for i in range(150):
            large = int((Y[i] > 4) != (i % 3 == 0))  # one in three is wrong
            made.label_set("anna", IDS[i], [large], [1 - large]).result()
        retrain(made.desk)
        assert made.desk.assessment is not None
        assert made.next("ben").result()["next"]["reason"] == "chosen"


def test_certainty_equals_rounds_of_loops_and_finds_wrong_labels() -> None:
    rng, k = np.random.default_rng(2), 4
    wrong = rng.random(200) < 0.2
    left_out = {i: float(rng.beta(1, 12) if wrong[i] else rng.beta(8, 2)) for i in range(200)}
    found, a = certainty(left_out, k), 0.9
    for _ in range(50):
        q = {i: p * a / (p * a + (1 - p) * (1 - a) / (k - 1)) for i, p in left_out.items()}
        a = sum(q.values()) / 200
    np.testing.assert_allclose(list(found.values()), list(q.values()), atol=1e-9)
    assert np.mean([wrong[i] for i in doubtful(found)]) > 0.9
    assert certainty({}, 3) == {}


def test_exports_train_on_a_consensus_of_no_class_as_the_page_does(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = {0: ItemConsensus(NONE, [NONE, 0], {}), 3: ItemConsensus(1, [NONE, 1], {})}
    monkeypatch.setattr(predictions, "find_consensus", lambda *_: agreed)

    def taken(_: object, labels: object, none: object, *__: object, **___: object) -> Fitted:
        return Fitted((labels, none))  # type: ignore[arg-type]

    monkeypatch.setattr(predictions, "fit_classes", taken)
    labels: dict[int, int] = {0: 0, 1: 1}
    label_set = LabelSet([*"abcde"], ["x", "y"], labels, {}, {}, {}, [], {}, [3, 4], {}, {})
    ready = prepare(np.eye(5))
    assert predictions.trained(ready, label_set).posterior == ({1: 1, 3: 1}, [0, 4])  # type: ignore[comparison-overlap]
    without = label_set._replace(none=[])  # the model has no column for it
    taken_without = predictions.trained(ready, without).posterior
    assert taken_without == ({0: 0, 1: 1, 3: 1}, [])  # type: ignore[comparison-overlap]
