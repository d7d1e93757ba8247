"""Events as they are stored: logs of the version before are read as they are, and written as they were."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling import events
from everylabel.labelling.applying import apply
from everylabel.labelling.ledger import Ledger
from everylabel.projects.database.chain import Row
from everylabel.projects.database.store import Store

ROWS: list[tuple[str, dict[str, Any]]] = [  # as the version before has written them
    ("project", {"classes": ["a", "b"], "settings": {"strategy": "margin"}, "seed": 0}),
    ("class", {"name": "c"}),
    ("rename", {"class": 0, "name": "alpha"}),
    ("settings", {"check_every": 0}),
    ("label", {"item": "1", "class": 0, "imported": "source"}),
    ("out", {"item": "0", "reason": "check", "expected": 0.75}),
    ("label", {"item": "0", "class": 1, "guess": 0, "sure": 0.5, "check": True}),
    ("undo", {"saved": 7}),
    ("out", {"item": "0", "reason": "check", "again": True}),
    ("skip", {"item": "0", "check": True}),
    ("cannot_tell", {"item": "2"}),
    ("out", {"item": "3", "reason": "chosen"}),
    ("release", {"item": "3"}),
    ("refit", {"upto": 5}),
]
NEWER: list[tuple[str, dict[str, Any]]] = [
    ("label", {"item": "2", "class": 0, "guess": 0, "sure": 0.5, "bulk": 15}),
    ("undo", {"saved": 15}),
    ("finished", {"item": "3", "class": 1, "sure": 0.9, "audit": True}),
    ("unfinished", {"item": "3"}),
    ("none", {"item": "3", "guess": 1, "sure": 0.5}),
    ("not", {"item": "0", "class": 1, "guess": 1, "sure": 0.5, "check": True}),
    ("remove", {"class": 2, "into": 0}),
    ("remove", {"class": 0}),
    ("restore", {"class": 0}),
    ("arrange", {"order": [1, 0]}),
    ("colour", {"class": 0, "colour": "#112233"}),
    ("colour", {"class": 0, "colour": ""}),
    ("undo_classes", {"saved": 0}),  # of the last change
    ("describe", {"class": 1, "text": "a second letter"}),
    ("class_key", {"class": 0, "key": "b"}),
    ("class_key", {"class": 1, "key": "b"}),
    ("named", {"class": 1, "phrases": ["b", "a second letter"], "vectors": "AAAAPA==", "encoder": "words"}),
    ("refit", {"upto": 5, "names": False, "rows": 3}),
    ("extended", {"ids": ["4", "5"], "digest": "abc"}),
    ("wish", {"class": 1, "checks": 10}),
    ("out", {"item": "3", "reason": "check", "among": 1, "share": 0.25}),
    ("release", {"item": "3"}),
    ("held_out", {"item": "3"}),
    ("assessed", {"labels": 1, "checks": 0, "expected": 0.5, "gain": 0.01, "without": 10}),
    ("changed", {"item": "2"}),
    ("confirmed", {"item": "2"}),
    ("left", {"item": "3"}),
    ("left", {"item": "3", "back": True}),
    ("sent", {"saved": 15}),
]


def test_rows_come_back_as_they_were() -> None:
    assert {kind for kind, _ in [*ROWS, *NEWER]} == set(events.KINDS)
    for kind, stored in [*ROWS, *NEWER]:
        body = events.from_row(kind, stored)
        assert (kind, json.dumps(stored)) == (body.kind, json.dumps(events.to_row(body)[1]))


def test_the_ledger_applies_every_kind() -> None:
    ledger = Ledger(["0", "1", "2", "3"])
    for seq, (kind, stored) in enumerate([*ROWS, *NEWER], 1):
        row = {"saved": seq - 1} if kind == "undo_classes" else stored
        apply(ledger, events.Event(seq, seq, 0.0, "me", events.from_row(kind, row)))
    assert ledger.classes == ["alpha", "b", "c"]
    assert ledger.labels == {1: 0}
    assert (ledger.book.order, dict(ledger.book.removed)) == ((1, 0), {2: 0})
    assert (ledger.book.colours, ledger.book.keys) == ({0: "#112233"}, {1: "b"})  # no key gives two classes
    described = {1: "a second letter"}
    assert (ledger.book.descriptions, ledger.phrases) == (described, {1: ("b", "a second letter")})
    assert (ledger.vectors[1].tolist(), ledger.names_hold) == ([[0.0], [1.0]], False)
    assert (ledger.settings["strategy"], ledger.settings["check_every"]) == ("margin", 0)
    assert (ledger.leases, ledger.n_cannot_tell(), set(ledger.skipped)) == ({}, 1, {0})


def test_what_only_other_versions_know_is_left_alone() -> None:
    old = {"item": "1", "class": 0, "guess": 1, "p": 0.25}
    assert events.from_row("label", old) == events.Label("1", 0, guess=1)
    assert events.from_row("label", {"item": "1", "class": 0, "imported": True}) == events.Label(
        "1", 0, imported=True
    )


def test_a_kind_or_a_field_that_is_missing_is_told() -> None:
    for kind in ("note", "apply", "vote"):
        with pytest.raises(EverylabelError, match=f"kind '{kind}'; expected one of project, .*version"):
            events.from_row(kind, {"item": "1"})
    with pytest.raises(EverylabelError, match="kind 'label' without class; expected item, class, guess"):
        events.from_row("label", {"item": "1"})


def test_a_log_with_an_unknown_kind_does_not_open(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "log", "test")) as store:  # as a version to come would write it
        store.take_over([Row(1, 1, 0.0, "me", "note", '{"item": "digit 1"}', None)], None)
    store = Store(tmp_path / "log", "test", write=False)
    with pytest.raises(EverylabelError, match="event of kind 'note'"):
        store.read()
    store.close()
