"""A source is edited between two starts: every label stays with its row, also in exports."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.formats.exports import table_export
from everylabel.formats.imports import read_labels
from everylabel.labelling.model.training import prepare
from everylabel.projects import features
from everylabel.projects.folder import LogUse
from everylabel.projects.log import Label, open_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.predictions import read_labels as labels_of
from everylabel.projects.project import Project, open_project
from everylabel.web.server import opened_project

Rows = list[dict[str, str]]
WORDS = ["soap", "beans", "lamps"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def row(i: int) -> dict[str, str]:
    return {"id": str(i + 1), "body": f"a review of {WORDS[i % 3]} number {i}", "stars": str(i % 5)}


def write(path: Path, rows: list[dict[str, str]], ids: bool = True) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(
            file, [name for name in rows[0] if ids or name != "id"], extrasaction="ignore"
        )
        writer.writeheader()
        writer.writerows(rows)
    return path


def start(source: Path, *given: Label, **options: Any) -> list[str]:
    """Start and stop as `everylabel label` does, with given labels; return its notes."""
    said: list[str] = []
    accept, confirm = options.pop("accept", False), options.pop("confirm", False)
    use, test = LogUse(accept=accept or confirm), options.pop("test", None)
    project = open_project(source, model="tfidf", keep=False, log=use, **options)
    how = LabelOptions(labels=given, accept_changes=accept, confirm_labels=confirm, test=test)
    with open_log(project, how, said.append) as (_, opened, _state):
        opened.keep()
    return [*project.notes, *said]


def opened(source: Path) -> Project:
    return open_project(source, keep=False, log=LogUse(needed=True))


def exported(source: Path, **options: Any) -> list[dict[str, str]]:
    project = opened(source)
    made = table_export(
        project, lambda: prepare(project.features), labels_of(project, None), "labels", "csv", **options
    )
    return list(csv.DictReader(io.StringIO(b"".join(made.pieces).decode())))


def truth(text: str) -> str:
    return text.split()[3]


def label_all(rows: list[dict[str, str]], names: list[str]) -> list[Label]:
    return [Label(name, truth(row["body"])) for name, row in zip(names, rows, strict=True)]


def test_ids_are_the_sources_own_and_its_columns_stand_beside_the_label(tmp_path: Path) -> None:
    rows = [row(i) for i in range(12)]
    source = write(tmp_path / "x.csv", rows)
    notes = start(source, *label_all(rows, [each["id"] for each in rows]))
    assert any("column 'id' holds the ids (--id-column chooses another" in note for note in notes)
    labels = exported(source)
    assert list(labels[0]) == ["id", "row", "label", "body", "stars"]
    by_id = {each["id"]: each for each in rows}
    for number, label in enumerate(labels):
        own = by_id[label["id"]]  # merged by id, as a user does
        assert (label["label"], label["body"], label["stars"]) == (
            truth(own["body"]),
            own["body"],
            own["stars"],
        )
        assert label["row"] == str(number)
    assert list(exported(source, columns=["stars"])[0]) == ["id", "row", "label", "stars"]
    assert list(exported(source, columns=[])[0]) == ["id", "row", "label"]
    with pytest.raises(
        EverylabelError, match="--columns names 'money'; expected some of 'id', 'body', 'stars'"
    ):
        exported(source, columns=["money"])


def test_labels_of_a_file_are_matched_by_the_sources_own_ids(tmp_path: Path) -> None:
    rows = [row(i) for i in range(12)]
    source = write(tmp_path / "x.csv", rows)
    start(source)
    (tmp_path / "old.csv").write_text("id,label\n1,first\n5,fifth\n0,nobody\n")
    found = read_labels(tmp_path / "old.csv", opened(source))
    assert [(label.id, label.label) for label in found.labels] == [("1", "first"), ("5", "fifth")]
    assert found.unmatched == ["0"]
    twice = write(tmp_path / "y.csv", [*rows, {**rows[0], "body": "another text"}])
    notes = start(twice)
    assert any("column 'id' is not used for ids" in note for note in notes)
    found = read_labels(
        tmp_path / "old.csv", opened(twice)
    )  # the source's column all the same, not our number
    assert [(label.id, label.label) for label in found.labels] == [("4", "fifth")]
    start(source, id_column="none")
    assert list(exported(source, columns=[])) == []
    found = read_labels(tmp_path / "old.csv", opened(source))
    assert [(label.id, label.label) for label in found.labels] == [("1", "first"), ("5", "fifth")]


EDITS: dict[str, Callable[[Rows], Rows]] = {
    "delete": lambda rows: rows[:2] + rows[3:],
    "insert": lambda rows: [*rows[:2], row(40), *rows[2:], row(41)],
    "move": lambda rows: [*rows[6:], *rows[:6]],
    "reverse and delete": lambda rows: rows[::-1][3:],
}


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("edit", EDITS)
def test_labels_stay_with_their_rows(
    tmp_path: Path, edit: str, ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(i) for i in range(12)]
    source = write(tmp_path / "x.csv", rows, ids)
    names = [each["id"] if ids else str(i) for i, each in enumerate(rows)]
    start(source, *label_all(rows, names))
    before = dict(zip((each["body"] for each in rows), np.array(opened(source).features), strict=True))
    edited = EDITS[edit](rows)
    write(source, edited, ids)
    embedded: list[str] = []
    usual = features.MadeBy.embed

    def counted(made: features.MadeBy, items: list[str], *rest: Any) -> np.ndarray:
        embedded.extend(items)
        return usual(made, items, *rest)

    monkeypatch.setattr(features.MadeBy, "embed", counted)
    if "delete" in edit:
        at_once = exported(source)  # what is known, whatever has changed
        with pytest.raises(
            EverylabelError, match=r"x.csv' has changed .*; or continue labelling with --accept-changes"
        ):
            start(source)
        start(source, accept=True)
        assert exported(source) == at_once
    start(source)  # the advice was followed: nothing more is asked
    there = {each["body"] for each in rows}
    labels = exported(source)
    assert [label["body"] for label in labels] == [each["body"] for each in edited if each["body"] in there]
    for label in labels:
        assert label["label"] == truth(label["body"])
        assert edited[int(label["row"])]["body"] == label["body"]
        assert not ids or edited[int(label["row"])]["id"] == label["id"]
    assert set(embedded) == {each["body"] for each in edited} - there  # nothing else is embedded again
    for body, values in zip((each["body"] for each in edited), opened(source).features, strict=True):
        if body in there:
            np.testing.assert_array_equal(values, before[body])
    write(source, rows, ids)  # what was deleted comes back, with its label
    if edit == "insert":
        start(source, accept=True)
    start(source)
    assert [(label["body"], label["label"]) for label in exported(source)] == [
        (each["body"], truth(each["body"])) for each in rows
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_labels_of_changed_rows_do_not_count_until_they_are_confirmed(tmp_path: Path, ids: bool) -> None:
    rows = [row(i) for i in range(12)]
    source = write(tmp_path / "x.csv", rows, ids)
    names = [each["id"] if ids else str(i) for i, each in enumerate(rows)]
    start(source, *label_all(rows, names))
    edited = [{**each, "body": "quite another thing"} if i == 4 else each for i, each in enumerate(rows)]
    write(source, edited, ids)
    with pytest.raises(EverylabelError, match=f"1 with other content: {names[4]}"):
        start(source)
    notes = start(source, accept=True)
    assert any(f"1 item has other content than when labelled: {names[4]};" in n for n in notes)
    assert not any("labels stay" in note for note in notes)  # of those whose features are others
    assert [label["row"] for label in exported(source)] == [str(i) for i in range(12) if i != 4]
    assert any("--confirm-labels" in note for note in start(source))  # said until it is settled
    assert not any("--confirm-labels" in note for note in start(source, confirm=True))
    labels = exported(source)
    assert [label["label"] for label in labels] == [truth(each["body"]) for each in rows]
    assert labels[4]["body"] == "quite another thing"
    write(source, rows, ids)
    start(source, confirm=True)  # by itself it is enough
    assert len(exported(source)) == 12


def test_before_the_first_label_other_options_are_simply_taken(tmp_path: Path) -> None:
    source, folder = tmp_path / "x.csv", tmp_path / "x.csv.everylabel"
    texts = [f"für die {WORDS[i % 3]} Nummer {i} bezahlt" for i in range(12)]
    lines = [f"kurz und knapp {i},{text}\n" for i, text in enumerate(texts)]
    source.write_bytes("".join(["title,body\n", *lines]).encode("mac-roman"))
    start(source, text_column="body")
    notes = start(source, encoding="mac-roman")
    assert any("is read again, since nothing is labelled yet (12 with other content" in one for one in notes)
    assert not any("labels stay" in note for note in notes)
    write(tmp_path / "y.csv", [{"body": text} for text in texts])
    start(tmp_path / "y.csv", text_column="body")
    expected = opened(tmp_path / "y.csv").features  # learned from whole texts, not from garbled ones
    np.testing.assert_array_equal(opened(source).features, expected)
    start(source, text_column="title")
    start(source, text_column="body")
    assert not any("read again" in note for note in start(source))
    start(source, Label("3", "soap"))
    before = {path: path.read_bytes() for path in folder.glob("*.npy")}
    with pytest.raises(EverylabelError, match=r"12 with other content.*Last time --text-column was body"):
        start(source, text_column="title")
    assert {path: path.read_bytes() for path in folder.glob("*.npy")} == before
    assert [label["row"] for label in exported(source)] == ["3"]


def test_a_test_set_that_was_named_counts_as_said(tmp_path: Path) -> None:
    rows = [row(i) | {"set": "test" if i < 3 else ""} for i in range(12)]
    source = write(tmp_path / "x.csv", rows)
    start(source, test="set")
    others = [row(20 + i) | {"set": "test" if i > 8 else ""} for i in range(12)]
    with pytest.raises(EverylabelError, match="has changed since it was labelled"):
        start(write(source, others), test="set")


def test_a_project_known_by_numbers_is_exported_by_the_ids_that_are_found_later(tmp_path: Path) -> None:
    rows = [row(i) for i in range(12)]
    source = write(tmp_path / "x.csv", rows)
    start(source, *label_all(rows, [str(i) for i in range(12)]), id_column="none")
    assert list(exported(source)[0]) == ["row", "label", "id", "body", "stars"]
    assert start(source, id_column="id")
    write(source, rows[1:])
    start(source, accept=True)
    labels = exported(source)
    assert [(label["id"], label["label"]) for label in labels] == [
        (each["id"], truth(each["body"])) for each in rows[1:]
    ]
    (tmp_path / "more.csv").write_text("id,label\n2,changed\n")
    assert [label.id for label in read_labels(tmp_path / "more.csv", opened(source)).labels] == ["1"]


def test_a_row_taken_out_of_a_file_of_features_shifts_nothing(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    source = tmp_path / "e.npy"
    np.save(source, values)
    said: list[str] = []
    for accept in (False, True):
        project = open_project(source, keep=False, log=LogUse(accept=accept))
        labels = [] if accept else [Label(str(i), f"class {i % 4}") for i in range(20)]
        how = LabelOptions(labels=labels, accept_changes=accept)
        with open_log(project, how, said.append) as (_, known, _state):
            known.keep()
        np.save(source, np.delete(values, 7, axis=0))
    kept = [i for i in range(20) if i != 7]
    assert [(int(label["row"]), label["label"]) for label in exported(source)] == [
        (at, f"class {i % 4}") for at, i in enumerate(kept)
    ]


def test_another_log_in_a_named_store_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    store = tmp_path / "labels.db"

    def opens(**more: bool) -> None:
        options = LabelOptions(store=str(store), **more)  # type: ignore[arg-type]
        project = open_project(tmp_path / "x.npy", **options.opening())
        with opened_project(project, options, lambda _: None, None):
            pass

    opens()
    opens()
    store.rename(tmp_path / "old.db")
    with pytest.raises(EverylabelError, match=r"labels.db', with the labels of this project, is gone"):
        opens()
    opens(accept_changes=True)
    opens()
    (tmp_path / "old.db").replace(store)
    with pytest.raises(EverylabelError, match="is another one"):
        opens()
