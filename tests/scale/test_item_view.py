"""Texts of rows in shards, one by one, are those that the whole pass reads."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import no_labels
from everylabel.data.digests import UNREADABLE
from everylabel.data.items import Numbered, Options
from everylabel.labelling.state.types import Refused
from everylabel.projects.folder import Remembered
from everylabel.projects.project import Project
from everylabel.scale import filesystem, project, sources
from everylabel.scale.manifest import Manifest, open_or_create
from everylabel.scale.project import BLOCK, BLOCKS, SourceColumn, SourceImages
from everylabel.scale.shards import MappedShards, find_shards
from everylabel.scale.sources import Source, open_source
from everylabel.web.item_view import ItemView, allowed_images
from tests.scale.test_pool import written

TEXTS = [f'row {i}, "quoted"\nover lines é' if i % 3 else f"row {i}" for i in range(333)]


def _written(folder: Path, kind: str) -> str:
    path = folder / f"big.{kind}"
    if kind == "parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame({"body": TEXTS}).to_parquet(path, row_group_size=50)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"body": text}) + "\n" for text in TEXTS))
    else:
        path.write_text("body\n" + "".join('"' + text.replace('"', '""') + '"\n' for text in TEXTS))
    return str(path)


def _opened(path: Path | str, options: Options, size: int = 100) -> tuple[Source, Manifest]:
    folder = f"{path}.shards"
    source = open_source(str(path), options, folder)
    manifest = open_or_create(folder, {}, ".npy", source.place, source.files, source.counts, size)
    return source.with_rows(manifest), manifest


def columns_of(source: Source) -> dict[str, SourceColumn]:
    found: dict[str, SourceColumn] = project._beside(source, Options())["columns"]
    return found


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_each_item_shows_its_text(kind: str, tmp_path: Path) -> None:
    source, manifest = _opened(_written(tmp_path, kind), Options("body"))
    cells = SourceColumn(source, source.column, str, source.item)
    slow = [value for part in manifest.parts for value in source.values(part)]
    assert slow == TEXTS
    assert len(cells) == len(slow)
    for i in [*np.random.default_rng(0).permutation(len(slow))[:60].tolist(), 0, 63, 64, 99, 100, 332]:
        assert cells[i] == slow[i]
    assert cells[-1] == slow[-1]
    assert cells[120:123] == slow[120:123]
    with pytest.raises(IndexError):
        cells[333]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_columns_are_read_on_demand(kind: str, tmp_path: Path) -> None:
    numbers = [3 * i for i in range(len(TEXTS))]
    path = tmp_path / f"table.{kind}"
    frame = pytest.importorskip("pandas").DataFrame(
        {"key": [f" k{n} " for n in numbers], "body": TEXTS, "n": numbers, "x": np.array(numbers) / 2}
    )
    frame.loc[5, "x"] = None
    if kind == "parquet":
        frame.to_parquet(path, row_group_size=50)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    columns = columns_of(_opened(path, Options("body"))[0])
    assert list(columns) == list(frame)
    types = [int, float] if kind == "parquet" else [str, str]
    assert [columns[name].type for name in columns] == [str, str, *types]
    for i in [*np.random.default_rng(0).permutation(len(TEXTS))[:60].tolist(), 0, 63, 64, 99, 100, 332]:
        assert (columns["body"][i], str(columns["n"][i])) == (TEXTS[i], str(numbers[i]))
        assert columns["key"][i] == f" k{numbers[i]} "
    assert columns["body"][98:103] == TEXTS[98:103]
    assert columns["body"][-1] == TEXTS[-1]
    assert columns["x"][5] in (None, "")
    assert len(columns["n"]) == len(TEXTS)


def test_columns_of_files_with_different_columns(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    none = arrow.nulls(3)
    files = [
        {"body": list("abc"), "rating": [1, 2, None], "n": [1, 2, 3], "what": [1, 2, 3], "gap": none},
        {
            "body": list("def"),
            "rating": [1.5, 2.5, 3.0],
            "n": [4, 5, 6],
            "what": list("xyz"),
            "gap": [7, 8, 9],
        },
        {"body": list("ghi"), "late": [0.5, None, 1.0]},
    ]
    (tmp_path / "t").mkdir()
    for i, file in enumerate(files):
        parquet.write_table(arrow.table(file), tmp_path / "t" / f"{i}.parquet")
    source = _opened(tmp_path / "t", Options("body"), 4)[0]
    columns = columns_of(source)
    types = {"body": str, "rating": float, "n": int, "what": str, "gap": int, "late": float}
    assert {name: columns[name].type for name in columns} == types
    assert columns["rating"][:] == [1, 2, None, 1.5, 2.5, 3.0, None, None, None]
    assert columns["late"][:] == [None] * 6 + [0.5, None, 1.0]
    assert columns["body"][:] == list("abcdefghi")
    assert columns["gap"][:] == [None] * 3 + [7, 8, 9] + [None] * 3
    assert list(source.read(("gap", "n"), 7, 5)) == [(None, None)] * 2


def test_images_in_a_table_are_not_exported_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    content = [b"a", b"b", None]
    forms: dict[str, list[Any]] = {
        "bytes": content,
        "packed": [{"bytes": one, "path": "x.png"} for one in content],
        "paths": ["a.png", "b.png", None],
    }
    for name, values in forms.items():
        parquet.write_table(arrow.table({"n": [1, 2, 3], "image": values}), tmp_path / f"{name}.parquet")
        columns = columns_of(_opened(tmp_path / f"{name}.parquet", Options(None, "image"), 2)[0])
        assert list(columns) == (["n", "image"] if name == "paths" else ["n"])
        assert ("image" in columns) == (name == "paths")
    read, some = list[Any](), sources._read

    def noted(file: str, names: Any, *at: int) -> Any:
        read.append(names)
        return some(file, names, *at)

    monkeypatch.setattr(sources, "_read", noted)
    assert columns["n"][:] == [1, 2, 3]
    assert read == [["n"]]  # one block, the column alone
    assert columns["image"][:] == forms["paths"]
    assert read[1:] == [["image"]]


def test_few_blocks_of_rows_are_cached(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("body,n\n" + "".join(f"a text,{i}\n" for i in range(BLOCK * 3 * BLOCKS)))
    column = columns_of(_opened(path, Options("body"), 10_000)[0])["n"]
    assert column[:] == [str(i) for i in range(BLOCK * 3 * BLOCKS)]
    kept = column._block.cache_info()
    assert (kept.misses, kept.currsize) == (3 * BLOCKS, BLOCKS)


def test_column_without_a_name_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("pandas").DataFrame({"body": ["a text"]}).to_csv(tmp_path / "x.csv")
    assert list(columns_of(_opened(tmp_path / "x.csv", Options("body"))[0])) == ["body"]


def test_mapped_shards_return_the_rows_of_their_files(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float16)
    filed = MappedShards(find_shards(written(features, tmp_path, (7, 30))))
    assert filed.shape == (50, 4)
    some = [49, 0, 6, 7, 29, 30, 7]
    np.testing.assert_array_equal(filed[some], features[some])
    np.testing.assert_array_equal(filed[::9], features[::9])
    np.testing.assert_array_equal(filed[31], features[31])
    np.testing.assert_array_equal(np.asarray(filed), features)


def test_image_outside_the_folder_is_not_shown_and_the_others_are(tmp_path: Path) -> None:
    for folder in ("in", "out", "more"):
        (tmp_path / folder).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / folder / "a.png")
    images = [tmp_path / folder / "a.png" for folder in ("in", "out", "more")]
    content = images[0].read_bytes()
    shown_ones = [*images, None, content, tmp_path / "in" / "gone.png"]
    made = SourceImages(shown_ones, Numbered(6), folder=tmp_path / "in")
    how: dict[str, Any] = {"folder": tmp_path, "features": np.zeros((6, 2))}
    how["about"] = Remembered("big", "big", Options())
    made_of = Project(made.images, "image", Numbered(6), no_labels(6), display=made, **how)
    shown = ItemView(made_of, allowed=allowed_images(made_of, [tmp_path / "more"]))
    for name in made_of.ids:
        assert shown.item(name)["image"]
    assert [shown.text(name) for name in made_of.ids] == [*["a.png"] * 3, "row 3", "row 4", "gone.png"]
    good = [shown.digest(name) != UNREADABLE for name in made_of.ids]
    assert good == [True, False, True, False, True, False]
    for name, ok in zip(made_of.ids, good, strict=True):
        if ok:
            assert shown.picture(name)[1] == "image/png"
        else:
            with pytest.raises(Refused, match=r"lies outside|not exist|longer exists"):
                shown.picture(name)


def test_file_that_does_not_match_the_manifest_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, shards = _written(tmp_path, "jsonl"), str(tmp_path / "shards")
    about: dict[str, Any] = {"--text-column": "body"}
    true = filesystem.stamp(secret)._replace(digest=filesystem.digest(secret))
    copied = true._replace(changed="0")  # another time, the same content
    for stamp in (true, true._replace(digest=""), copied):
        source, _ = project._source(Manifest(shards, about, ".npy", (), [stamp], secret), Options())
        assert source is not None
    monkeypatch.setattr(project, "open_source", lambda *_: pytest.fail("it was read"))
    for stamp in (copied._replace(digest="00"), true._replace(size=1)):
        with pytest.raises(EverylabelError, match="is not the source of the shards"):
            project._source(Manifest(shards, about, ".npy", (), [stamp], secret), Options())
    os.mkfifo(tmp_path / "pipe.jsonl")
    pipe = Manifest(shards, about, ".npy", (), [true._replace(size=0)], str(tmp_path / "pipe.jsonl"))
    source, why = project._source(pipe, Options())
    assert source is None
    assert "does not exist; items are shown by their row" in why
    monkeypatch.setattr(filesystem, "_files", lambda _: pytest.fail("it was called"))
    far = Manifest(shards, about, ".npy", (), [true], "webhdfs://127.0.0.1:8898/x.jsonl")
    source, why = project._source(far, Options())
    assert source is None
    assert "'webhdfs://127.0.0.1:8898/x.jsonl' is in another store, which you have not named" in why
    assert why.endswith("name it by --show")


def test_unreadable_source_is_reported_and_row_numbers_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, shards = _written(tmp_path, "jsonl"), str(tmp_path / "shards")
    stamp = filesystem.stamp(place)._replace(digest=filesystem.digest(place))
    parted = Manifest(shards, {"--text-column": "body"}, ".npy", (), [stamp._replace(changed="0")], place)
    assert project._source(parted, Options())[0] is not None

    def forbidden(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied", place)

    for what in ("is_file", "stamp", "digest", "opened"):
        for how in (Options(), Options(show=place)):
            with monkeypatch.context() as patch:
                patch.setattr(filesystem, what, forbidden)
                source, why = project._source(parted, how)
            if what == "digest" and how.show:
                continue  # what the user names is not compared
            assert source is None
            assert f"the source {place!r} cannot be read (Permission denied); items are shown by" in why
