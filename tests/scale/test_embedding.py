"""embed_shards gives the rows of embed, part by part; it resumes after a stop and refuses changes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.models.embedding.texts import Tfidf
from everylabel.scale.jobs import embed_shards
from everylabel.scale.manifest import ROWS, Part, read_manifest
from tests.scale.shards import BODY, TEXTS, content, rows, source


def test_shards_hold_the_rows_that_embed_writes(tmp_path: Path) -> None:
    place, fit = source(tmp_path)
    done: list[tuple[int, int]] = []
    made = embed_shards(
        place,
        str(tmp_path / "s"),
        options=BODY,
        fit=fit,
        shard_rows=256,
        progress=lambda *at: done.append(at),
    )
    slow = el.embed(TEXTS, fit=fit, cache=False)
    assert np.array_equal(rows(tmp_path / "s"), slow)
    assert (made.kept, made.broken, made.width, made.shards.rows) == (0, 0, slow.shape[1], len(TEXTS))
    assert done == [(n, 1100) for n in (0, 256, 512, 768, 1024, 1100)]
    assert sorted(content(tmp_path / "s")) == [
        "embedder.npz",
        "manifest.json",
        *(f"part-{i:06d}.npy" for i in range(5)),
        ROWS,
    ]
    stored = read_manifest(str(tmp_path / "s"))
    assert stored is not None
    assert [(part.first, part.rows) for part in stored.parts] == [(256 * i, 256) for i in range(4)] + [
        (1024, 76)
    ]
    half = embed_shards(place, str(tmp_path / "h"), options=BODY, fit=fit, shard_rows=500, dtype="float16")
    assert rows(half.shards.folder).dtype == np.float16
    assert np.array_equal(rows(half.shards.folder), slow.astype(np.float16))


def test_stopped_run_makes_only_the_missing_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, fit = source(tmp_path)
    arguments: dict[str, Any] = {"options": BODY, "fit": fit, "shard_rows": 200}
    embed_shards(place, str(tmp_path / "whole"), **arguments)
    encoded, encode = [0], Tfidf.encode

    def stops(self: Tfidf, items: Any) -> np.ndarray:
        encoded[0] += 1
        if encoded[0] == 4:
            raise KeyboardInterrupt
        return encode(self, items)

    monkeypatch.setattr(Tfidf, "encode", stops)
    with pytest.raises(KeyboardInterrupt):
        embed_shards(place, str(tmp_path / "s"), **arguments)
    assert sorted(content(tmp_path / "s")) == [
        "embedder.npz",
        "manifest.json",
        *(f"part-{i:06d}.npy" for i in range(3)),
        ROWS,
    ]
    (tmp_path / "s" / "part-000001.npy").unlink()
    encoded[0] = 100
    os.utime(place)  # its time is another, its content is not
    made = embed_shards(place, str(tmp_path / "s"), **arguments)
    assert (made.kept, encoded[0]) == (400, 104)  # 4 of 6 parts were missing
    manifests = [content(tmp_path / name).pop("manifest.json") for name in ("s", "whole")]
    assert manifests[0] == manifests[1]
    assert content(tmp_path / "s") == content(tmp_path / "whole")
    again = embed_shards(place, str(tmp_path / "s"), **arguments)
    assert (again.kept, encoded[0]) == (1100, 104)


def test_missing_rows_are_found_without_comparing_all_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, fit = source(tmp_path)
    arguments: dict[str, Any] = {"options": BODY, "fit": fit, "shard_rows": 200}
    embed_shards(place, str(tmp_path / "s"), **arguments)
    whole = content(tmp_path / "s")
    for i in (1, 2):
        (tmp_path / "s" / f"part-00000{i}.npy").unlink()
    monkeypatch.setattr(Part, "__eq__", lambda *_: pytest.fail("parts were compared"))
    assert embed_shards(place, str(tmp_path / "s"), **arguments).kept == 700
    assert content(tmp_path / "s") == whole


def test_changed_shards_are_refused(tmp_path: Path) -> None:
    place, fit = source(tmp_path)
    out = str(tmp_path / "s")
    embed_shards(place, out, options=BODY, fit=fit)
    before = content(out)
    cure = "name another folder with -o, or delete this one to start over"
    with pytest.raises(
        EverylabelError, match=rf"started with --dtype float32; this is --dtype float16: {cure}"
    ):
        embed_shards(place, out, options=BODY, fit=fit, dtype="float16")
    with pytest.raises(EverylabelError, match="started with --shard-rows 65536; this is --shard-rows 100"):
        embed_shards(place, out, options=BODY, fit=fit, shard_rows=100)
    other = tmp_path / "other.npz"
    el.embed(TEXTS[:70], "tfidf", fit_out=other, cache=False)
    with pytest.raises(EverylabelError, match="started with the model of digest"):
        embed_shards(place, out, options=BODY, fit=other)
    text = Path(place).read_text()
    Path(place).write_text(text.replace("number 1099", "number 1o99"))
    with pytest.raises(EverylabelError, match=rf"big.jsonl' has changed since folder .* was started: {cure}"):
        embed_shards(place, out, options=BODY, fit=fit)
    moved = str(Path(place).rename(tmp_path / "moved.jsonl"))
    with pytest.raises(
        EverylabelError, match=r"started with 1 file.s. .big.jsonl.; source .* has 1 .moved.jsonl"
    ):
        embed_shards(moved, out, options=BODY, fit=fit)
    assert content(out) == before
    (tmp_path / "s" / "manifest.json").write_text("{}")
    with pytest.raises(
        EverylabelError, match=r"holds other files \(embedder.npz, manifest.json, part-.* and 1 more\) and no"
    ):
        embed_shards(moved, out, options=BODY, fit=fit)
    (tmp_path / "s" / "manifest.json").unlink()
    with pytest.raises(
        EverylabelError, match=r"holds other files \(embedder.npz, part-.*rows.parquet\) and no manifest.json"
    ):
        embed_shards(moved, out, options=BODY, fit=fit)


def test_killed_conversion_starts_over(tmp_path: Path) -> None:
    place, fit = source(tmp_path)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / ROWS).write_text("of another source")  # and no manifest yet
    embed_shards(place, str(tmp_path / "s"), options=BODY, fit=fit)
    embed_shards(place, str(tmp_path / "t"), options=BODY, fit=fit)
    assert content(tmp_path / "s") == content(tmp_path / "t")


def test_model_that_learns_from_all_rows_is_refused(tmp_path: Path) -> None:
    place, _ = source(tmp_path)
    with pytest.raises(EverylabelError, match="model tfidf needs all rows at once, and no shard"):
        embed_shards(place, str(tmp_path / "s"), "tfidf", options=BODY)
    with pytest.raises(
        EverylabelError, match="model is 'pixels', and column 'body' holds items of kind 'text'"
    ):
        embed_shards(place, str(tmp_path / "s"), "pixels", options=BODY)
    assert not (tmp_path / "s").exists()


def test_embedding_from_and_to_another_store(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs the extra everylabel[ray]")
    place, fit = source(tmp_path)
    with fsspec.open("memory://there/big.jsonl", "wb") as file:
        file.write(Path(place).read_bytes())
    arguments: dict[str, Any] = {"options": BODY, "fit": fit, "shard_rows": 300}
    embed_shards(place, str(tmp_path / "s"), **arguments)
    made = embed_shards("memory://there/big.jsonl", "memory://there/s", **arguments)
    files = fsspec.filesystem("memory")
    names = sorted(Path(name).name for name in files.ls("/there/s", detail=False))
    assert names == sorted(content(tmp_path / "s"))
    for name in set(names) - {"manifest.json"}:  # it names the source
        assert files.cat(f"/there/s/{name}") == (tmp_path / "s" / name).read_bytes()
    files.rm(made.shards.place(made.shards.parts[1]))
    assert embed_shards("memory://there/big.jsonl", "memory://there/s", **arguments).kept == 800
    files.pipe("/there/big.jsonl", Path(place).read_bytes().replace(b"soap", b"soup"))
    with pytest.raises(EverylabelError, match=r"big.jsonl' has changed since"):
        embed_shards("memory://there/big.jsonl", "memory://there/s", **arguments)


def test_images_are_embedded_by_their_paths(tmp_path: Path) -> None:
    from PIL import Image

    for i in range(5):
        Image.new("RGB", (8, 8), (50 * i, 0, 99)).save(tmp_path / f"{i}.png")
    (tmp_path / "4.png").write_text("broken")
    (tmp_path / "x.csv").write_text("path\n" + "".join(f"{i}.png\n" for i in range(5)))
    fit = tmp_path / "fit.npz"
    slow = el.embed([tmp_path / f"{i}.png" for i in range(4)], "pixels", fit_out=fit, cache=False)
    made = embed_shards(
        str(tmp_path / "x.csv"), str(tmp_path / "s"), options=Options(None, "path"), fit=fit, shard_rows=3
    )
    assert made.broken == 1
    assert np.allclose(rows(tmp_path / "s")[:4], slow, atol=1e-4)  # products of other shapes
    assert np.isnan(rows(tmp_path / "s")[4]).all()


def test_only_missing_shards_are_made(tmp_path: Path) -> None:
    place, fit = source(tmp_path)
    arguments: dict[str, Any] = {"options": BODY, "fit": fit, "shard_rows": 200}
    embed_shards(place, str(tmp_path / "s"), **arguments)
    whole = content(tmp_path / "s")
    (tmp_path / "s" / "part-000003.npy").unlink()
    made = embed_shards(place, str(tmp_path / "s"), **arguments)
    assert content(tmp_path / "s") == whole
    assert made.kept == made.shards.rows - made.shards.parts[3].rows
