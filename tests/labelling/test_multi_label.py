"""Several classes per item: votes by class, partial answers, undo, changes of classes, conversion."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.core import fit_map
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.queues import QueueRequest, queue
from everylabel.labelling.service import Service, label_many
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import LabelSet, State
from everylabel.labelling.state.types import ClassSet, Refused, classes_of, majority
from everylabel.log import events
from everylabel.log.events import Body, Event
from everylabel.models.scaling import suited_precision
from everylabel.selection.pool import Where
from tests.labelling.desks import FEATURES, IDS, fingerprint, probabilities, service, truth

CLASSES = ["even", "large", "round"]
MULTI: dict[str, Any] = {"multi_label": True}


def classes_of_digit(item: str) -> list[int]:
    digit = truth(item)
    return [c for c, yes in enumerate([digit % 2 == 0, digit >= 5, digit in (0, 6, 8, 9)]) if yes]


def answer(made: Service, n: int, person: str = "me") -> list[str]:
    """Give n whole answers; return the items."""
    reply, items = made.next(person).result(), []
    for _ in range(n):
        items.append(reply["next"]["item"]["id"])
        reply = made.label_set(person, items[-1], classes_of_digit(items[-1])).result()
    return items


def state(*said: tuple[str, Body], multi: bool = True) -> State:
    made = State(["i0", "i1", "i2"])
    first: tuple[str, Body] = ("", events.Project(["a", "b", "c"], {"multi_label": multi}, seed=0))
    for person, body in (first, *said):
        apply(made, Event(made.seq + 1, 0.0, person, body))
    return made


def said(item: int, present: list[int], absent: list[int] | None = None) -> events.MultiLabel:
    gone = [c for c in range(3) if c not in present] if absent is None else absent
    return events.MultiLabel(f"i{item}", present, gone)


def test_votes_are_counted_by_class_and_the_latest_answer_decides_a_tie() -> None:
    made = state(("ann", said(0, [0, 1])), ("ben", said(0, [1])), ("cem", said(0, [2])))
    assert made.labels[0] == ClassSet((1,), (0, 2))
    assert not made.tally.disputed
    made = state(("ann", said(0, [0])), ("ben", said(0, [1])))
    assert made.labels[0] == ClassSet((1,), (0, 2))
    assert list(made.tally.disputed) == [0]
    assert +made.tally.by_class == {1: 1}
    assert majority([ClassSet((0,), ()), ClassSet((), (0,)), ClassSet((0,), ())]) == ClassSet((0,), ())


def test_an_answer_about_some_classes_leaves_the_others() -> None:
    made = state(("me", said(0, [0], [])), ("me", said(0, [], [1])), ("me", said(0, [2], [0])))
    assert made.labels[0] == ClassSet((2,), (0, 1))
    np.testing.assert_array_equal(ClassSet((2,), (0, 1)).row((0, 2, 7)), [0, 1, np.nan])
    apply(made, Event(made.seq + 1, 0.0, "me", events.Undo(made.seq)))
    assert made.labels[0] == ClassSet((0,), (1,))


def test_a_reply_names_the_classes_that_an_answer_rules_out(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        item = made.next("ann").result()["next"]["item"]["id"]
        made.label_set("ann", item, [], [1]).result()
        made.label_set("ben", item, [1], []).result()
        (dispute,) = made.desk.read(made.views.disputed, 9).result()
        assert (dispute["label"], dispute["absent"]) == ([1], [])
        answers = [(each["person"], each["class"], each["absent"]) for each in dispute["answers"]]
        assert answers == [("ann", [], [1]), ("ben", [1], [])]
        made.undo("ben").result()
        known = made.desk.read(made.views.item, item).result()
        assert (known["label"], known["absent"]) == ([], [1])
        points = made.views.guesses.points(300, 300)
        at = points["idx"].tolist().index(made.state.position[item])
        assert (points["label"][at], points["absent"][at]) == ([], [1])


def test_merging_and_removing_classes_changes_sets_and_restoring_brings_them_back() -> None:
    made = state(("me", said(0, [0])), ("me", said(1, [1])), ("me", said(2, [], [0])))

    def become(body: Body) -> dict[int, object]:
        apply(made, Event(made.seq + 1, 0.0, "me", body))
        return dict(made.labels)

    assert become(events.Remove(0, into=1)) == {0: ClassSet((1,), (2,)), 1: ClassSet((1,), (2,))}
    assert become(events.Restore(0))[2] == ClassSet((), (0,))
    assert become(events.Remove(0)) == {0: ClassSet((), (1, 2)), 1: ClassSet((1,), (2,))}
    assert made.tally.by_class[1] == 1


def test_a_converted_project_keeps_its_labels_as_one_class_and_no_other() -> None:
    made = state(("me", events.Label("i0", 1)), ("me", events.NoneOfThese("i1")), multi=False)
    apply(made, Event(made.seq + 1, 0.0, "", events.Settings(multi_label=True)))
    assert made.labels == {0: ClassSet((1,), (0, 2)), 1: ClassSet((), (0, 1, 2))}
    apply(made, Event(made.seq + 1, 0.0, "me", events.NewClass("d")))
    assert made.labels[0] == ClassSet((1,), (0, 2))
    assert made.columns == (0, 1, 2, 3)
    assert (made.tally.by_class[1], made.tally.by_class[-2]) == (1, 0)
    apply(made, Event(made.seq + 1, 0.0, "", events.Settings(multi_label=False)))
    assert made.labels == {0: 1, 1: -2}


def test_agreement_is_counted_class_by_class() -> None:
    both = [("ann", said(1, [1])), ("ben", said(1, [1]))]
    made = state(("ann", said(0, [0, 1])), ("ben", said(0, [0])), *both)
    assert made.tally.agreement[1].figures() == {"items": 2, "share": 0.5, "alpha": 0.0}
    assert made.tally.agreement[0].figures() == {"items": 2, "share": 1.0, "alpha": 1.0}


def test_the_model_is_that_of_exact_training_after_undo_and_relabelling(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        items = answer(made, 12)
        made.undo("me").result()
        made.label_set("me", items[-1], ["round"], ["even"]).result()
        made.jump("me", items[3]).result()
        made.none_of_these("me", items[3]).result()
        rows = {item: [float(c in classes_of_digit(item)) for c in range(3)] for item in items}
        rows[items[-1]], rows[items[3]] = [0.0, np.nan, 1.0], [0.0, 0.0, 0.0]
        x = FEATURES[[IDS.index(item) for item in items]]
        mean = fit_map(x, np.array([rows[item] for item in items]), 3, suited_precision(3))
        logits = np.c_[FEATURES, np.ones(len(FEATURES))] @ mean
        np.testing.assert_allclose(probabilities(made), 1 / (1 + np.exp(-logits)), atol=1e-4)
        before = fingerprint(made)
        history = made.desk.read(made.views.history, "me", 1, None).result()[0]
        assert (history["kind"], history["class"], history["absent"]) == ("multi_label", [], CLASSES)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == before


def test_a_request_sent_twice_counts_once_and_wrong_ones_change_nothing(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        item = made.next("me").result()["next"]["item"]["id"]
        first = made.label_set("me", item, [0], key="k").result()
        assert made.label_set("me", item, ["even"], key="k").result()["saved"] == first["saved"]
        other = first["next"]["item"]["id"]
        wrong: list[tuple[Any, Any]] = [([0], [0]), ([], []), ([9], None), (["odd"], None)]
        for present, absent in wrong:
            with pytest.raises(Refused):
                made.label_set("me", other, present, absent).result()
        with pytest.raises(Refused, match="several classes"):
            made.label("me", other, 0).result()
        assert made.state.n_answers == 1
    with service(tmp_path / "single", CLASSES) as one, pytest.raises(Refused, match="one class"):
        one.label_set("me", IDS[0], [0]).result()


def test_only_strategies_for_several_classes_are_offered(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        answer(made, 12)
        names = [each["name"] for each in made.desk.read(made.views.session, "me").result()["strategies"]]
        assert "herding" in names
        assert "lookahead" not in names
        for name in names:
            made.change_settings("me", {"strategy": name}).result()
            answer(made, 1)  # the next item is chosen by it
        with pytest.raises(Refused, match="expected one of herding, margin"):
            made.change_settings("me", {"strategy": "lookahead"}).result()


def test_bulk_adds_a_class_to_items_and_takes_it_off_again(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        answered = answer(made, 3)
        some = [answered[0], "digit 250"]
        label_many(made, "me", some, "large").result()
        assert made.state.labels[250] == ClassSet((1,), ())
        assert 1 in classes_of(made.state.labels[IDS.index(answered[0])])
        label_many(made, "me", some, "large", remove=True).result()
        assert made.state.labels[250] == ClassSet((), (1,))
        made.undo("me").result()
        assert made.state.labels[250] == ClassSet((1,), ())
        reply = made.desk.read(made.views.item, "digit 250").result()
        assert (reply["state"], reply["label"]) == ("labelled", [1])


def test_the_task_marks_predicted_classes_and_a_check_hides_them(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=3, **MULTI) as made:
        answer(made, 20)
        replies = [made.next("me").result()["next"]]
        for _ in range(6):
            item = replies[-1]["item"]["id"]
            replies.append(made.label_set("me", item, classes_of_digit(item)).result()["next"])
        for task in replies:
            if task["reason"] == "check":
                assert (task["predicted"], task["probabilities"]) == (None, None)
            else:
                assert task["predicted"] == [c for c, p in enumerate(task["probabilities"]) if p >= 0.5]
        assert {task["reason"] for task in replies} == {"check", "chosen"}
        assert all(isinstance(check.guess, tuple) for check in made.state.checks.values())


def test_thresholds_chosen_by_the_pool_decide_on_the_page(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        items = answer(made, 40)
        retrain(made.desk)
        told = made.next("me").result()["next"]
        y = np.array([[float(c in classes_of_digit(item)) for c in range(3)] for item in items])
        x = FEATURES[[IDS.index(item) for item in items]]
        model = el.LaplaceClassifier(scale_features=False, prior_precision=suited_precision(3)).fit(x, y)
        probs = probabilities(made)
        left = [i for i, name in enumerate(IDS) if name not in items]
        said = probs >= el.thresholds(model.predict_proba(FEATURES[left]))
        assert (said != (probs >= 0.5)).any()
        assert told["predicted"] == np.flatnonzero(said[IDS.index(told["item"]["id"])]).tolist()
        counts = [each["predicted"] for each in made.views.progress("me")["classes"]]
        assert counts == said.sum(axis=0).tolist()
        free = {i for i in range(300) if i not in made.state.answers}
        found = {one.item for one in queue(made.views.guesses.queue_data(), QueueRequest("predicted", 2))}
        assert found == {i for i in free if said[i, 2]}
        made.classes.add("me", "thin").result()  # it has the usual threshold until the next training
        thresholds: Any = made.desk.learner.thresholds_of(range(4))
        assert thresholds[3] == 0.5


def test_yes_or_no_gets_the_item_of_the_most_informative_question(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        first = made.next("ann", questions=True).result()["next"]
        assert first["by"] != "question"  # nothing is learned yet
        answer(made, 15)
        made.label_set("ann", first["item"]["id"], [0], []).result()
        for _ in range(5):
            task = made.next("ann").result()["next"]
            item = IDS.index(task["item"]["id"])
            assert (task["reason"], task["by"]) == ("chosen", "question")

            def best(item: int = item) -> tuple[int, int]:
                pool = made.desk.learner.pool
                with pool.together():
                    pool.put(item, Where.FREE)  # as it was chosen
                found = el.select_question(pool)
                pool.put(item, Where.LEASED)
                return found

            unsure = int(
                np.abs(np.array(task["probabilities"]) - 0.5).argmin()
            )  # the class that the page asks
            assert made.desk.read(best).result() == (item, unsure)
            yes = unsure in classes_of_digit(IDS[item])
            made.label_set("ann", IDS[item], [unsure] if yes else [], [] if yes else [unsure]).result()
        task = made.next("ann").result()["next"]
        made.next("ann", questions=False).result()
        assert made.label_set("ann", task["item"]["id"], [1]).result()["next"]["by"] != "question"


def test_a_new_class_is_unanswered_and_the_counts_of_predictions_follow(tmp_path: Path) -> None:
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        answer(made, 10)
        made.classes.add("me", "thin").result()
        answer(made, 2)
        progress = made.views.progress("me")
        said = probabilities(made) >= 0.5
        assert [each["predicted"] for each in progress["classes"]] == said.sum(axis=0).tolist()
        asked = queue(made.views.guesses.queue_data(), QueueRequest("predicted", 0))
        free = {i for i in range(300) if i not in made.state.answers}
        assert {found.item for found in asked} == {i for i in free if said[i, 0]}
        exported = LabelSet.of(made.state, {})
        assert exported.multi_label
        assert exported.labels == made.state.labels


def test_a_pool_too_large_for_exact_updates_learns_by_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everylabel.labelling.model.learner.EXACT_UP_TO", 1)
    with service(tmp_path / "log", CLASSES, check_every=0, **MULTI) as made:
        answer(made, 8)
        assert not made.desk.learner.exact
        assert made.state.n_answers == 8
