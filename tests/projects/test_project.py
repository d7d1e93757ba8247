"""Opening a source: every kind, detected columns, stored options, changes since last time."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import features_digest, row_digests
from everylabel.data.items import Items, Options
from everylabel.data.source_diff import Change, RecordedRows, compare
from everylabel.projects import features
from everylabel.projects.folder import LogUse
from everylabel.projects.project import Project, open_project


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EVERYLABEL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def reviews(tmp_path: Path, n: int = 6, name: str = "reviews.csv") -> Path:
    words = ["soap", "beans", "lamps"]
    rows = [
        f'r{i},"a long review of {words[i % 3]}, number {i}",{i % 5},{"good" if i % 2 else ""}'
        for i in range(n)
    ]
    path = tmp_path / name
    path.write_text("\n".join(["key,body,stars,mark", *rows]) + "\n")
    return path


def pictures(folder: Path, names: tuple[str, ...] = ("cats/a.png", "dogs/b.png", "c.png")) -> Path:
    from PIL import Image as pil

    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pil.new("RGB", (8 + i, 8), (40 * i, 9, 90)).save(folder / name)
    return folder


def test_texts_with_labels_ids_and_fields(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    seen: list[tuple[int, int]] = []
    project = open_project(
        source,
        text_column="body",
        label_column="mark",
        id_column="key",
        model="tfidf",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert (project.name, project.kind, project.folder) == (
        "reviews.csv",
        "text",
        tmp_path / "reviews.csv.everylabel",
    )
    assert list(project.ids) == [f"r{i}" for i in range(6)]
    assert project.classes == ("good",)
    assert project.labels.tolist() == [-1, 0] * 3
    assert project.display.item(4) == {
        "text": "a long review of beans, number 4",
        "image": False,
        "pixelated": False,
        "fields": [["stars", "4"]],
    }
    assert seen[-1] == (6, 6)
    assert len(project.features) == len(project.digests) == 6
    with pytest.raises(EverylabelError, match="has no image"):
        project.display.picture(0)


def test_a_second_start_does_not_embed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = reviews(tmp_path)
    first = open_project(source, text_column="body", model="tfidf")
    monkeypatch.setattr(features, "embed", lambda *_, **__: pytest.fail("embedded again"))
    again = open_project(source)  # the options are those of last time
    assert np.array_equal(first.features, again.features)
    assert isinstance(again.features, np.memmap)
    assert "options as last time: --text-column body --id-column key --model tfidf" in again.notes
    assert open_project(again.folder).ids == first.ids  # by the project's folder


def test_another_model_or_text_embeds_again(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    open_project(source, text_column="body", model="tfidf")
    calls: list[tuple[int, int]] = []
    reviews(tmp_path, 9)
    longer = open_project(source, progress=lambda *at: calls.append(at))
    assert len(longer.features) == 9
    assert calls[-1] == (3, 3)  # what is new


def test_the_one_text_column_is_chosen_and_reported(tmp_path: Path) -> None:
    project = open_project(reviews(tmp_path), model="tfidf")
    assert project.display.item(0)["text"].startswith("a long review")
    assert any("column 'body' is labelled" in note for note in project.notes)
    two = tmp_path / "two.csv"
    two.write_text("a,b,n\nsome words here,other words here,1\n")
    with pytest.raises(EverylabelError, match="columns 'a', 'b', 'n', and 'a', 'b' could all be the text"):
        open_project(two)
    none = tmp_path / "none.csv"
    none.write_text("x,y\n1,2\n")
    with pytest.raises(EverylabelError, match="none looks like text; pass --text-column"):
        open_project(none)
    chinese = tmp_path / "chinese.csv"
    chinese.write_text("text,label\n\u4f60\u597d,a\n\u518d\u89c1,b\n")  # texts without spaces
    assert open_project(chinese, model="tfidf").display.item(0)["text"] == "\u4f60\u597d"


@pytest.mark.parametrize("ending", ["jsonl", "tsv", "parquet"])
def test_other_tables(tmp_path: Path, ending: str) -> None:
    rows: list[dict[str, Any]] = [{"body": f"text number {i}", "n": i} for i in range(4)]
    path = tmp_path / f"t.{ending}"
    if ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif ending == "tsv":
        path.write_text("body\tn\n" + "\n".join(f"{row['body']}\t{row['n']}" for row in rows))
    else:
        arrow = pytest.importorskip("pyarrow", reason="needs the extra everylabel[table]")
        from pyarrow import parquet

        parquet.write_table(arrow.Table.from_pylist(rows), path)
    project = open_project(path, model="tfidf")
    assert project.display.item(2)["text"] == "text number 2"
    assert project.display.item(2)["fields"] == [["n", "2"]]


def test_encoding_and_empty_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("body,n\nein schöner Tag,1\n  ,2\n", encoding="utf-16")
    with pytest.raises(EverylabelError, match="--encoding utf-16"):
        open_project(path, text_column="body", model="tfidf")
    project = open_project(path, text_column="body", model="tfidf", encoding="utf-16")
    assert project.display.text(0) == "ein schöner Tag"
    assert "1 of 2 texts is empty and was left out: 1" in project.notes


def test_a_folder_of_images(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos")
    (folder / "broken.png").write_text("no image")
    project = open_project(folder, model="pixels")
    assert list(project.ids) == ["c.png", "cats/a.png", "dogs/b.png"]
    assert len(project.features) == len(project.digests) == 3
    assert np.isfinite(project.features).all()
    assert project.labels.tolist() == [-1] * 3
    told = [note for note in project.notes if "broken.png" in note]
    why = "(broken, or of a kind that is not read: convert it to PNG)"
    assert told == [f"1 image cannot be read and is left out: broken.png {why}"]
    assert any("--label-column folder" in note for note in project.notes)
    labelled = open_project(folder, label_column="folder")
    assert labelled.classes == ("cats", "dogs")
    assert labelled.labels.tolist() == [-1, 0, 1]
    with pytest.raises(EverylabelError, match="--label-column is 'x'"):
        open_project(folder, label_column="x")


def test_a_column_of_images(tmp_path: Path) -> None:
    pictures(tmp_path / "photos")
    path = tmp_path / "list.csv"
    path.write_text("file,who\nphotos/c.png,Ann\nphotos/cats/a.png,Bob\n")
    project = open_project(path, model="pixels")
    assert project.kind == "image"
    assert project.display.item(1)["fields"] == [["who", "Bob"]]
    assert project.display.picture(1)[1] == "image/png"
    path.write_text("file\nhttps://example.org/a.png\n")
    with pytest.raises(EverylabelError, match="holds 1 URLs"):
        open_project(path, image_column="file")


def test_features_are_mapped_and_shown_by_a_second_file(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16)
    np.save(tmp_path / "e.npy", features)
    bare = open_project(tmp_path / "e.npy", folder=tmp_path / "bare")
    assert isinstance(bare.features, np.memmap)
    assert bare.display.item(2)["fields"] == [["row", "2"]]
    assert not (tmp_path / "bare" / "features.npy").exists()
    show = reviews(tmp_path, 5, "meta.csv")
    project = open_project(tmp_path / "e.npy", show=show, text_column="body", id_column="key")
    assert project.kind == "text"
    assert list(project.ids) == ["r0", "r1", "r2", "r3", "r4"]
    assert project.display.item(1)["fields"] == [["stars", "1"], ["mark", "good"]]
    reviews(tmp_path, 4, "meta.csv")
    with pytest.raises(EverylabelError, match="has 4 rows and the features 5"):
        open_project(tmp_path / "e.npy", show=show)
    with pytest.raises(EverylabelError, match="--show goes with"):
        open_project(show, show=show)


def test_features_with_ids_are_matched_by_name(tmp_path: Path) -> None:
    ids = np.array(["r3", "r1"])
    np.savez(tmp_path / "e.npz", X=np.eye(2), ids=ids, y=np.array([1, 0]), classes=np.array(["no", "yes"]))
    show = reviews(tmp_path, 5, "meta.csv")
    project = open_project(tmp_path / "e.npz", show=show, id_column="key", text_column="body")
    assert project.display.text(0).endswith("number 3")
    assert project.labels.tolist() == [-1, -1]
    assert project.classes == ("no", "yes")
    labelled = open_project(tmp_path / "e.npz", label_column="y", folder=tmp_path / "other")
    assert labelled.labels.tolist() == [1, 0]
    blind = labelled.blind()
    assert blind.truth is not None
    assert blind.truth.tolist() == [1, 0]
    assert blind.labels.tolist() == [-1, -1]


def test_features_that_are_no_numbers_are_reported_by_row(tmp_path: Path) -> None:
    features = np.ones((40_000, 2))
    features[33_333, 1] = np.nan
    np.save(tmp_path / "e.npy", features)
    with pytest.raises(EverylabelError, match="first in row 33333"):
        open_project(tmp_path / "e.npy")


def test_digits_need_nothing(tmp_path: Path) -> None:
    project = open_project("digits")
    assert project.folder == tmp_path / "digits.everylabel"
    assert (len(project), project.kind, project.classes) == (1797, "image", tuple("0123456789"))
    assert project.truth is not None
    assert project.truth[:3].tolist() == [0, 1, 2]
    assert set(project.labels.tolist()) == {-1}
    assert project.display.item(0)["pixelated"] is True
    data, media = project.display.picture(0)
    assert media == "image/png"
    assert len(data) < 300


def test_unknown_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    with pytest.raises(EverylabelError, match=r"or of shards, or one of .*; did you mean '.*/shards'\?$"):
        open_project(tmp_path / "shard")
    with pytest.raises(EverylabelError, match=r"'nothing.csv' does not exist; expected a file"):
        open_project("nothing.csv")
    (tmp_path / "x.docx").write_text("x")
    with pytest.raises(EverylabelError, match="unknown ending"):
        open_project(tmp_path / "x.docx")
    with pytest.raises(EverylabelError, match="banking77 is not here and download=False"):
        open_project("banking77")
    source = reviews(tmp_path)
    with pytest.raises(EverylabelError, match="column 'nobody' is not in"):
        open_project(source, text_column="nobody")
    open_project(source, model="tfidf", folder=tmp_path / "p")
    with pytest.raises(EverylabelError, match="belongs to"):
        open_project("digits", folder=tmp_path / "p")
    with pytest.raises(EverylabelError, match="no true labels"):
        open_project(source, model="tfidf").blind()
    (source.parent / "reviews.csv.everylabel" / "project.json").write_text("{")
    with pytest.raises(EverylabelError, match="is damaged"):
        open_project(source)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EverylabelError, match=r"cannot be made .*--project"):
        open_project("digits", folder=tmp_path / "file" / "p")


def changed(source: Path, before: Project) -> Change:
    return compare(noted(before), open_project(source, folder=before.folder))


def noted(project: Project) -> RecordedRows:
    return RecordedRows((), ()).renewed(project)


def test_changes_since_last_time_are_reported(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    before = open_project(source, id_column="key", text_column="body", model="tfidf")
    assert not changed(source, before)
    assert changed(source, before).check("reviews.csv") is None
    text = source.read_text()
    reviews(tmp_path, 8)
    longer = changed(source, before)
    assert longer.only_appended
    assert "2 new: r6, r7" in str(longer.check("reviews.csv"))
    source.write_text(text.replace("r1,", "r9,").replace("beans, number 4", "beans, number four"))
    other = changed(source, before)
    assert (other.appended, other.gone, other.changed) == (("r9",), ("r1",), ("r4",))
    with pytest.raises(EverylabelError, match=r"1 gone: r1; 1 with other content: r4.*--accept-changes"):
        other.check("reviews.csv")
    assert other.check("reviews.csv", accept=True)


def test_changed_features_are_reported_in_all(tmp_path: Path) -> None:
    path = tmp_path / "e.npy"
    features = np.random.default_rng(0).normal(size=(500, 3))
    np.save(path, features)
    before = open_project(path)
    for known in (
        noted(before),
        RecordedRows(before.ids, [features_digest(features)]),
    ):  # as older versions noted
        assert not compare(known, open_project(path))
        np.save(path, np.r_[features, features[:7]])
        longer = compare(known, open_project(path))
        assert longer.only_appended
        assert len(longer.appended) == 7
        np.save(path, features[::-1])
        turned = compare(known, open_project(path))
        assert (turned.moved, len(turned.changed)) == ((499, 0) if known.is_of_each else (0, 500))
        np.save(path, features[:400])
        assert len(compare(known, open_project(path)).gone) == 100
        np.save(path, features)


def test_rows_of_features_are_hashed_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "e.npy", np.ones((1000, 48), np.float32))
    usual = Mock(wraps=hashlib.blake2b)
    monkeypatch.setattr(hashlib, "blake2b", usual)
    digests = open_project(tmp_path / "e.npy").digests
    assert usual.call_count < 20  # row by row, a large file would take long to open
    assert (len(digests), len(set(digests))) == (1000, 1)
    odd = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)  # no whole number of words
    assert len(set(row_digests(odd))) == 1000
    assert row_digests(odd)[::-1] == row_digests(odd[::-1])


def test_nothing_changes_before_all_is_checked(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    project = open_project(source, text_column="body", model="tfidf", classes=["a", "b"])
    kept = {path.name: path.read_bytes() for path in project.folder.iterdir()}

    def refuse(source: str, items: Items) -> None:
        raise EverylabelError(f"{len(items)} items of {Path(source).name} refused")

    with pytest.raises(EverylabelError, match=r"3 items of .* refused"):
        open_project(source, text_column="mark", model="tfidf", classes=["c"], check=refuse)
    assert {path.name: path.read_bytes() for path in project.folder.iterdir()} == kept
    other = open_project(source, text_column="mark", model="tfidf", classes=["c"], keep=False)
    assert {path.name: path.read_bytes() for path in project.folder.iterdir() if path.is_file()} == kept
    again = open_project(source)
    assert again.classes == ("a", "b")
    assert np.array_equal(again.features, project.features)
    assert not (project.folder / "next").exists()  # what was never kept is gone
    other = open_project(source, text_column="mark", classes=["c"], keep=False)
    other.keep()
    last = open_project(source)
    assert (last.classes, list(last.features.shape)) == (("c",), list(other.features.shape))


def test_a_column_that_was_chosen_is_remembered(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    open_project(source, model="tfidf")
    source.write_text(source.read_text().replace("key,body", "body,key"))
    assert "options as last time: --text-column body" in " ".join(open_project(source).notes)


def test_only_options_of_last_time_are_reported_and_many_classes_in_short(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    names = [f"class {i}" for i in range(77)]
    open_project(source, text_column="body", model="tfidf", classes=names)
    notes = open_project(source, model="tfidf").notes
    assert len(notes) == 1
    told = "options as last time: --text-column body --id-column key --classes class 0,class 1,"
    assert notes[0].startswith(told)
    assert notes[0].endswith("class 3,... (77 in all)")
    given: dict[str, Any] = {"text_column": "body", "id_column": "key", "model": "tfidf", "classes": names}
    assert open_project(source, **given).notes == ()
    open_project(source, **given | {"classes": names[:2]})
    assert open_project(source, model="tfidf").notes[0].endswith("--classes 'class 0,class 1'")  # to be typed


def test_rows_that_are_appended_leave_the_features_of_the_others(tmp_path: Path) -> None:
    source = reviews(tmp_path, 8)
    before = open_project(source, text_column="body", model="tfidf")
    features = np.array(before.features)
    assert (before.folder / "embedder.npz").exists()
    reviews(tmp_path, 11)
    longer = open_project(source)
    assert longer.features.shape == (11, features.shape[1])
    np.testing.assert_allclose(longer.features[:8], features, atol=1e-7)
    reviews(tmp_path, 40)
    grown = open_project(source)
    assert any("fitted on the first 8; to fit it on all" in note for note in grown.notes)
    (grown.folder / "embedder.npz").unlink()
    assert open_project(source).features.shape[1] > features.shape[1]


def test_columns_of_features_need_a_table(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.eye(3))
    options: list[dict[str, Any]] = [{f"{kind}_column": "title"} for kind in ("text", "image", "id")]
    for option in options:
        with pytest.raises(EverylabelError, match=r"-column is 'title' .* expected --show"):
            open_project(tmp_path / "e.npy", **option)


def test_remembered_dataset_name_wins_over_a_file_of_that_name(tmp_path: Path) -> None:
    place = open_project("digits", folder=tmp_path / "p" / "digits.everylabel").folder
    open_project("digits")
    (tmp_path / "digits").mkdir()
    assert len(open_project(place)) == 1797
    assert len(open_project("digits")) == 1797


def test_an_image_that_is_too_large_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pictures(tmp_path / "photos")
    from PIL import Image

    Image.new("1", (300, 300)).save(folder / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    notes = open_project(folder, model="pixels").notes
    assert any("large.png (too large: Pillow reads up to 20,000 pixels" in note for note in notes)


def test_advice_on_a_folder_is_of_files(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos")
    before = open_project(folder, model="pixels")
    (folder / "c.png").unlink()
    with pytest.raises(EverylabelError, match=r"1 gone: c.png\)\. Put the files back .*--accept-changes"):
        changed(folder, before).check(str(folder))


@pytest.mark.skipif(os.name == "nt", reason="other rights")
def test_nobody_else_looks_into_a_new_project(tmp_path: Path) -> None:
    project = open_project(reviews(tmp_path), text_column="body", model="tfidf")
    assert project.folder.stat().st_mode & 0o777 == 0o700
    project.folder.chmod(0o750)  # shared, by its owner: that stays
    assert open_project(project.folder).folder.stat().st_mode & 0o777 == 0o750


def test_columns_of_a_folder_of_images_are_refused(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos")
    with pytest.raises(EverylabelError, match=r"--text-column is 'x' and source .* is a folder of images"):
        open_project(folder, text_column="x", model="pixels")
    assert not Path(f"{folder}.everylabel").exists()
    open_project(folder, model="pixels", id_column="none")


def test_a_missing_column_is_reported_as_last_time_s_or_by_what_was_meant(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    with pytest.raises(EverylabelError, match=r"column 'Body' is not in .*; did you mean 'body'\?$"):
        open_project(source, text_column="Body", model="tfidf")
    open_project(source, text_column="body", model="tfidf")
    source.write_text(source.read_text().replace("body", "message", 1))
    told = r"column 'body' is not in .*--text-column is as last time: pass --text-column with another"
    with pytest.raises(EverylabelError, match=told):
        open_project(source)


def test_a_row_of_features_out_of_scale_is_reported(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", features)
    assert not any("as large as most" in note for note in open_project(tmp_path / "x.npy", keep=False).notes)
    features[17, 2] = 1e6
    np.save(tmp_path / "y.npy", features)
    told = [note for note in open_project(tmp_path / "y.npy", keep=False).notes if "as large as most" in note]
    assert len(told) == 1
    assert "1 row of the features is more than 1,000 times as large as most: 17" in told[0]


def test_a_note_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,text\n" + "".join(f"m{i},a text of {i}\n" for i in range(300)))
    notes = open_project(tmp_path / "x.csv", model="tfidf", keep=False, log=LogUse(sample=True)).notes
    assert len(notes) == len(set(notes))
    assert any("'id' holds the ids" in note for note in notes)


def test_options_as_last_time_name_multi_label() -> None:
    assert Options("text", label_separator=";").arguments() == "--multi-label --text-column text"
    assert Options(label_separator="|").arguments() == "--multi-label --label-separator '|'"
