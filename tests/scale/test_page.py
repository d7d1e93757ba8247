"""The desk over a pool in shards learns what the local one learns, and is the same after a restart."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Numbered
from everylabel.labelling.desk import Desk
from everylabel.labelling.model import learner
from everylabel.labelling.model import training as scales
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import FeatureTable, TrainingSet
from everylabel.labelling.service import Service
from everylabel.labelling.state.types import Place
from everylabel.log.store import Store
from everylabel.scale import pool as shard_pool
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.project import ShardTable
from everylabel.selection.pool import Where
from tests.labelling.desks import X, Y
from tests.projects.starts import start
from tests.scale.test_pool import written

pytest.importorskip("ray", reason="needs the extra everylabel[ray]")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of a node that was too slow
CLASSES = [str(i) for i in range(10)]
N = 600


@pytest.fixture
def sharded(ray: Any, tmp_path: Path) -> Iterator[ShardedFeatures]:
    folder = tmp_path / "shards"
    folder.mkdir()
    made = ShardedFeatures(written(X[:N].astype(np.float16), folder, (150, 300, 450)), "local", 2)
    yield made
    made.close()


@contextmanager
def service(path: Path, given: FeatureTable) -> Iterator[Service]:
    store = Store(path, "test")
    if not store.read():
        start(store, given.ids, classes=CLASSES, settings={"check_every": 7})
    desk = Desk(given, store)
    try:
        yield Service(desk, lambda item: {"id": item})
    finally:
        desk.close()
        desk.learner.close()
        store.close()


def act(made: Service, items: list[str]) -> None:
    """Label, take back, skip and label again, each of these items in turn."""
    for at, item in enumerate(items):
        made.label("me", item, int(Y[int(item)])).result()
        if at % 10 == 3:
            made.undo("me").result()
            made.label("me", item, int(Y[int(item)])).result()
        if at % 10 == 5:
            made.label("me", items[at - 1], (int(Y[int(items[at - 1])]) + 1) % 10).result()
        if at == 12:
            retrain(made.desk)


def test_page_on_ray_learns_as_on_one_machine(
    ray: Any, sharded: ShardedFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)
    monkeypatch.setattr(scales, "COPIED_UP_TO", 0)
    monkeypatch.setattr(shard_pool, "SIZE", 200)
    monkeypatch.setattr(shard_pool, "FIXED", 50)
    handed, reply = list[str](), None
    with service(tmp_path / "shards.sqlite", ShardTable(sharded)) as made:
        reply = made.next("me").result()
        for n in range(25):
            item = reply["next"]["item"]["id"]
            handed.append(item)
            if n == 10:
                ray.kill(sharded.actors[0], no_restart=False)
            reply = made.label("me", item, int(Y[int(item)])).result()
            if n == 15:
                retrain(made.desk)
        assert len(set(handed)) == 25
        act(made, handed[:14])
        ours = made.desk.learner.pool
        before = made.desk.read(made.views.fingerprint).result()
        counts = [each["predicted"] for each in made.views.progress("me")["classes"]]
        assert sum(counts) == N
        np.testing.assert_array_equal(counts, np.bincount(ours.logits().argmax(axis=1), minlength=10))
        for refused in (
            lambda: made.views.guesses.points(10),
            lambda: made.views.guesses.check_can_scan("a thing"),
        ):
            with pytest.raises(EverylabelError, match="shards on Ray"):
                refused()
        assert made.views.guesses.copies(3) == (None, {})
    with service(tmp_path / "shards.sqlite", ShardTable(sharded)) as again:
        assert again.desk.read(again.views.fingerprint).result() == before
        with closing(Store(tmp_path / "shards.sqlite", "test", write=False)) as log:
            events = log.read()
        with service(tmp_path / "here.sqlite", FeatureTable(Numbered(N), np.asarray(sharded))) as local:
            local.desk.log.append(events[1:])  # the same log, on one machine
        with service(tmp_path / "here.sqlite", FeatureTable(Numbered(N), np.asarray(sharded))) as local:
            theirs, ours = local.desk.learner.pool, again.desk.learner.pool
            np.testing.assert_allclose(ours.posterior.mean, theirs.posterior.mean, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(ours.logits(), theirs.logits(), rtol=1e-3, atol=1e-3)
            np.testing.assert_array_equal(ours.state, theirs.state)
            np.testing.assert_allclose(ours.variances(), theirs.variances(), rtol=1e-3)


def test_driver_sample_is_exchanged_but_for_its_fixed_part(
    sharded: ShardedFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_pool, "SIZE", 100)
    monkeypatch.setattr(shard_pool, "FIXED", 20)
    monkeypatch.setattr(shard_pool, "EXCHANGED", 10 * 64 * 2)
    given = ShardTable(sharded)
    monkeypatch.setattr(scales, "COPIED_UP_TO", 0)
    places = {i: Place(Where.LABELLED, i) for i in (1, 2, 3, 4)}
    made = learner.Learner(given, given.ids, TrainingSet(tuple(range(10)), places, {}, N))
    pool, rng = made.pool, np.random.default_rng(0)
    some = pool.at_hand()
    first = set(some.free_idx.tolist())
    for _ in range(12):
        pool.at_hand(rng)
    now = some.free_idx
    assert len(first - set(now.tolist())) > 40
    fixed = np.random.default_rng(0).choice(N, 100, replace=False)[:20]
    assert set(fixed.tolist()) - {1, 2, 3, 4} <= set(now.tolist())
    np.testing.assert_allclose(some.rows(now), pool.rows(now), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(some.logits(now), pool.logits(now), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(some.variances(now), pool.variances(now), rtol=1e-3)
    assert set(made.pick("herding", 3, rng)) <= set(pool.at_hand().free_idx.tolist())
    made.close()
