"""Manifests of other programs are not parsed; damaged or forged ones are refused in a sentence."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.scale import filesystem, manifest
from everylabel.scale.embedding import embed_shards
from everylabel.scale.filesystem import Stamp
from everylabel.scale.manifest import ROWS, Manifest, finished_shards, is_shards, read_manifest
from everylabel.scale.project import in_memory
from everylabel.scale.shards import find_shards
from tests.scale.shards import BODY, TEXTS, source


def made(folder: Path) -> Path:
    """Return the shards of a source: three parts of 400, 400 and 300 rows."""
    place, fit = source(folder)
    embed_shards(place, str(folder / "s"), options=BODY, fit=fit, shard_rows=400)
    return folder / "s"


def read(folder: Path) -> Any:
    return in_memory()(str(folder), Options())


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    stored = json.loads((folder / "manifest.json").read_text())
    change(stored)
    (folder / "manifest.json").write_text(json.dumps(stored))


def test_files_that_the_manifest_does_not_name_are_ignored(tmp_path: Path) -> None:
    shards = made(tmp_path)
    width = np.load(shards / "part-000000.npy").shape[1]
    for name in ("mean", "part-000000-old", "part-000003"):
        np.save(shards / f"{name}.npy", np.zeros((1, width), np.float32))
    assert [Path(one.place).name for one in find_shards(str(shards))] == [
        f"part-00000{i}.npy" for i in range(3)
    ]
    items = read(shards)
    assert len(items.ids) == len(items.features) == 1100
    assert items.items[1000] == TEXTS[1000]
    (shards / "part-000001.npy").unlink()
    with pytest.raises(EverylabelError, match=r"lacks 1 of 3 shards \(part-00000\d.npy\); expected all"):
        find_shards(str(shards))


def test_shard_with_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    shards = made(tmp_path)
    part = shards / "part-000001.npy"
    np.save(part, np.load(part)[:-1])
    told = r"part-000001\.npy' has 399 rows; expected 400, as the manifest beside it says: delete it"
    for look in (lambda: read(shards), lambda: find_shards(str(shards))):
        with pytest.raises(EverylabelError, match=told):
            look()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda stored: stored.update(parts=[]), "it names no parts"),
        (lambda stored: stored["parts"].pop(0), "its parts have 700 rows, and its files another number"),
        (lambda stored: stored["parts"].__setitem__(0, "4"), "it names no parts, or parts without rows"),
        (lambda stored: stored["parts"].__setitem__(0, -4), "it names no parts, or parts without rows"),
        (lambda stored: stored.update(parts=[[0, 9, [[7, 0, 9]]]], version=1), "index out of range"),
        (lambda stored: stored.update(files=[1]), "argument after"),
        (lambda stored: stored.update(version=3), "it is 'everylabel parts', version 3"),
    ],
)
def test_inconsistent_manifest_is_reported(
    change: Callable[[dict[str, Any]], Any], told: str, tmp_path: Path
) -> None:
    shards = made(tmp_path)
    changed(shards, change)
    assert is_shards(str(shards))  # so this is reported
    with pytest.raises(
        EverylabelError, match=rf"manifest.json' cannot be read \(.*{told}.*; expected a manifest"
    ):
        finished_shards(str(shards))


def test_row_missing_from_the_source_is_reported(tmp_path: Path) -> None:
    shards = made(tmp_path)
    table = parquet.read_table(shards / ROWS)
    parquet.write_table(table.slice(0, 1050), shards / ROWS)
    assert read(shards).items[1049] == TEXTS[1049]
    for row in (1050, 1099):
        with pytest.raises(EverylabelError, match=rf"has no row {row:,}, which the manifest of"):
            read(shards).items[row]


def test_shards_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    shards = made(tmp_path)
    (shards / ROWS).unlink()

    def before(stored: dict[str, Any]) -> None:
        firsts, place = (0, 400, 800), tmp_path / "big.jsonl"
        lines = [len(line) for line in place.read_bytes().splitlines(keepends=True)]
        stretches = [[[0, sum(lines[:first]), n]] for first, n in zip(firsts, stored["parts"], strict=True)]
        stored["parts"] = [list(one) for one in zip(firsts, stored["parts"], stretches, strict=True)]
        stored["version"] = 1
        del stored["files"][0]["rows"]

    changed(shards, before)
    items = read(shards)
    assert [items.items[i] for i in (0, 399, 400, 1099)] == [TEXTS[i] for i in (0, 399, 400, 1099)]


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"name": "a web app", "icons": []}',
        b"[" * 100_000,
        b'["format": "everylabel parts"]',
        b"{" + b" " * manifest.HEAD + b'"format": "everylabel parts"}',
    ],
)
def test_foreign_file_is_not_parsed(text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manifest.json").write_bytes(text)
    monkeypatch.setattr(json, "loads", lambda *_: pytest.fail("it was parsed"))
    assert not is_shards(str(tmp_path))
    assert read_manifest(str(tmp_path)) is None


def test_pipe_device_or_folder_is_not_read_as_a_manifest(tmp_path: Path) -> None:
    for name in ("pipe", "device", "folder"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "manifest.json")
    (tmp_path / "device" / "manifest.json").symlink_to("/dev/zero")
    (tmp_path / "folder" / "manifest.json").mkdir()
    for name in ("pipe", "device", "folder"):
        assert not is_shards(str(tmp_path / name))
        assert read_manifest(str(tmp_path / name)) is None


@pytest.mark.parametrize(
    "rest", [b"", b"\xff}", b', "parts": ' + b"[" * 100_000, b', "version": 1' + b"9" * 9999]
)
def test_damaged_manifest_is_reported(rest: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"format": "everylabel parts"' + rest)
    assert is_shards(str(tmp_path))
    with pytest.raises(EverylabelError, match=r"manifest.json' cannot be read \(.*expected a manifest of"):
        finished_shards(str(tmp_path))


def test_large_manifest_is_written_and_read(tmp_path: Path) -> None:
    stamps = [
        Stamp(f"part-{i:05d}-\udcff-of-60000.parquet", 10**9, "1" * 19, "0" * 32, 16_384)
        for i in range(60_000)
    ]
    parts = manifest.parts_of([65_536] * 15_000)
    large = Manifest(str(tmp_path / "s"), {}, ".npy", parts, stamps, "s3://bucket/\udcff")
    manifest._write(large)
    assert read_manifest(large.folder) == large


def test_manifest_without_read_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manifest.json").write_text("{}")

    def forbidden(place: str) -> Any:
        raise PermissionError(13, "Permission denied", place)

    monkeypatch.setattr(filesystem, "opened", forbidden)
    assert not is_shards(str(tmp_path))
    with pytest.raises(EverylabelError, match=r"cannot be read .*Permission denied"):
        read_manifest(str(tmp_path))
