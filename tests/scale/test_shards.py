from pathlib import Path

import numpy as np
import pytest

import everylabel as el
from everylabel.scale.shards import find_shards, load, shared_out

X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)


def test_shards_are_sorted_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "part-000001.npy", X[4:])
    np.save(tmp_path / "part-000000.npy", X[:4])
    (tmp_path / "manifest.json").write_text("{}")
    shards = find_shards(str(tmp_path))
    assert [(shard.rows, shard.width) for shard in shards] == [(4, 3), (6, 3)]
    np.testing.assert_array_equal(load(shards), X)
    assert isinstance(load(shards[:1]), np.memmap)


def test_shards_in_another_store(tmp_path: Path) -> None:
    np.save(tmp_path / "part-000000.npy", X)
    shards = find_shards(f"file://{tmp_path}")
    np.testing.assert_array_equal(load(shards), X)


def test_folder_that_is_no_pool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(el.EverylabelError, match=r"holds no \.npy file; expected the shards"):
        find_shards(str(tmp_path))
    with pytest.raises(el.EverylabelError, match=r"none' holds no \.npy file"):
        find_shards(str(tmp_path / "none"))
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :2])
    with pytest.raises(el.EverylabelError, match="have 2, 3 features; expected rows of one model"):
        find_shards(str(tmp_path))
    (tmp_path / "b.npy").write_bytes(b"no array")
    with pytest.raises(
        el.EverylabelError,
        match=r"b\.npy' cannot be used .*; delete it, and run the everylabel embed command",
    ):
        find_shards(str(tmp_path))


def test_shards_are_shared_out_evenly(tmp_path: Path) -> None:
    for number in range(6):
        np.save(tmp_path / f"part-{number}.npy", X[: number + 1])
    shards = find_shards(str(tmp_path))
    assert [[s.rows for s in some] for some in shared_out(shards, 3)] == [[1, 2], [3, 4], [5, 6]]
    assert sum(len(some) for some in shared_out(shards, 50)) == 6
    assert [s for some in shared_out(shards, 4) for s in some] == shards
