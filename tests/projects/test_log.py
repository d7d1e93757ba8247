"""Events that a start writes to the log: each once, so that the model starts trained."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import no_labels
from everylabel.data.items import Items, Options
from everylabel.data.source_diff import RecordedRows
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.state.reducer import apply, apply_all
from everylabel.labelling.state.state import State, digest, new_state
from everylabel.labelling.state.types import classes_of
from everylabel.log.store import Store, StoreError
from everylabel.projects.folder import LogUse, Remembered, recognise
from everylabel.projects.log import Label, open_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from tests.labelling.desks import FEATURES, IDS, service, truth
from tests.projects.starts import start

LABELS = [Label(IDS[i], str(truth(IDS[i])), "Ann" if i % 2 else None) for i in range(20)]


def begun(path: Path, **options: Any) -> tuple[int, State]:
    with closing(Store(path, "test")) as store:
        before = len(store.read())
        start(store, IDS, **options)
        stored = store.read()
        imported = sum(bool(getattr(event.body, "imported", False)) for event in stored[before:])
        state = new_state(stored, IDS)
        for event in stored:
            apply(state, event)
    assert digest(state) == digest(apply_all(new_state(stored, IDS), stored, ""))
    return imported, state


def test_labels_are_imported_once_and_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    imported, state = begun(path, classes=["9"], labels=[*LABELS, Label("gone", "9")])
    assert imported == 20
    assert state.classes[0] == "9"
    assert {IDS[i]: state.classes[int(str(c))] for i, c in state.labels.items()} == {
        x.id: x.label for x in LABELS
    }
    assert state.tally.by_person == {"Ann": 10, "import": 10}
    again, same = begun(path, classes=["9"], labels=LABELS)
    assert (again, same.seq) == (0, state.seq)
    with closing(Store(path, "test")) as store:
        desk = Desk(FeatureTable(IDS, FEATURES, ready=True), store)
        labelled = np.array(sorted(state.labels))
        guesses = desk.read(lambda: desk.learner.pool.probs(labelled).argmax(axis=1)).result()
        desk.close()
    assert [int(guess) for guess in guesses] == [state.labels[int(i)] for i in labelled]


def test_a_strategy_for_one_class_per_item_is_refused_with_several(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    begun(path, classes=["9"], settings={"strategy": "margin"})
    with pytest.raises(EverylabelError, match="'lookahead' is for one class per item; pass --strategy with"):
        begun(path, settings={"multi_label": True, "strategy": "lookahead"})
    _, state = begun(path, settings={"multi_label": True})
    assert state.multi_label
    assert state.settings["strategy"] == "margin"


def test_an_earlier_strategy_for_one_class_per_item_is_replaced_by_the_default(tmp_path: Path) -> None:
    path, notes = tmp_path / "l.sqlite", list[str]()
    begun(path, classes=["9"], settings={"strategy": "lookahead"})
    _, state = begun(path, settings={"multi_label": True}, note=notes.append)
    assert state.settings["strategy"] == "herding"
    assert notes == ["strategy 'lookahead' is for one class per item: 'herding' chooses from now on"]
    begun(path, note=notes.append)
    assert len(notes) == 1


def test_a_conversion_removes_classes_that_only_named_several_others(tmp_path: Path) -> None:
    path, notes = tmp_path / "l.sqlite", list[str]()
    names = ["a", "b", "a;b", "b;a", "x;y"]
    by_ann = Label(IDS[2], "b;a", "Ann")
    begun(path, classes=names, source=[Label(IDS[0], "a"), Label(IDS[1], "a;b")], labels=[by_ann])
    several = {"settings": {"multi_label": True}, "separator": ";", "note": notes.append}
    lists = [Label(IDS[0], '["a"]'), Label(IDS[1], '["a", "b"]')]
    _, state = begun(path, classes=["a", "b"], source=lists, **several)
    assert [state.classes[number] for number in state.book.order] == ["a", "b", "b;a", "x;y"]  # Ann said one
    assert {i: classes_of(one) for i, one in state.labels.items()} == {0: (0,), 1: (0, 1), 2: (3,)}
    assert notes[-2] == "1 class is removed, since they name several others: a;b; the page can restore them"
    _, again = begun(path, classes=["a", "b"], source=lists, **several)
    assert again.seq == state.seq


def test_a_later_start_changes_only_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    begun(path, classes=["a", "b"], settings={"strategy": "margin"})
    with service(path) as made:
        made.classes.change("me", 0, name="alpha").result()
        made.label("me", IDS[0], 0).result()
    _, state = begun(path, classes=["a", "b", "c"], labels=[Label(IDS[1], "a")])
    assert state.classes == ["alpha", "b", "c"]  # a is alpha now
    assert state.labels == {0: 0, 1: 0}
    assert state.settings["strategy"] == "margin"
    _, state = begun(path, settings={"check_every": 3})
    assert (state.settings["strategy"], state.settings["check_every"]) == ("margin", 3)
    before = state.seq
    assert begun(path, settings={"check_every": 3})[1].seq == before


def test_an_imported_label_can_be_taken_over_by_a_person(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    begun(path, classes=["a", "b"], labels=[Label(IDS[0], "a")])
    with service(path) as made:
        made.jump("me", IDS[0]).result()
        made.label("me", IDS[0], 1).result()
        assert made.state.labels == {0: 1}
    assert begun(path, labels=[Label(IDS[0], "a")])[1].labels == {0: 1}


def test_the_label_imported_last_counts(tmp_path: Path) -> None:
    path, one, two = tmp_path / "l.sqlite", [Label(IDS[0], "1")], [Label(IDS[0], "2")]
    counts = [begun(path, classes=["1", "2"], labels=labels)[0] for labels in (one, two, two, one, one)]
    assert counts == [1, 1, 0, 1, 0]
    _, state = begun(path, classes=["1", "2"], labels=[*two, *one])  # of several in one file, too
    assert (dict(state.labels), state.answers[0][0].person) == ({0: 0}, "import")


def test_a_start_brings_back_neither_the_sources_label_nor_a_persons_old_one(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    source, labels = [Label(IDS[0], "a"), Label(IDS[1], "a")], [Label(IDS[0], "b"), Label(IDS[2], "a", "Ann")]
    assert begun(path, classes=["a", "b"], source=source, labels=labels)[0] == 4
    with service(path) as made:
        made.label("Ann", IDS[2], 1).result()
    imported, state = begun(path, source=source, labels=labels)
    assert (imported, dict(state.labels)) == (0, {0: 1, 1: 0, 2: 1})
    assert begun(path, source=[Label(IDS[0], "a"), Label(IDS[1], "b")])[1].labels == {0: 1, 1: 1, 2: 1}


def test_names_are_as_the_page_would_take_them(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    labels = [Label(IDS[0], "a\t b", "Ann\0 B."), Label(IDS[1], "c", "\0")]
    _, state = begun(path, classes=[" a  b"], labels=labels)
    assert state.classes == ["a b", "c"]
    assert set(state.tally.by_person) == {"Ann B.", "import"}
    for name in ("", "x" * 201, "a\0b"):
        with pytest.raises(
            EverylabelError, match="expected 1 to 200 printable characters: check --label-column"
        ):
            begun(path, labels=[Label(IDS[0], name)])


def test_a_column_of_something_else_is_not_taken_for_classes(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    names = [f"text {i}" for i in range(1001)]
    with pytest.raises(EverylabelError, match="expected 1,000 at most: check --label-column"):
        begun(path, classes=names)
    begun(path, classes=names[:999])
    with pytest.raises(
        EverylabelError, match=r"classes are 'text 0'.* 1,001 or more; expected 1,000 at most"
    ):
        begun(path, labels=[Label(IDS[i], f"other {i}") for i in range(5)])
    assert len(begun(path)[1].classes) == 999  # nothing was written


def test_classes_that_a_later_start_adds_are_reported(tmp_path: Path) -> None:
    said: list[str] = []
    with closing(Store(tmp_path / "log", "p")) as store:
        start(store, ["0"], classes=["a", "b"], note=said.append)
        start(store, ["0"], classes=["b", "a"], note=said.append)
        assert said == []
        start(store, ["0"], classes=["a", "late, or not"], note=said.append)
        assert said == ['1 class is added: "late, or not"; 2 classes stay']
        start(store, ["0"], classes=["late or not"], note=said.append)
    assert "did you mean 'late, or not' in place of 'late or not'?" in said[-1]
    assert "can be merged and removed on the page" in said[-1]


def test_items_that_had_joined_are_not_forgotten_where_their_log_cannot_be_read(tmp_path: Path) -> None:
    items, about = Items(["x"], "text", ["a"], no_labels(1)), Remembered("x", "p", Options(), "id")

    def needed() -> list[int] | None:
        return recognise(items, tmp_path, about, None, LogUse(sample=True))[1]

    assert needed() == []
    path = tmp_path / "labels.sqlite"
    path.touch()
    assert needed() == []
    with closing(Store(path, "p")) as store:
        store.set_items(RecordedRows(["a"], ["1"]))
    with closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("UPDATE everylabel_items SET format = format + 1")
    with pytest.raises(StoreError, match="open it with the version"):
        needed()


def test_labels_of_items_that_are_yet_to_be_embedded_are_announced(tmp_path: Path) -> None:
    source = tmp_path / "some.csv"
    source.write_text("text,kind\nred apple,fruit\ngreen pear,fruit\nold train,ride\nnew bus,ride\n")
    project = open_project(source, label_column="kind", model="tfidf")
    part, told = replace(project, here=[0, 2], features=project.features[[0, 2]]), list[str]()
    with open_log(part, LabelOptions(), told.append):
        assert told == ["2 labels imported; labels of items that are still being embedded follow"]
    told.clear()
    with open_log(project, LabelOptions(), told.append):
        assert told == ["2 labels imported"]
