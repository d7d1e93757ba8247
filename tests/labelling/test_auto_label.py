"""Let the model finish: people confirm a random sample, the model learns nothing, one undo reverts it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.labelling import auto_label, progress
from everylabel.labelling.auto_label import neighbour_agreement, number_to_propose
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.quality.certificate import certify
from everylabel.labelling.service import Service, label_many
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import ClassSet, Refused, classes_of
from everylabel.log import events
from everylabel.log.events import AutoLabel, Promise
from everylabel.selection.pool import Where
from tests.labelling.desks import fingerprint, label, service, truth
from tests.labelling.test_state import IDS, state, took

RATE = 0.1


def _started(made: Service) -> dict[str, Any]:
    """Start confirmations after 120 labels; return the reply with the first one."""
    label(made, 120)
    reply = auto_label.start(made.views, "me", RATE, 0.95).result()
    assert reply["next"]["reason"] == "audit"  # at once, in place of the item in sight
    return reply


def _confirm(made: Service, reply: dict[str, Any], wrong: tuple[int, ...] = ()) -> dict[str, Any]:
    """Answer confirmations with the model's classes, except for some, until none is left."""
    n = 0
    while reply["next"]["reason"] == "audit":
        assert reply["next"]["probabilities"] is None  # the guess is hidden
        item = reply["next"]["item"]["id"]
        said: Any = made.state.proposals[made.state.position[item]][0]
        reply = made.label("me", item, (said + (n in wrong)) % 10).result()
        n += 1
    return reply


def test_people_confirm_and_the_model_labels_the_rest(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        reply = _started(made)
        before = reply["progress"]["finishing"]
        assert (before["confirmed"], before["ready"], before["rate"]) == (0, 0, RATE)
        assert before["items"] == len(made.state.proposals) > before["needed"] > 20
        with pytest.raises(Refused, match=r"0 confirmed, 0 wrong, cannot promise 10.0% yet; [0-9]+ more"):
            auto_label.finish(made.views, "me").result()
        assert LabelSet.of(made.state, {}).by_model == {}  # a proposal is no label
        reply = _confirm(made, reply)
        now = reply["progress"]["finishing"]
        assert (now["confirmed"], now["wrong"], now["needed"]) == (before["needed"], 0, 0)
        assert now["ready"] == now["items"]
        mean = np.array(made.desk.learner.pool.posterior.mean)
        proposals, people = dict(made.state.proposals), set(made.state.labels)
        held = made.state.leases["me"].item
        reply = auto_label.finish(made.views, "me").result()
        assert np.array_equal(made.desk.learner.pool.posterior.mean, mean)  # nothing is learned
        assert made.state.finished == {
            i: each[0] for i, each in proposals.items() if i not in people and i != held
        }
        told = reply["progress"]["finished"]
        assert told == {
            "items": len(made.state.finished),
            "of": now["items"],
            "rate": RATE,
            "confidence": 0.95,
            "confirmed": before["needed"],
            "wrong": 0,
            "classes": [],
        }
        assert reply["progress"]["finishing"] is None
        exported = LabelSet.of(made.state, {})
        assert len(exported.by_model) == told["items"]
        assert not exported.by_model.keys() & exported.labels.keys()
        state = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == state
        labels = len(again.state.labels)
        reply = auto_label.take_back(again.views, "me").result()
        assert (reply["progress"]["finished"], again.state.finished) == (None, {})
        assert len(again.state.labels) == labels
        state = fingerprint(again)
    with service(tmp_path / "log") as last:
        assert fingerprint(last) == state


def test_confirmations_are_random_and_continue_after_a_restart(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        reply = _started(made)
        order = list(made.state.proposals)
        sure = [each[1] for each in made.state.proposals.values()]
        assert sure != sorted(sure, reverse=True)
        for i in range(5):
            item = reply["next"]["item"]["id"]
            assert (reply["next"]["reason"], made.state.position[item]) == ("audit", order[i])
            reply = made.label("me", item, truth(item)).result()
    with service(tmp_path / "log") as made:
        reply = made.next("me").result()
        assert made.state.position[reply["next"]["item"]["id"]] == order[5]
        assert reply["progress"]["finishing"]["confirmed"] == 5


def test_people_label_while_items_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 120)
        answered: list[str] = []

        def compares(features: Any, references: Any, known: Any, items: Any, probs: Any) -> np.ndarray:
            answered.append(made.state.ids[items[0]])
            label_many(made, "you", answered, truth(answered[0])).result(60)
            return neighbour_agreement(features, references, known, items, probs)

        monkeypatch.setattr(auto_label, "neighbour_agreement", compares)
        auto_label.start(made.views, "me", RATE, 0.95).result(60)
        assert made.state.position[answered[0]] not in made.state.proposals
        assert made.state.proposals


def test_errors_ask_for_more_confirmations_and_skipping_counts_as_one(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        reply = _started(made)
        needed = reply["progress"]["finishing"]["needed"]
        reply = made.skip("me", reply["next"]["item"]["id"]).result()
        now = reply["progress"]["finishing"]
        assert (now["confirmed"], now["wrong"]) == (1, 1)
        assert now["needed"] is None or now["needed"] >= needed
        outcomes = [True, *[None] * (len(made.state.proposals) - 1)]
        where = [each[2] for each in made.state.proposals.values()]
        assert now["needed"] == certify(where, outcomes, rate=RATE, confidence=0.95).needed


def test_a_model_that_is_sure_of_too_few_items_is_refused(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        assert auto_label.preview(made.views, 0.05, 0.95).result() == {
            "items": 0,
            "yes": None,
            "needed": None,
            "finishing": None,
            "finished": None,
        }
        label(made, 3)
        with pytest.raises(Refused, match=r"items, too few to promise 0.5%; label more items"):
            auto_label.start(made.views, "me", 0.005, 0.95).result()
        with pytest.raises(Refused, match="nothing is confirmed yet"):
            auto_label.finish(made.views, "me").result()
        assert (made.state.finished, made.state.proposals, made.state.promise) == ({}, {}, None)


def test_taking_back_ends_the_confirmations(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        _started(made)
        reply = auto_label.take_back(made.views, "me").result()
        assert (reply["progress"]["finishing"], made.state.proposals) == (None, {})
        held = made.state.ids[made.state.leases["me"].item]
        assert made.label("me", held, truth(held)).result()["next"]["reason"] == "chosen"


def test_labels_of_the_model_follow_a_merged_class_and_are_free_after_its_removal(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 30)
        made.desk.submit(lambda: _emitted(made, {200: 3, 201: 3, 202: 4})).result()
        made.classes.remove("me", 3, 5).result()
        made.classes.remove("me", 4).result()
        exported = LabelSet.of(made.state, {})
        numbers: dict[int, Any] = dict(exported.by_model)
        assert {i: exported.classes[c] for i, c in numbers.items()} == {200: "5", 201: "5"}
        assert made.views.figures("me")["finished"]["items"] == 2
        places = [made.desk.learner.pool.state[i] for i in (200, 201, 202)]
        assert places == [Where.EXCLUDED, Where.EXCLUDED, Where.FREE]
        state = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == state


def _emitted(made: Service, classes: dict[int, int]) -> Any:
    for item, number in classes.items():
        made.desk.emit("me", AutoLabel(made.state.ids[item], number, 0.9))
    return lambda: None


def test_neighbours_of_another_class_lower_the_score() -> None:
    rng = np.random.default_rng(0)
    truth_of = np.repeat([0, 1], 40)
    features = 3.0 * np.eye(2)[truth_of] + 0.3 * rng.normal(size=(80, 2))
    probs = np.where(np.eye(2)[truth_of] > 0, 0.9, 0.1)
    probs[5] = [0.1, 0.9]  # a confident error among items of class 0
    free = np.arange(80)
    found = neighbour_agreement(features, free, probs, free, probs)
    assert found.argmin() == 5
    likeness = _cosines(features - features.mean(axis=0))
    np.fill_diagonal(likeness, -np.inf)
    for i in (0, 5, 70):  # its slow twin
        near = sorted(range(80), key=lambda j: -likeness[i, j])[:5]  # of so few references
        assert found[i] == pytest.approx(np.mean([probs[j, probs[i].argmax()] for j in near]))


def _cosines(rows: np.ndarray) -> np.ndarray:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def test_half_of_the_rest_is_proposed_unless_too_many_errors_are_expected() -> None:
    assert number_to_propose(np.full(90, 0.98), 100, 0.05) == 50
    assert number_to_propose(np.full(90, 0.999), 100, 0.05) == 90  # all that have a class
    assert number_to_propose(np.full(90, 0.85), 100, 0.05) == 0
    assert number_to_propose(np.r_[np.full(20, 0.999), np.full(80, 0.5)], 100, 0.05) == 20
    assert number_to_propose(np.zeros(0), 100, 0.05) == 0


def test_model_gives_items_of_a_multi_label_project_all_their_classes(tmp_path: Path) -> None:
    def right(item: str) -> list[int]:
        return [c for c, yes in enumerate([truth(item) % 2 == 0, truth(item) >= 5]) if yes]

    with service(tmp_path / "log", ["even", "large"], check_every=0, multi_label=True) as made:
        reply = made.next("me").result()
        for i in range(120):
            item = reply["next"]["item"]["id"]
            reply = made.label_set("me", item, right(item)).result()
            if i % 20 == 19:
                retrain(made.desk)  # as beside the page: steps since a training are replayed with each label
        item = reply["next"]["item"]["id"]
        auto_label.start(made.views, "me", 0.2, 0.9).result()
        reply = made.label_set("me", item, right(item)).result()
        n = 0
        while reply["next"]["reason"] == "audit":
            assert reply["next"]["predicted"] is None  # the guess is hidden
            item = reply["next"]["item"]["id"]
            said = classes_of(made.state.proposals[made.state.position[item]][0])
            reply = made.label_set("me", item, [0, 1] if n == 0 and said != (0, 1) else list(said)).result()
            n += 1
        now = reply["progress"]["finishing"]
        assert now["wrong"] == (classes_of(next(iter(made.state.proposals.values()))[0]) != (0, 1))
        assert now["ready"] > 0
        proposals = dict(made.state.proposals)
        made.classes.add("me", "added meanwhile").result()
        auto_label.finish(made.views, "me").result()
        done = made.state.finished
        assert {i: classes_of(label) for i, label in done.items()} == {
            i: classes_of(proposals[i][0]) for i in done
        }
        assert all(made.state.place(i).where is Where.EXCLUDED for i in done)
        assert {i: proposals[i][0] for i in done} == done, "nobody said that the new class is absent"
        labels = LabelSet.of(made.state, {})
        assert labels.by_model == done
        assert np.mean([list(classes_of(done[i])) == right(made.state.ids[i]) for i in done]) > 0.8
        before = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == before
        assert again.state.finished == done
        auto_label.take_back(again.views, "me").result()
        assert again.state.finished == {}


def test_model_answers_one_class_and_items_stay_in_the_pool_for_the_others(tmp_path: Path) -> None:
    def right(item: str) -> list[int]:
        return [c for c, yes in enumerate([truth(item) % 2 == 0, truth(item) >= 5]) if yes]

    with service(tmp_path / "log", ["even", "large"], check_every=0, multi_label=True) as made:
        reply = made.next("me").result()
        for i in range(120):
            item = reply["next"]["item"]["id"]
            reply = made.label_set("me", item, right(item)).result()
            if i % 20 == 19:
                retrain(made.desk)
        assert reply["next"]["asks"] is None
        item = reply["next"]["item"]["id"]
        plan = auto_label.preview(made.views, 0.2, 0.9, class_=1).result()
        assert 0 < plan["yes"] < plan["items"]
        auto_label.start(made.views, "me", 0.2, 0.9, class_=1).result()
        said = [label for label, _, _ in made.state.proposals.values()]
        assert set(said) == {ClassSet((1,), ()), ClassSet((), (1,))}
        reply = made.label_set("me", item, right(item)).result()
        while reply["next"]["reason"] == "audit":
            assert (reply["next"]["asks"], reply["next"]["predicted"]) == (1, None)
            item = reply["next"]["item"]["id"]
            answer = ([1], []) if 1 in right(item) else ([], [1])
            reply = made.label_set("me", item, *answer).result()
        now = reply["progress"]["finishing"]
        assert (now["class"], now["needed"]) == (1, 0)
        auto_label.finish(made.views, "me").result()
        done = made.state.partly
        answered = {i for i in made.state.proposals if i in made.state.answers}
        assert not made.state.finished
        assert not answered & done.keys()
        assert all(made.state.place(i).where is not Where.EXCLUDED for i in done)
        assert LabelSet.of(made.state, {}).by_model == done
        wrong = [(1 in done[i].present) != (1 in right(made.state.ids[i])) for i in done]
        assert np.mean(wrong) < 0.2
        told = auto_label.preview(made.views, 0.2, 0.9).result()["finished"]
        assert told["items"] == 0
        assert [(each["class"], each["rate"]) for each in told["classes"]] == [(1, 0.2)]
        more = auto_label.preview(made.views, 0.2, 0.9, class_=1).result()["items"]
        assert more <= len(made.state.ids) - len(done)

        free = next(i for i in done if made.state.place(i).where is Where.FREE)
        made.label_set("me", made.state.ids[free], [0]).result()
        assert free not in LabelSet.of(made.state, {}).by_model, "a person's answer counts alone"
        before = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == before
        auto_label.start(again.views, "me", 0.3, 0.8, class_=0).result()
        auto_label.take_back(again.views, "me").result()
        assert again.state.partly == done, "stopping takes nothing back"
        assert not again.state.confirmation
        auto_label.take_back(again.views, "me").result()
        assert not again.state.partly
        assert not again.state.kept
        with pytest.raises(Refused, match="class is 7"):
            auto_label.preview(again.views, 0.3, 0.8, class_=7).result()


def test_one_class_is_refused_where_items_have_exactly_one(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made, pytest.raises(Refused, match="items have one class"):
        auto_label.start(made.views, "me", RATE, 0.95, class_=1)


def _promises(*classes: int | None) -> list[tuple[str, events.Body]]:
    """Return the events of labels by the model of some classes, or of whole items (None)."""
    said: list[tuple[str, events.Body]] = [("", events.Settings(multi_label=True))]
    for i, c in enumerate(classes):
        said.append(("me", Promise(0.05, 0.95, True, 8, 4, 0, c)))
        present, absent = ([0], [1, 2]) if c is None else ([], [c])
        said.append(("me", AutoLabel(IDS[i], sure=0.9, present=present, absent=absent)))
    return said


def test_promise_about_a_class_is_not_made_of_the_class_it_is_merged_into() -> None:
    made = state(*_promises(0, 1))
    took(made, ("me", events.Remove(1, 2)))
    told: Any = progress.finished(made)
    assert [each["class"] for each in told["classes"]] == [0]
    took(made, ("me", events.Undo(made.seq)))
    told = progress.finished(made)
    assert [(each["class"], each["of"]) for each in told["classes"]] == [(0, 8), (1, 8)]


def test_confirmations_pause_while_their_class_is_gone() -> None:
    made = state(("", events.Settings(multi_label=True)), ("me", Promise(0.05, 0.95, class_=1)))
    took(made, ("me", AutoLabel(IDS[0], sure=0.9, level=0, present=[1], absent=[])))
    assert progress.finishing(made) is not None
    took(made, ("me", events.Remove(1)))
    assert (made.confirmation, progress.finishing(made)) == (None, None)
    took(made, ("me", events.Restore(1)))
    assert made.confirmation


def test_promise_of_earlier_labels_outlives_later_confirmations() -> None:
    made = state(*_promises(None, 1))
    for later in (Promise(0.3, 0.8), Promise()):  # confirmations that are stopped
        took(made, ("me", later))
        told: Any = progress.finished(made)
        assert (told["items"], told["rate"], told["of"]) == (1, 0.05, 8)
        assert [each["class"] for each in told["classes"]] == [1]
    took(made, ("me", AutoLabel(IDS[0])), ("me", AutoLabel(IDS[1])), ("me", Promise()))
    assert progress.finished(made) is None
