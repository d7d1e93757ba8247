"""Events as they are stored: rows of versions 0.1 and 0.2 are read as this version would write them."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.state import reducer
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import State
from everylabel.log import events
from everylabel.log.database import Row
from everylabel.log.store import Store

# One row of each kind as this version writes it, in an order in which they fit each other.
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("project", {"classes": ["a", "b"], "settings": {"strategy": "margin"}, "seed": 0}),
    ("class", {"name": "c"}),
    ("class_changed", {"class": 0, "name": "alpha", "key": "b"}),
    ("settings", {"check_every": 0}),
    ("label", {"item": "1", "class": 0, "imported": "source"}),
    ("out", {"item": "0", "reason": "check", "expected": 0.75}),
    ("label", {"guess": 0, "sure": 0.5, "check": True, "item": "0", "class": 1}),
    ("undo", {"saved": 7}),
    ("out", {"item": "0", "reason": "check", "again": True}),
    ("skip", {"item": "0", "check": True}),
    ("cannot_tell", {"item": "2"}),
    ("out", {"item": "3", "reason": "chosen"}),
    ("release", {"item": "3"}),
    ("label", {"guess": 0, "sure": 0.5, "item": "2", "class": 0, "bulk": 14}),
    ("undo", {"saved": 14}),
    ("finished", {"item": "3", "class": 1, "sure": 0.9, "audit": True}),
    ("finished", {"item": "3"}),
    ("none", {"guess": 1, "sure": 0.5, "item": "3"}),
    ("not", {"guess": 1, "sure": 0.5, "check": True, "item": "0", "class": 1}),
    ("remove", {"class": 2, "into": 0}),
    ("remove", {"class": 0}),
    ("restore", {"class": 0}),
    ("arrange", {"order": [1, 0]}),
    ("class_changed", {"class": 0, "colour": "#112233"}),
    ("class_changed", {"class": 0, "colour": ""}),
    ("undo", {"saved": 25}),
    ("class_changed", {"class": 1, "description": "a second letter", "imported": True}),
    ("class_changed", {"class": 1, "key": "b"}),
    ("extended", {"ids": ["4", "5"], "digest": "abc"}),
    ("suggested", {"source": "llm", "items": ["0", "4"], "classes": [1, 0], "scores": [0.5, None]}),
    ("wish", {"class": 1, "checks": 10}),
    ("out", {"item": "3", "reason": "check", "among": 1, "share": 0.25}),
    ("release", {"item": "3"}),
    ("held_out", {"item": "3"}),
    (
        "generation",
        {"number": 1, "labels": 64, "trusted": True, "frozen_accuracy": 0.65, "tuned_accuracy": 0.88},
    ),
    ("assessed", {"labels": 1, "checks": 0, "expected": 0.5, "gain": 0.01, "without": 10}),
    ("changed", {"item": "2"}),
    ("changed", {"item": "2", "confirmed": True}),
    ("promise", {"rate": 0.05}),
    ("finished", {"item": "3", "class": 1, "sure": 0.9, "level": 2}),
    ("promise", {}),
    ("left", {"item": "3"}),
    ("left", {"item": "3", "back": True}),
    ("sent", {"saved": 5}),
    ("retired", {}),
    ("settings", {"multi_label": True}),
    ("multi_label", {"item": "3", "present": [0], "absent": [1], "guesses": []}),
    ("settings", {"multi_label": False}),
]

# Rows of versions 0.1 and 0.2, and the events that they mean now.
OLDER: list[tuple[str, dict[str, Any], events.Body]] = [
    ("rename", {"class": 0, "name": "alpha"}, events.ClassChanged(0, name="alpha")),
    ("describe", {"class": 1, "text": "a letter"}, events.ClassChanged(1, description="a letter")),
    (
        "describe",
        {"class": 1, "text": "a letter", "imported": True},
        events.ClassChanged(1, description="a letter", imported=True),
    ),
    ("class_key", {"class": 1, "key": "b"}, events.ClassChanged(1, key="b")),
    ("colour", {"class": 0, "colour": "#112233"}, events.ClassChanged(0, colour="#112233")),
    ("colour", {"class": 0, "colour": ""}, events.ClassChanged(0, colour="")),
    ("undo_classes", {"saved": 7}, events.Undo(7)),
    ("changed", {"item": "2"}, events.ContentChanged("2")),
    ("confirmed", {"item": "2"}, events.ContentChanged("2", confirmed=True)),
    (
        "finished",
        {"item": "3", "class": 1, "sure": 0.9, "audit": True},
        events.AutoLabel("3", 1, 0.9, audit=True),
    ),
    ("unfinished", {"item": "3"}, events.AutoLabel("3")),
    ("named", {"class": 1, "phrases": ["b"], "vectors": "AAAAPA==", "encoder": "words"}, events.Retired()),
    ("refit", {"upto": 5}, events.Retired()),
    ("refit", {"upto": 5, "names": False, "rows": 3, "settled": 5}, events.Retired()),
    ("label", {"item": "1", "class": 0, "imported": True}, events.Label("1", 0, imported=True)),
    ("label", {"item": "1", "class": 0, "guess": 1, "p": 0.25}, events.Label("1", 0, guess=1)),
]


def test_a_row_comes_back_as_it_was_written() -> None:
    assert {kind for kind, _ in ROWS} == set(events.KINDS)
    for kind, stored in ROWS:
        body = events.from_row(kind, stored)
        assert isinstance(body, events.KINDS[kind])
        assert (kind, json.dumps(stored, sort_keys=True)) == (
            body.kind,
            json.dumps(events.to_row(body)[1], sort_keys=True),
        )


@pytest.mark.parametrize(("kind", "stored", "meant"), OLDER)
def test_a_row_of_an_older_version_means_the_same(
    kind: str, stored: dict[str, Any], meant: events.Body
) -> None:
    assert events.from_row(kind, stored) == meant
    assert events.from_row(*events.to_row(meant)) == meant  # and would be written as a row of today


def test_the_state_after_an_event_of_every_kind() -> None:
    state = State(["0", "1", "2", "3"])
    for seq, (kind, stored) in enumerate(ROWS, 1):
        apply(state, events.Event(seq, 0.0, "me", events.from_row(kind, stored)))
    assert state.classes == ["alpha", "b", "c"]
    assert state.labels == {1: 0}
    assert (state.book.order, dict(state.book.removed)) == ((1, 0), {2: 0})
    assert (state.book.colours, state.book.keys) == ({0: "#112233"}, {1: "b"})  # no key gives two classes
    assert state.book.descriptions == state.imported_descriptions == {1: "a second letter"}
    assert (state.settings["strategy"], state.settings["check_every"]) == ("margin", 0)
    assert (state.leases, state.n_cannot_tell(), set(state.skipped)) == ({}, 1, {0})
    assert (state.finished, state.audits, state.wishes) == ({}, {}, {1: 9})
    assert (list(state.test), state.absent, state.seq) == ([3], {"4", "5"}, len(ROWS))


def _kinds(base: type) -> Iterator[type]:
    """Return all classes of events that derive from a base, without those that others derive from."""
    kind: type
    for kind in base.__subclasses__():
        if kind.__subclasses__():
            yield from _kinds(kind)
        else:
            yield kind


def test_every_kind_of_event_is_registered_where_it_is_read() -> None:
    """Fail with the place to edit when somebody adds a kind of event and forgets one of them."""
    nothing = reducer._apply.dispatch(object)
    for kind in dict.fromkeys(_kinds(events._Kind)):
        assert kind in get_args(events.Body), (
            f"{kind.__name__} is missing from `Body` in log/events.py: no log with it can be read"
        )
        assert reducer._apply.dispatch(kind) is not nothing, (
            f"{kind.__name__} has no effect: register a function for it in labelling/state/reducer.py"
        )
    for kind in dict.fromkeys(_kinds(events.Answer)):
        assert kind in get_args(events.Answered), (
            f"{kind.__name__} is an answer and missing from `Answered` in log/events.py: history, undo and "
            "exports would not know it"
        )
        assert kind in get_args(events.OfItem), (
            f"{kind.__name__} is about an item and missing from `OfItem` in log/events.py"
        )
    for kind in dict.fromkeys(_kinds(events._OfItem)):
        assert kind in get_args(events.OfItem), (
            f"{kind.__name__} is about an item and missing from `OfItem` in log/events.py: the reducer would "
            "not know which one"
        )


def test_an_event_without_an_effect_is_refused() -> None:
    class Unknown:
        kind = "unknown"

    with pytest.raises(EverylabelError, match=r"kind 'unknown', which has no effect in reducer\.py"):
        apply(State(["0"]), events.Event(1, 0.0, "me", Unknown()))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", get_args(events.Answered), ids=lambda kind: kind.__name__)
def test_every_answer_can_be_taken_back(kind: type[events.Answered]) -> None:
    state, of_class = State(["0"]), {"class_": 1} if "class_" in kind.__struct_fields__ else {}
    apply(state, events.Event(1, 0.0, "", events.Project(["a", "b"], {}, seed=0)))
    apply(state, events.Event(2, 0.0, "me", kind("0", **of_class)))  # type: ignore[arg-type]
    last = state.last("me")
    assert last is not None
    assert (last.seq, last.item, type(last.body)) == (2, 0, kind)
    apply(state, events.Event(3, 0.0, "me", events.Undo(2)))
    assert state.last("me") is None
    assert state.place(0).where.name == "FREE"
    assert (state.labels, state.answers, state.skipped, state.ruled_out(0)) == ({}, {}, {}, frozenset())


def test_fields_of_other_versions_are_ignored() -> None:
    old = {"item": "1", "class": 0, "guess": 1, "p": 0.25}
    assert events.from_row("label", old) == events.Label("1", 0, guess=1)


def test_an_unknown_kind_or_a_missing_field_is_reported() -> None:
    for kind in ("note", "apply", "vote"):
        with pytest.raises(EverylabelError, match=f"kind '{kind}'; expected one of project, .*version"):
            events.from_row(kind, {"item": "1"})
    with pytest.raises(EverylabelError, match=r"kind 'label' that this version cannot read \(.*`class`.*\)"):
        events.from_row("label", {"item": "1"})
    with pytest.raises(
        EverylabelError, match=r"kind 'label' that this version cannot read .*another version"
    ):
        events.from_row("label", {"item": "1", "class": "first"})


def test_a_log_with_an_unknown_kind_does_not_open(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "log", "test")) as store:  # as a version to come would write it
        store.write([Row(1, 1, 0.0, "me", "note", '{"item": "digit 1"}', None)])
    store = Store(tmp_path / "log", "test", write=False)
    with pytest.raises(EverylabelError, match="event of kind 'note'"):
        store.read()
    store.close()
