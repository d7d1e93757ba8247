"""Manifests of other programs are ignored; shards must be those that the manifest names."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.scale import manifest
from everylabel.scale.filesystem import Stamp
from everylabel.scale.jobs import embed_shards
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
    told = r"part-000001\.npy' cannot be used \(it has 399 rows, and its manifest says 400\)"
    for look in (lambda: read(shards), lambda: find_shards(str(shards))):
        with pytest.raises(EverylabelError, match=told):
            look()


def test_manifest_of_a_later_version_is_reported(tmp_path: Path) -> None:
    shards = made(tmp_path)
    changed(shards, lambda stored: stored.update(version=3))
    assert is_shards(str(shards))  # so this is reported
    with pytest.raises(EverylabelError, match="has version 3; expected 2"):
        finished_shards(str(shards))


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
        b'{"format": "everylabel parts"',
    ],
)
def test_foreign_or_damaged_file_is_no_manifest(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(text)
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


def test_large_manifest_is_written_and_read(tmp_path: Path) -> None:
    stamps = [
        Stamp(f"part-{i:05d}-\udcff-of-60000.parquet", 10**9, "1" * 19, "0" * 32, 16_384)
        for i in range(60_000)
    ]
    parts = manifest.parts_of([65_536] * 15_000)
    large = Manifest(str(tmp_path / "s"), {}, ".npy", parts, stamps, "s3://bucket/\udcff")
    manifest._write(large)
    assert read_manifest(large.folder) == large
