"""Suggestions are stored in the log, learned by the model, and hidden on random checks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.service import SentSuggestion as Sent
from everylabel.labelling.service import Service, suggest
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import LabelSet, State
from everylabel.labelling.state.types import Refused, Suggestion
from everylabel.log import events
from everylabel.log.events import Event
from everylabel.log.store import Store
from everylabel.projects.log import Proposed
from everylabel.web.routes.answers import SuggestedItem
from tests.labelling.desks import CLASSES, FEATURES, IDS, N, Y, fingerprint, label, probabilities, service
from tests.projects.starts import start

RNG = np.random.default_rng(0)
WRONG = RNG.random(N) < 0.25
SAID = np.where(WRONG, RNG.integers(10, size=N), Y[:N])


def state_after(*bodies: events.Body) -> State:
    state = State(["a", "b", "c", "d"])
    first = events.Project(["x", "y", "z"], {}, seed=0)
    for seq, body in enumerate([first, *bodies], 1):
        apply(state, Event(seq, 0.0, "me", body))
    return state


def give(made: Service, source: str = "llm", said: np.ndarray = SAID) -> Any:
    rows = [Sent(IDS[i], int(said[i])) for i in range(N)]
    return suggest(made, "me", source, rows).result()


def accuracy(made: Service) -> float:
    return float(np.mean(probabilities(made).argmax(axis=1) == Y[:N]))


def test_the_later_suggestion_of_a_source_counts_and_other_sources_stay() -> None:
    state = state_after(
        events.Suggested("llm", ["a", "b"], [0, 1], [0.5, None]),
        events.Suggested("rules", ["a"], [2]),
        events.Suggested("llm", ["a"], [1], [0.25]),
    )
    assert state.suggestions_to(0) == [("llm", Suggestion(1, 0.25)), ("rules", Suggestion(2, None))]
    assert state.suggestions_to(2) == []
    llm, rules = state.suggested()
    assert (llm.source, llm.items.tolist(), llm.classes.tolist()) == ("llm", [0, 1], [1, 1])
    assert llm.scores is not None
    np.testing.assert_array_equal(llm.scores, [0.25, np.nan])
    assert (rules.items.tolist(), rules.classes.tolist()) == ([0], [2])


def test_suggestions_follow_merged_classes_and_end_with_removed_ones() -> None:
    state = state_after(events.Suggested("llm", ["a", "b", "c"], [0, 1, 2]))
    apply(state, Event(3, 0.0, "me", events.Remove(0, into=1)))
    assert state.suggested()[0].classes.tolist() == [1, 1, 2]
    apply(state, Event(4, 0.0, "me", events.Remove(2)))
    assert state.suggested()[0].items.tolist() == [0, 1]
    assert state.suggestions_to(2) == []


def test_probabilities_of_classes_follow_merges_and_removals() -> None:
    state = state_after(
        events.Suggested(
            "llm", ["a", "b"], [0, 1], [0.5, None], over=[0, 1, 2], probabilities=[[0.5, 0.2, 0.3], None]
        )
    )
    probs = state.suggested()[0].probs
    assert probs is not None
    np.testing.assert_allclose(probs, [[0.5, 0.2, 0.3], [0.0, 1.0, 0.0]])
    apply(state, Event(3, 0.0, "me", events.Remove(1, into=0)))
    moved = state.suggested()[0].translated({0: 1, 2: 0}).probs
    assert moved is not None
    np.testing.assert_allclose(moved, [[0.3, 0.7], [0.0, 1.0]], rtol=1e-6)
    apply(state, Event(4, 0.0, "me", events.Remove(2)))
    left = state.suggested()[0].translated({0: 0}).probs
    assert left is not None
    np.testing.assert_allclose(left, [[1.0], [1.0]])


def test_scores_count_if_all_suggestions_with_probabilities_lost_their_class() -> None:
    state = state_after(
        events.Suggested("llm", ["a"], [2], over=[1, 2], probabilities=[[0.2, 0.8]]),
        events.Suggested("llm", ["b"], [0], [0.75]),
    )
    assert state.suggested()[0].probs is not None
    apply(state, Event(4, 0.0, "me", events.Remove(2)))
    (left,) = state.suggested()
    assert (left.items.tolist(), left.classes.tolist(), left.probs) == ([1], [0], None)


def test_sent_probabilities_are_kept_once(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite") as made:
        said = [Sent(IDS[0], "3", 0.6, {"3": 0.6, "4": 0.4})]
        assert suggest(made, "me", "llm", said).result()["new"] == 1
        assert suggest(made, "me", "llm", said).result()["new"] == 0
        one = made.state.suggestions["llm"][IDS[0]]
        assert {made.state.classes[number]: p for number, p in one.probs.items()} == {"3": 0.6, "4": 0.4}
    with service(tmp_path / "log.sqlite") as made:
        assert made.state.suggestions["llm"][IDS[0]] == one


def test_suggestions_of_items_that_join_later_count_then() -> None:
    state = State(["a"])
    apply(state, Event(1, 0.0, "", events.Project(["x"], {}, seed=0)))
    apply(state, Event(2, 0.0, "", events.Suggested("llm", ["a", "e"], [0, 0])))
    assert state.suggested()[0].items.tolist() == [0]
    state.source = {"a": 0, "e": 1}
    apply(state, Event(3, 0.0, "", events.Extended(["e"], "digest")))
    assert state.suggested()[0].items.tolist() == [0, 1]


def test_an_unknown_class_in_the_log_is_reported() -> None:
    with pytest.raises(EverylabelError, match="never existed"):
        state_after(events.Suggested("llm", ["a"], [7]))


def test_nothing_is_learned_of_test_items_and_of_cannot_tell_items() -> None:
    state = state_after(
        events.Suggested("llm", ["a", "b", "c", "d"], [0, 1, 2, 0]),
        events.HeldOut("a"),
        events.CannotTell("b"),
        events.Label("c", 1),
    )
    found = LabelSet.of(state, {}).suggestions[0]
    assert (found.items.tolist(), found.classes.tolist()) == ([2, 3], [2, 0])


def test_model_learns_from_suggestions_alone_and_labels_correct_them(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0) as made:
        assert made.next("me").result()["next"]["probabilities"] is None
        assert give(made) == {"new": N, "suggestions": N, "repeated": 0, "added_classes": []}
        retrain(made.desk)
        alone = accuracy(made)
        assert alone > 0.85, "the head averages the source's errors out"
        assert made.next("me").result()["next"]["probabilities"] is not None
        label(made, 20)
        retrain(made.desk)
        assert accuracy(made) > 0.85


def test_useless_source_is_ignored_once_there_are_labels(tmp_path: Path) -> None:
    with (
        service(tmp_path / "a.sqlite", check_every=0) as made,
        service(tmp_path / "b.sqlite", check_every=0) as without,
    ):
        for one in (made, without):
            for i in range(40):
                one.jump("me", IDS[i]).result()
                one.label("me", IDS[i], int(Y[i])).result()
        give(made, said=np.random.default_rng(1).integers(10, size=N))
        retrain(made.desk)
        retrain(without.desk)
        assert made.desk.learner.evidence is None
        assert accuracy(made) > accuracy(without) - 0.02


def test_labels_of_people_are_learned_between_trainings(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0) as made:
        give(made)
        retrain(made.desk)
        wrong = next(i for i in np.flatnonzero(Y[:N] != SAID).tolist())
        before = probabilities(made)[wrong, Y[wrong]]
        made.jump("me", IDS[wrong]).result()
        made.label("me", IDS[wrong], int(Y[wrong])).result()
        assert probabilities(made)[wrong, Y[wrong]] > before
        made.undo("me").result()
        np.testing.assert_allclose(probabilities(made)[wrong, Y[wrong]], before, atol=0.01)


def test_a_ruled_out_class_is_learned_beside_suggestions(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0) as made:
        give(made)
        retrain(made.desk)
        before = probabilities(made)[0, SAID[0]]
        made.jump("me", IDS[0]).result()
        made.rule_out("me", IDS[0], int(SAID[0])).result()
        retrain(made.desk)
        assert probabilities(made)[0, SAID[0]] < 0.5 * before


def test_the_suggestion_is_shown_but_never_on_a_random_check(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=2) as made:
        give(made)
        seen: dict[str, set[int]] = {"chosen": set(), "check": set()}
        reply, checks = made.next("me").result(), list[str]()
        for _ in range(12):
            task = reply["next"]
            i = IDS.index(task["item"]["id"])
            seen[task["reason"]].add(len(task["suggestions"]))
            if task["suggestions"]:
                assert task["suggestions"] == [{"source": "llm", "class": int(SAID[i]), "score": None}]
            reply = made.label("me", IDS[i], int(Y[i])).result()
            checks += [IDS[i]] if task["reason"] == "check" else []
        assert seen == {"chosen": {1}, "check": {0}}
        (source,) = made.desk.read(made.views.sources).result()["sources"]
        assert (source["suggestions"], source["answered"]) == (N, 12)
        assert source["checks"] == len(checks) == 6
        assert source["low"] <= source["accuracy"] <= source["high"]
        again = made.jump("me", checks[0]).result()["next"]
        assert again["suggestions"] == [], "nor when a check is asked for again"


def test_sources_are_measured_by_random_checks_and_their_errors_by_all_labels(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite", check_every=0) as made:
        give(made, said=(Y[:N] + 1) % 10)
        made.jump("me", IDS[0]).result()
        made.label("me", IDS[0], int(Y[0])).result()
        (source,) = made.desk.read(made.views.sources).result()["sources"]
        assert (source["checks"], source["accuracy"], source["agree"]) == (0, None, 0)
        assert source["confusions"] == [{"said": int(Y[0] + 1) % 10, "label": int(Y[0]), "n": 1}]


def test_suggestions_survive_a_restart(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite") as made:
        give(made)
        label(made, 5)
        retrain(made.desk)
        before, expected = fingerprint(made), accuracy(made)
    with service(tmp_path / "log.sqlite") as made:
        assert fingerprint(made) == before
        assert made.desk.learner.evidence is not None
        assert accuracy(made) == pytest.approx(expected, abs=0.02)


def test_suggestions_of_unknown_items_and_classes_are_refused_whole(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite") as made:
        for wrong in (
            Sent("nobody", 0),
            Sent(IDS[1], 99),
            Sent(IDS[1], "no"),
            Sent(IDS[1], 0, None, {"no": 1}),
        ):
            with pytest.raises(Refused):
                suggest(made, "me", "llm", [Sent(IDS[0], 0), wrong]).result()
        assert made.state.suggestions == {}


def test_an_import_again_writes_only_what_is_new(tmp_path: Path) -> None:
    log, said = Store(tmp_path / "log.sqlite", "test"), [Proposed(IDS[0], "3", "llm", 0.5)]
    told: list[str] = []
    for rows in (said, said, [*said, Proposed(IDS[1], "4", "llm")]):
        start(log, IDS, classes=CLASSES, features=FEATURES, proposed=rows, note=told.append)
    found = [event.body for event in log.read() if isinstance(event.body, events.Suggested)]
    log.close()
    assert [body.items for body in found] == [[IDS[0]], [IDS[1]]]
    assert [body.scores for body in found] == [[0.5], None]
    assert [text.partition(";")[0] for text in told] == ["1 suggestion imported"] * 2


def test_sent_suggestions_are_all_taken_or_none_with_a_reason(tmp_path: Path) -> None:
    with service(tmp_path / "log.sqlite") as made:
        before = fingerprint(made)
        cases: list[tuple[list[Sent], str]] = [
            ([Sent(IDS[0], "0"), Sent("x", "0"), Sent("y", "0")], r"2 items are not in this project: x, y;"),
            ([Sent(IDS[0], "ten"), Sent(IDS[1], 3)], r"1 class is not .*: ten; .*\"add_classes\": true"),
            ([Sent(IDS[0], 99)], r"class is 99"),
        ]
        for said, message in cases:
            with pytest.raises(Refused, match=message):
                suggest(made, "me", "llm", said).result()
        assert fingerprint(made) == before
        rows = [Sent(IDS[0], "0"), Sent(IDS[1], "ten", 0.5), Sent(IDS[0], "ten")]
        told = suggest(made, "me", "llm", rows, add_classes=True).result()
        assert told == {"new": 2, "suggestions": 2, "repeated": 1, "added_classes": ["ten"]}
        assert made.state.suggestions_to(0)[0][1].class_ == made.state.book.number("ten")


def test_probabilities_that_are_all_zero_stand_for_the_class_alone(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        suggest(made, "me", "llm", [Sent(IDS[0], 1, 0.0, {CLASSES[1]: 0.0}), Sent(IDS[1], 2)]).result()
        label(made, 12)
        retrain(made.desk)  # an older version wrote such a suggestion; training must not fail
        (found,) = made.state.suggested()
        assert found.probs is None
        assert found.classes.tolist() == [1, 2]
        assert np.isfinite(probabilities(made)).all()
    with pytest.raises(ValueError, match="all 0"):
        SuggestedItem.model_validate({"item": "a", "probabilities": {"1": 0.0}})
