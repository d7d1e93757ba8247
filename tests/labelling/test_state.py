"""Votes, ties, undo and leases; running counts against counting from scratch."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from everylabel.labelling.state.reducer import apply, apply_all
from everylabel.labelling.state.state import State, digest
from everylabel.labelling.state.types import CANNOT_TELL, IMPORT, WHICH, Agreement, Check, Entry, Place
from everylabel.log import events
from everylabel.log.events import Body, Event
from everylabel.selection.pool import Where
from tests.labelling.test_events import ROWS

IDS = [f"i{i}" for i in range(8)]


def state(*said: tuple[str, Body], settings: dict[str, Any] | None = None) -> State:
    """Return a state after a first event and people's events."""
    made = State(IDS)
    took(made, ("", events.Project(["a", "b", "c"], settings or {}, seed=3)), *said)
    return made


def took(made: State, *said: tuple[str, Body]) -> int | None:
    """Apply events to a state; return the item of the last one."""
    item = None
    for person, body in said:
        item = apply(made, Event(made.seq + 1, float(made.seq), person, body))
    return item


def label(item: int, number: int, **more: Any) -> events.Label:
    return events.Label(IDS[item], number, **more)


def test_item_place_follows_its_answers() -> None:
    made = state(
        ("me", label(0, 2)),
        ("me", events.CannotTell(IDS[1])),
        ("me", events.Skip(IDS[2])),
        ("me", events.Leased(IDS[3], "chosen")),
        ("anna", events.Leased(IDS[2], "chosen")),
    )
    places = [made.place(i) for i in range(5)]
    rest = [Place(Where.EXCLUDED), Place(Where.LEASED), Place(Where.LEASED), Place(Where.FREE)]
    assert places == [Place(Where.LABELLED, 2), *rest]
    assert took(made, ("me", events.Release(IDS[3]))) == 3
    assert made.place(3) == Place(Where.FREE)
    assert took(made, ("anna", events.Release(IDS[2]))) == 2
    assert made.place(2) == Place(Where.EXCLUDED)


@pytest.mark.parametrize(
    ("said", "learned"),
    [
        ([("anna", 0), ("ben", 1), ("carl", 0)], 0),  # most
        ([("anna", 0), ("ben", 1)], 1),  # of a tie, the last
        ([("anna", 0), ("ben", 1), ("anna", 2)], 2),  # an answer replaces the one before
        ([("anna", 1), (IMPORT, 0)], 1),  # a person before what was imported
        ([("anna", 1), (IMPORT, 0), ("ben", 0)], 0),
        ([("anna", 1), ("ben", CANNOT_TELL)], 1),  # cannot tell counts for nothing
    ],
)
def test_most_voices_are_learned(said: list[tuple[str, int]], learned: int) -> None:
    made = state()
    for person, value in said:
        took(made, (person, label(0, value) if value >= 0 else events.CannotTell(IDS[0])))
    assert made.labels == {0: learned}


def test_an_undo_restores_the_earlier_answer() -> None:
    made = state(("me", label(0, 0)), ("me", label(0, 1)), ("me", events.Skip(IDS[1])))
    last = made.last("me")
    assert last is not None
    assert (last.item, last.body) == (1, events.Skip(IDS[1]))
    assert took(made, ("me", events.Undo(4))) == 1
    assert made.skipped == {}
    assert took(made, ("me", events.Undo(3))) == 0
    assert made.labels == {0: 0}
    assert took(made, ("me", events.Undo(2))) == 0
    assert (dict(made.labels), dict(made.answers), made.last("me")) == ({}, {}, None)
    assert made.undone == {2, 3, 4}


def test_checks_are_noted_and_go_with_an_undo() -> None:
    made = state(
        ("me", label(0, 1)),
        ("me", events.Leased(IDS[1], "check")),
        ("me", label(1, 2, guess=1, sure=0.75, check=True)),
        ("me", events.Leased(IDS[2], "check")),
        ("me", events.Skip(IDS[2], check=True)),
    )
    assert list(made.checks.values()) == [Check(1, 1)]
    assert made.standing_checks() == [Check(1, 1)]
    assert made.unanswered_checks() == 1
    took(made, ("me", events.CannotTell(IDS[1])))
    assert made.standing_checks() == []  # its answer stands no more
    took(made, ("me", events.Undo(4)))
    assert made.checks == {}


def test_only_picked_items_count_as_handed_out() -> None:
    made = state(
        ("me", events.Leased(IDS[0], "chosen", expected=0.5)),
        ("me", events.Leased(IDS[1], "check", again=True)),
        ("me", events.Leased(IDS[2], "second")),
        ("me", events.Leased(IDS[3], "asked")),
        ("me", events.Leased(IDS[4], "check", expected=0.75)),
    )
    assert made.handed == 2
    assert made.curve == {0: 0.75}


def test_classes_are_known_by_every_name_they_had() -> None:
    made = state(("", events.NewClass("d  e")), ("", events.ClassChanged(0, name="alpha")))
    assert made.classes == ["alpha", "b", "c", "d  e"]
    assert made.names == {"a": 0, "alpha": 0, "b": 1, "c": 2, "d e": 3}


def test_events_of_items_that_the_source_no_longer_has_are_ignored() -> None:
    gone = events.Label("gone", 1)
    made = state(("me", gone), ("me", events.Leased("gone", "chosen")), ("me", events.Undo(2)))
    assert took(made, ("me", events.Skip("gone"))) is None
    assert (dict(made.labels), made.leases, list(made.history), made.seq) == ({}, {}, [], 5)


def test_a_key_is_remembered_with_its_event() -> None:
    made = state()
    event = Event(2, 0.0, "me", label(0, 1), "key")
    apply(made, event)
    assert made.requests["key"] == event
    assert made.history[2] == Entry(2, 0.0, "me", 0, label(0, 1))
    undo = Event(3, 0.0, "me", events.Undo(2), "back")
    apply(made, undo)
    assert made.requests == {"key": event, "back": undo}


@pytest.mark.parametrize("seed", range(4))
def test_running_counts_of_answers_equal_counting_from_scratch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made, given = state(settings={"annotators_per_item": 2}), dict[tuple[int, str], int]()
    for _ in range(150):
        person = str(rng.choice(["anna", "ben", IMPORT]))
        item, value = int(rng.integers(8)), int(rng.integers(3))
        act = rng.choice(["label", "label", "tell", "undo", "skip", "settings"])
        last = made.last(person)
        if act == "undo" and last is not None:
            took(made, (person, events.Undo(last.seq)))
        elif act == "tell":
            took(made, (person, events.CannotTell(IDS[item])))
        elif act == "skip":
            took(made, (person, events.Skip(IDS[item])))
        elif act == "settings":
            took(made, (person, events.Settings(annotators_per_item=1 + value)))
        else:
            took(made, (person, label(item, value)))
        given = {
            (entry.item, entry.person): getattr(entry.body, "class_", CANNOT_TELL)
            for entry in made.history.values()
            if entry.seq not in made.undone and not isinstance(entry.body, events.Skip)
        }
        wanted = made.settings["annotators_per_item"]
        voices = {i: [v for (j, _), v in given.items() if j == i] for i, _ in given}
        told = {i: [v for v in values if v != CANNOT_TELL] for i, values in voices.items()}
        most = {i: Counter(values).most_common() for i, values in told.items()}
        assert {i: sorted(a.value for a in answers) for i, answers in made.answers.items()} == {
            i: sorted(values) for i, values in voices.items()
        }
        assert all(Counter(told[i])[c] == most[i][0][1] for i, c in made.labels.items() if isinstance(c, int))
        assert set(made.labels) == {i for i, values in told.items() if values}
        assert made.n_answers == len(given)
        assert +made.tally.by_person == Counter(person for _, person in given)
        assert +made.tally.by_class == Counter(made.labels.values())
        assert set(made.tally.disputed) == {i for i, c in most.items() if len(c) > 1 and c[0][1] == c[1][1]}
        assert set(made.tally.wanting) == {i for i, values in voices.items() if len(values) < wanted}
        twin = Agreement()
        for values in told.values():
            twin.add(values)
        agreement = made.tally.agreement.get(WHICH, Agreement())
        assert (agreement.items, agreement.same, agreement.pairs) == (twin.items, twin.same, twin.pairs)
        assert +agreement.totals == +twin.totals


def _anything(made: State, rng: np.random.Generator) -> tuple[str, Body]:
    """Return a random event that is possible now."""
    person, item, number = str(rng.choice(["anna", "ben"])), IDS[int(rng.integers(8))], int(rng.integers(3))
    last, check = made.last(person), bool(rng.integers(2))
    out = events.Leased(item, "check" if check else "chosen", among=[None, 1][int(rng.integers(2))])
    said = events.Label(item, number, guess=number, sure=float(rng.random()), check=check)
    classes: Body = events.Restore(2) if 2 in made.book.removed else events.Remove(2, 1)
    may: list[Body] = [
        said,
        said,
        said,
        out,
        out,
        events.Release(item),
        events.Skip(item),
        events.HeldOut(item),
    ]
    may += [
        events.CannotTell(item),
        events.ContentChanged(item, confirmed=check),
        events.NoneOfThese(item),
        classes,
    ]
    may += [
        events.AutoLabel(item, number, audit=check),
        events.AutoLabel(item),
        events.Missing(item, back=check),
    ]
    may += [] if last is None else [events.Undo(last.seq), events.Undo(last.seq)]
    return person, may[int(rng.integers(len(may)))]


def test_answers_to_other_content_do_not_count_until_confirmed_or_given_again() -> None:
    made = state(
        ("me", label(0, 2)),
        ("anna", label(0, 2)),
        ("me", label(1, 1, check=True, guess=0, sure=0.5)),
        ("me", label(2, 0)),
    )
    assert took(made, ("", events.ContentChanged(IDS[0]))) == 0
    assert took(made, ("", events.ContentChanged(IDS[1]))) == 1
    assert (dict(made.labels), made.withdrawn_items(), made.checks) == ({2: 0}, [0, 1], {})
    assert (made.place(0), made.n_answers, made.tally.by_class[2]) == (Place(Where.FREE), 1, 0)
    took(made, ("", events.ContentChanged(IDS[0], confirmed=True)))
    assert (dict(made.labels), made.withdrawn_items()) == ({0: 2, 2: 0}, [1])
    assert [answer.person for answer in made.answers[0]] == ["me", "anna"]
    took(made, ("anna", label(1, 2)))
    assert (made.labels[1], made.withdrawn_items()) == (2, [])
    took(made, ("anna", events.Undo(made.seq)))
    assert made.withdrawn_items() == [1]  # what was said of the old content does not come back with it
    assert 1 not in made.labels


def test_a_check_of_a_class_remembers_its_class_and_share() -> None:
    made = state(
        ("me", label(0, 1)),
        ("me", events.Wish(2, 2)),
        ("me", events.Leased(IDS[1], "check", among=2, share=0.25)),
        ("me", label(1, 2, guess=2, sure=0.75, check=True)),
    )
    assert list(made.checks.values()) == [Check(1, 2, among=2, share=0.25)]
    assert made.wishes == {2: 1}
    took(made, ("me", events.Undo(5)), ("me", events.Leased(IDS[1], "check", again=True)))
    took(made, ("me", label(1, 0, guess=2, sure=0.75, check=True)))
    assert list(made.checks.values()) == [Check(1, 2, among=2, share=0.25)]  # it stays what it was
    assert made.wishes == {2: 1}
    took(made, ("me", events.Leased(IDS[2], "check", among=2, share=0.25)))
    assert made.wishes == {}
    took(made, ("me", events.Wish(1, 5)), ("me", events.Wish(1, 0)))
    assert made.wishes == {}


def test_a_test_item_is_never_learned_from() -> None:
    made = state(("me", label(0, 1)), ("me", label(1, 2)), ("", events.HeldOut(IDS[1])))
    assert (dict(made.labels), made.test_labels) == (
        {0: 1},
        {1: 2},
    )  # learned no more
    took(made, ("", events.HeldOut(IDS[2])), ("me", label(2, 0)))
    assert (dict(made.labels), made.test_labels) == ({0: 1}, {1: 2, 2: 0})
    assert {made.place(item).where for item in (1, 2)} == {Where.EXCLUDED}
    assert (made.label_of(0), made.label_of(2), made.label_of(3)) == (1, 0, None)
    assert (made.n_cannot_tell(), made.tally.by_class[0], made.tally.by_class[2]) == (0, 0, 0)
    took(made, ("me", events.Undo(6)), ("me", events.Leased(IDS[2], "test")))
    assert made.test_labels == {1: 2}
    assert made.place(2).where is Where.EXCLUDED  # also while somebody has it
    took(made, ("me", events.CannotTell(IDS[2])))
    assert (made.test_labels, made.n_cannot_tell()) == ({1: 2}, 1)


def test_the_guess_before_an_item_was_learned_is_that_of_its_first_standing_answer() -> None:
    made = state(
        ("me", label(0, 1, guess=1, sure=0.5)),
        ("anna", label(0, 1, guess=1, sure=0.99)),
        ("me", label(1, 0, guess=2, sure=0.25)),
        ("me", events.Undo(4)),
        ("me", events.Skip(IDS[1])),
        ("me", label(1, 0, guess=0, sure=0.75)),
        (IMPORT, label(2, 0, imported="source")),
        ("me", events.CannotTell(IDS[3])),
    )
    assert made.first_answers() == {0: (2, 1, 0.5), 1: (7, 0, 0.75), 2: (8, -1, None)}


def test_a_truth_outvotes_all_others_until_it_is_taken_back() -> None:
    made = state(("anna", label(0, 0)), ("ben", label(0, 0)), ("carl", label(0, 1, truth=True)))
    assert made.labels == {0: 1}
    assert made.n_answers == 3
    took(made, ("dora", label(0, 2, truth=True)))
    assert made.labels == {0: 2}  # of several, the last
    took(made, ("dora", events.Undo(5)), ("carl", events.Undo(4)))
    assert made.labels == {0: 0}


def test_an_item_that_left_is_neither_asked_nor_learned_from() -> None:
    made = state(
        ("me", label(0, 2)),
        ("me", events.Skip(IDS[1])),
        ("me", events.Leased(IDS[2], "check")),
        ("", events.HeldOut(IDS[3])),
    )
    took(made, *(("", events.Missing(IDS[i])) for i in range(4)))
    assert [made.place(i) for i in range(5)] == [*[Place(Where.EXCLUDED)] * 4, Place(Where.FREE)]
    assert (dict(made.labels), dict(made.answers), made.n_answers, made.tally.by_class[2]) == ({}, {}, 0, 0)
    assert (made.skipped, made.leases, made.holder, made.checked) == ({}, {}, {}, {})
    took(made, ("me", label(0, 1)))  # somebody had it on the screen
    assert made.labels == {}
    took(made, *(("", events.Missing(IDS[i], back=True)) for i in range(4)))
    assert made.labels == {0: 1}
    assert made.place(1) == Place(Where.FREE)
    took(made, ("me", events.Undo(10)))
    assert made.labels == {0: 2}


def test_equal_states_have_equal_digests_and_others_have_not() -> None:
    """The log has an event of every kind, by several people, some with keys."""
    people, log = ["anna", "ben", "me"], list[Event]()
    for seq, (kind, stored) in enumerate(ROWS, 1):
        person = "me" if seq < 30 else people[seq % 3]
        key = f"key {seq}" if seq % 4 else None
        log.append(Event(seq, 100.0 + seq, person, events.from_row(kind, stored), key))

    def hashed(n: int) -> str:
        return digest(apply_all(State(["0", "1", "2", "3"]), log[:n], "the log"))

    assert len({hashed(n) for n in range(len(log) + 1)}) == len(log) + 1
    assert hashed(len(log)) == hashed(len(log))
