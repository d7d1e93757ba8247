"""Queues: their items, their order, and guesses that stay hidden."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.quality.suspect_labels import LeftOut
from everylabel.labelling.queues import (
    COPY,
    MOST,
    QUEUES,
    SURE,
    QueueData,
    QueueRequest,
    expected_errors,
    labelled_otherwise,
    queue,
)
from everylabel.labelling.sources.consensus import find_consensus
from everylabel.labelling.state.types import CANNOT_TELL, Answer, ClassSet
from tests.labelling.desks import label, service, truth

P = np.array(
    [[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]]
)
X = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 1.0], [0.0, 1.0], [0.1, 1.0], [-1.0, 0.0]])
LOOK = QueueData(X, P, {}, {}, {})


def _items(look: QueueData, name: str, **of: float) -> list[int]:
    return [found.item for found in queue(look, QueueRequest(name, **of))]  # type: ignore[arg-type]


def test_half_sure_predicted_and_more_of_a_class() -> None:
    assert _items(LOOK, "between", class_=0) == [1, 2]
    assert _items(LOOK, "between", class_=1, low=0.3, high=0.4) == [2, 1, 5]
    assert _items(LOOK, "between") == [3, 1, 2]
    assert _items(LOOK, "predicted", class_=0) == [0, 1, 2, 5]
    assert _items(LOOK, "more", class_=2) == [4, 5, 1, 2, 3]  # though another class is likelier
    answered = LOOK._replace(answers={1: [Answer(1, "me", 0)]}, hidden=frozenset({2}))
    assert _items(answered, "predicted", class_=0) == [0, 5]  # the guess of a random check is hidden
    assert _items(LOOK._replace(probabilities=None), "more", class_=2) == []


def test_half_sure_of_several_classes_is_a_decision_near_its_threshold() -> None:
    probs = np.array([[0.9, 0.02, 0.3], [0.2, 0.1, 0.02], [0.05, 0.01, 0.02]])
    look = QueueData(X[:3], probs, {}, {}, {}, multi_label=True, thresholds=np.array([0.5, 0.12, 0.25]))
    assert _items(look, "between") == [1]  # by the middle class, .55; item 0 surely has the first class
    assert _items(look, "between", class_=0) == []
    assert _items(look, "between", class_=1) == [1]


def test_items_without_an_answer_to_a_class() -> None:
    sets = {0: ClassSet((0,), (1, 2)), 1: ClassSet((0,), (1,)), 2: ClassSet((), (2,)), 4: ClassSet((1,))}
    look = LOOK._replace(labels=sets, multi_label=True)
    assert _items(look, "unanswered", class_=2) == [4, 1]  # the most probable first
    assert _items(look, "unanswered", class_=0) == [2, 4]
    assert _items(look._replace(hidden=frozenset({4})), "unanswered", class_=2) == [1]
    assert _items(look._replace(labels={1: 0}), "unanswered", class_=2) == []


def test_most_alike() -> None:
    assert _items(LOOK, "like", item=0) == [1, 2]  # the cosine of 2 is .707
    assert _items(LOOK._replace(answers={1: [Answer(1, "me", 0)]}), "like", item=0) == [2]


def test_suspect_labels_worst_first_with_similar_items_of_another_label() -> None:
    told = {
        0: LeftOut(0, 0.4, 1, 0.4),
        1: LeftOut(1, 0.1, 0, 0.8),
        2: LeftOut(2, 0.3, 0, 0.1),  # odd, and likely right
        3: LeftOut(1, 0.9, 1, 0.0),
        4: LeftOut(2, 0.2, 1, 0.9),
    }
    look = LOOK._replace(labels={0: 0, 1: 1, 3: 1, 4: 0, 2: 2}, left_out=told)
    assert _items(look, "suspect") == [1, 0]  # 4 has another label since
    assert _items(look, "suspect", class_=0) == [0]
    assert expected_errors(look) == pytest.approx(1.3)
    assert labelled_otherwise(look, 1) == [0, 2]
    assert labelled_otherwise(LOOK._replace(labels={0: 0}), 0) == []


def test_disputed_and_cannot_tell() -> None:
    answers = {
        0: [Answer(1, "a", 0), Answer(9, "b", 1)],
        1: [Answer(2, "a", 0), Answer(3, "b", 0)],
        2: [Answer(4, "a", CANNOT_TELL)],
        3: [Answer(5, "a", CANNOT_TELL), Answer(6, "b", 1)],
        4: [Answer(7, "a", 0), Answer(8, "b", 1)],
        5: [Answer(10, "a", CANNOT_TELL)],
    }
    look = LOOK._replace(answers=answers, labels={0: 1, 1: 0, 3: 1})
    assert set(_items(look, "disputed")) == {0, 4}  # 4 is of the test set, which has no label here
    assert _items(look._replace(final=frozenset({0})), "disputed") == [4]
    assert _items(look, "cannot_tell") == [5, 2]


def test_agreement_of_people_and_sources_is_by_pairs(tmp_path: Path) -> None:
    from everylabel.labelling.service import SentSuggestion, suggest
    from tests.labelling.desks import IDS

    with service(tmp_path / "log.sqlite") as made:
        for i, (a, b) in enumerate([(0, 0), (1, 2), (3, 3)]):
            made.label("Ann", IDS[i], a).result()
            made.label("Ben", IDS[i], b).result()
        suggest(made, "me", "llm", [SentSuggestion(IDS[1], 1), SentSuggestion(IDS[9], 1)]).result()
        told = made.desk.read(made.views.sources).result()
    assert [(each["name"], each["agree"], each["shared"]) for each in told["people"]] == [
        ("Ann", 2, 3),
        ("Ben", 2, 3),
    ]
    assert told["people"][0]["confusions"] == [{"said": 1, "label": 2, "n": 1}]
    found = {tuple(pair["names"]): (pair["items"], pair["share"]) for pair in told["pairs"]}
    assert found[("Ann", "Ben")] == (3, pytest.approx(2 / 3))
    assert (found[("Ann", "llm")], found[("Ben", "llm")]) == ((1, 1.0), (1, 0.0))


def test_required_values_are_checked() -> None:
    with pytest.raises(EverylabelError, match="'more' without class; expected a class"):
        queue(LOOK, QueueRequest("more"))
    with pytest.raises(EverylabelError, match="'like' without item"):
        queue(LOOK, QueueRequest("like"))
    with pytest.raises(EverylabelError, match=f"expected one of '{next(iter(QUEUES))}'"):
        queue(LOOK, QueueRequest("best"))


def test_wrong_label_is_suspect_and_right_ones_are_not(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        items = label(made, 60)
        wrong = next(item for item in reversed(items) if truth(item) == 0)
        made.label("me", wrong, 1).result()
        retrain(made.desk)
        look = made.views.guesses.queue_data()
        found = queue(look, QueueRequest("suspect"))
        assert made.state.position[wrong] in [each.item for each in found[:3]]
        scores = [each.score or 0.0 for each in found]
        assert scores == sorted(scores, reverse=True)
        assert len(found) <= 4
        assert 0.5 < expected_errors(look) < 6.0
        alike = labelled_otherwise(look, made.state.position[wrong])
        assert any(truth(made.state.ids[i]) == 0 for i in alike)


def test_none_of_these_counts_for_no_class(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        items = label(made, 12)
        made.none_of_these("me", items[0]).result()
        look = made.views.guesses.queue_data()
        assert look.probabilities is not None
        assert look.probabilities.shape[1] == 10
        probs = made.desk.learner.pool.probs(np.arange(300))
        assert np.allclose(look.probabilities, probs[:, :10], atol=1e-6)


def test_near_copies_are_those_of_the_whole_pool_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path / "log", check_every=3) as made:
        label(made, 32)
        look, offered = made.views.guesses.queue_data(), 0
        assert look.probabilities is not None
        assert look.hidden
        rows = np.asarray(look.features, np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        guesses, sure = look.probabilities.argmax(axis=1), look.probabilities.max(axis=1) >= SURE
        for item in [*range(60), *look.hidden]:
            told = {item, *look.answers, *look.hidden}
            same = [i for i in range(len(rows)) if i not in told and guesses[i] == guesses[item]]
            near = [(-float(rows[i] @ rows[item]), i) for i in same if rows[i] @ rows[item] >= COPY]
            found = {i: bool(sure[i]) for _, i in sorted(near)[:MOST]}
            expected = found if item not in look.hidden and sure[item] and any(found.values()) else {}
            told_class, copies = made.views.guesses.copies(item)
            assert told_class == (int(guesses[item]) if expected else None)
            assert [*copies.items()] == [*expected.items()]
            offered += bool(expected)
        assert offered > 5
        compared: list[int] = []

        def note(_: object, item: int) -> list[int]:
            compared.append(item)
            return []

        monkeypatch.setattr("everylabel.labelling.guesses.near_copies", note)
        for item in range(60):
            made.views.guesses.copies(item)
        assert compared == [i for i in range(60) if sure[i] and i not in look.hidden]


def test_label_against_reliable_people_and_the_model_is_disputed() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = np.column_stack([y - 0.5, np.zeros(60)]) + 0.1 * rng.normal(size=(60, 2))
    said = np.column_stack([y, y ^ (rng.random(60) < 0.3), y ^ (rng.random(60) < 0.3)])
    said[7] = [1, 0, 0]  # two careless people slip on the same item
    answers = {i: [Answer(4 * i + j, "abc"[j], int(said[i, j])) for j in range(3)] for i in range(60)}
    labels = {i: int(said[i].sum() > 1) for i in range(60)}
    look = QueueData(x, None, labels, answers, {}, consensus=find_consensus(x, answers))
    score = {one.item: one.score for one in queue(look, QueueRequest("disputed"))}
    assert score[7] is not None
    assert score[7] < 0.5
    wrong = {i for i in labels if labels[i] != y[i]}
    assert wrong <= score.keys()
    assert len(score.keys() - wrong) < 10
