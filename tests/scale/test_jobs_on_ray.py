"""Jobs on a real Ray: the same files as without it; errors as if they were made here."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core import fit_map, laplace
from everylabel.core.errors import EverylabelError
from everylabel.models.scaling import no_scaling
from everylabel.projects.predictions import Head
from everylabel.scale.cluster import make_parts
from everylabel.scale.jobs import embed_shards, predict_shard
from everylabel.scale.manifest import ROWS, open_or_create
from everylabel.scale.shards import find_shards
from tests.scale.shards import BODY, TEXTS, content, source
from tests.scale.starting import started

pytest.importorskip("ray", reason="needs the extra everylabel[ray]")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of a node that was too slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """An own cluster, shut down afterwards."""
    ray = started(num_cpus=2)
    yield "local"
    ray.shutdown()


def test_embedding_on_ray_writes_the_same_files(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, fit = source(tmp_path)
    arguments: dict[str, Any] = {"options": BODY, "fit": fit, "shard_rows": 200}
    embed_shards(place, str(tmp_path / "here"), **arguments)
    done: list[int] = []
    monkeypatch.chdir(tmp_path)  # Ray was begun elsewhere
    embed_shards(Path(place).name, "there", ray=cluster, progress=lambda n, _: done.append(n), **arguments)
    assert (done[0], done[-1], len(done)) == (0, len(TEXTS), 7)
    assert content(tmp_path / "there") == content(tmp_path / "here")
    (tmp_path / "there" / "part-000003.npy").unlink()
    again = embed_shards(place, f"file://{tmp_path}/there", ray=cluster, **arguments)  # by fsspec
    assert again.kept == len(TEXTS) - 200
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_error_on_ray_has_the_message_of_one_machine(tmp_path: Path, cluster: str) -> None:
    place, fit = source(tmp_path)
    arguments: dict[str, Any] = {"options": BODY, "fit": fit, "shard_rows": 200}
    embed_shards(place, str(tmp_path / "s"), **arguments)
    (tmp_path / "s" / "part-000003.npy").unlink()
    (tmp_path / "s" / ROWS).write_text("no table")
    with pytest.raises(EverylabelError, match=r"^path .*rows.parquet' is not a Parquet file, or damaged"):
        embed_shards(place, str(tmp_path / "s"), ray=cluster, **arguments)


def test_predictions_on_ray_write_the_same_files(tmp_path: Path, cluster: str) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "shards").mkdir()
    for i in range(3):
        np.save(tmp_path / "shards" / f"{i}.npy", rng.normal(size=(50 + i, 4)).astype(np.float32))
    x, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    head = Head(laplace(fit_map(x, y, 3), x), no_scaling(4), ("a", "b", "c"))
    shards = find_shards(str(tmp_path / "shards"))
    files, rows = [shard.place for shard in shards], [shard.rows for shard in shards]
    for folder, ray in (("here", None), ("there", cluster)):
        out = open_or_create(str(tmp_path / folder), {}, ".csv", str(tmp_path), files, lambda: rows)
        assert make_parts(partial(predict_shard, shards, head, out, "csv"), out, ray) == (0, 0)
        assert out.missing() == []
    assert content(tmp_path / "there") == content(tmp_path / "here")
