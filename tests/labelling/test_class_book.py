"""Classes as a value, and the labels of a class that is removed, merged or brought back."""

import pytest

from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import IMPORT, WHICH, ClassBook, Place, Refused, change_in_words
from everylabel.log import events
from everylabel.log.events import Body, Event
from everylabel.selection.pool import Where

IDS = [f"i{i}" for i in range(6)]
ANSWERS: list[tuple[str, Body]] = [
    ("me", events.Label(IDS[0], 0)),
    ("me", events.Label(IDS[1], 1)),
    ("anna", events.Label(IDS[1], 0)),
    ("me", events.Label(IDS[2], 2)),
    ("me", events.CannotTell(IDS[3])),
]


def state(*said: tuple[str, Body]) -> State:
    """Return a state of three classes, some answers (events 2 to 6), and later events."""
    made = State(IDS)
    for seq, (person, body) in enumerate([("", events.Project(["a", "b", "c"], {}, 0)), *ANSWERS, *said], 1):
        apply(made, Event(seq, 0.0, person, body))
    return made


def test_labels_of_a_removed_class_are_free_again() -> None:
    made = state(("me", events.Remove(0)))
    assert made.labels == {1: 1, 2: 2}
    assert (made.place(0), made.columns) == (Place(Where.FREE), (1, 2))
    assert ([answer.person for answer in made.answers[1]], 0 in made.answers) == (["me"], False)
    assert (made.n_answers, made.tally.by_person, made.tally.by_class[0]) == (3, {"me": 3, "anna": 0}, 0)


def test_labels_of_a_merged_class_are_those_of_the_other() -> None:
    made = state(("me", events.Remove(1, 0)))
    assert made.labels == {0: 0, 1: 0, 2: 2}
    figures = made.tally.agreement[WHICH].figures()
    assert figures is not None
    assert (figures["share"], dict(made.tally.disputed)) == (1.0, {})  # who differed agrees now
    assert made.tally.by_class[0] == 2


def test_merges_follow_each_other() -> None:
    made = state(("me", events.Remove(1, 0)), ("me", events.Remove(0, 2)))
    assert made.labels == {0: 2, 1: 2, 2: 2}
    apply(made, Event(9, 0.0, "me", events.Restore(1)))  # where it went once does not matter any more
    assert made.labels == {0: 2, 1: 2, 2: 2}  # of a tie, what was said last
    assert [answer.value for answer in made.answers[1]] == [1, 2]


def test_older_answer_does_not_return_with_a_removed_class() -> None:
    made = state(("me", events.Label(IDS[0], 2)), ("me", events.Remove(2)))
    assert 0 not in made.answers
    assert made.place(0) == Place(Where.FREE)


@pytest.mark.parametrize("change", [events.Remove(0), events.Remove(0, 1), events.Remove(2, 1)])
@pytest.mark.parametrize("by", ["restore", "undo"])
def test_bringing_a_class_back_brings_its_labels_back(change: events.Remove, by: str) -> None:
    before = state()
    back: Body = events.Restore(change.class_) if by == "restore" else events.Undo(7)
    made = state(("me", change), ("me", back))
    assert (made.labels, made.answers) == (before.labels, before.answers)
    assert (made.tally.by_class, made.tally.by_person) == (before.tally.by_class, before.tally.by_person)
    assert (made.n_answers, made.tally.disputed) == (5, before.tally.disputed)
    assert (made.columns, dict(made.book.removed)) == ((0, 1, 2), {})
    last = (0, 1, 2) if by == "undo" else (change.class_,)  # one brought back comes last
    assert made.book.order[-len(last) :] == last


def test_an_answer_is_taken_back_though_its_class_is_gone() -> None:
    made = state(("me", events.Remove(2, 1)), ("me", events.Undo(5)))
    assert made.labels == {0: 0, 1: 0}


def test_a_class_that_was_added_and_taken_back_keeps_its_number() -> None:
    made = state(("me", events.NewClass("d")), ("me", events.Label(IDS[4], 3)), ("me", events.Undo(7)))
    assert (made.classes, made.book.order, 4 in made.labels) == (["a", "b", "c", "d"], (0, 1, 2), False)
    apply(made, Event(10, 0.0, "me", events.NewClass("d")))
    assert (made.names["d"], made.book.order) == (4, (0, 1, 2, 4))


def test_undo_leaves_imported_labels() -> None:
    made = state(("me", events.ClassChanged(0, name="x")), (IMPORT, events.NewClass("d")))
    assert made.class_changes == []


def test_a_check_whose_class_is_removed_was_not_left_unanswered() -> None:
    out, label = events.Leased(IDS[4], "check"), events.Label(IDS[4], 2, guess=1, sure=0.5, check=True)
    made = state(("me", out), ("me", label), ("me", events.Remove(2)))
    assert (made.unanswered_checks(), made.standing_checks()) == (0, [])


def test_names_that_hardly_differ_are_alike() -> None:
    book = ClassBook().added(["card lost", "Top-up"])
    assert [book.like(name) for name in ("Card_Lost", "top up", "card")] == ["card lost", "Top-up", None]
    assert book.like("Card lost", but=0) is None
    assert book.after(events.Remove(0)).like("Card lost") is None


def test_changes_are_reported_in_words() -> None:
    book = ClassBook().added(["a", "b"])
    changes: list[events.OfClasses] = [
        events.NewClass("c"),
        events.ClassChanged(0, name="x"),
        events.ClassChanged(0, description="first"),
        events.Remove(0),
        events.Remove(0, 1),
        events.Restore(1),
        events.Arrange([1, 0]),
        events.ClassChanged(0, key="k"),
        events.ClassChanged(0, colour="#000000"),
    ]
    assert [change_in_words(change, book) for change in changes] == [
        "added “c”",
        "renamed “a” to “x”",
        "described “a”",
        "removed “a”",
        "merged “a” into “b”",
        "brought “b” back",
        "changed the order",
        "changed the key of “a”",
        "changed the colour of “a”",
    ]


def test_unknown_class_is_refused_with_the_nearest_name() -> None:
    book = ClassBook(["card payment", "transfer"], (0, 1))
    with pytest.raises(Refused, match=r"or a class.s name; did you mean .transfer."):
        book.number("transfr")
