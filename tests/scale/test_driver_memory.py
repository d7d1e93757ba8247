"""The driver of a sharded pool does not grow with the pool: it makes no array of all instances.

`make test-ray` counts its bytes over a million instances (tests/live/ray/test_memory.py).
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.labelling.model.retrainer import retrain
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project, open_project
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.manifest import open_or_create
from everylabel.scale.pool import ShardPool
from everylabel.scale.project import ShardTable, on_ray
from everylabel.selection.pool.sparse import Complement, Sparse
from everylabel.web.server import opened_project
from tests.selection.problems import problem

pytest.importorskip("ray", reason="needs the extra everylabel[ray]")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of a node that was too slow
N, AT_ONCE = 24_000, 20_000  # instances, and how many of them may be looked at together
CLASSES = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def nothing_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse arrays of all instances."""
    for kind in (Sparse, Complement):

        def refused(self: Any, *given: Any, was: Any = kind.__array__, **how: Any) -> Any:
            assert len(self) <= AT_ONCE, f"{type(self).__name__} of {len(self):,} is written out"
            return was(self, *given, **how)

        monkeypatch.setattr(kind, "__array__", refused)


def shards(folder: Path, n: int) -> str:
    made = open_or_create(str(folder), {}, ".npy", "/gone/rows.csv", [__file__], lambda: [n], n // 4)
    for part in made.parts:
        rows = np.random.default_rng(part.number).normal(size=(part.rows, 1))
        np.save(made.place(part), rows.astype(np.float16))
    return str(folder)


def choose_and_label(pool: ShardPool) -> None:
    """Have everything happen that need not look at all instances from the driver."""
    rng = np.random.default_rng(1)
    for name in ("margin", "entropy", "variance", "random", "herding", "lookahead", "bemps", "epig"):
        pool.add(int(el.select(pool, name, 1, rng)[0]), 1)
        el.select(pool, name, 5, rng, ask=lambda i: i % 3)
        el.select(pool, name, 5, rng, candidates=100)
    for name in ("herding", "typiclust", "coreset", "badge", "bald"):
        el.select(pool.at_hand(rng), name, 1, rng)
    pool.condition(len(pool) - 1)
    pool.add(len(pool) - 1, 2)
    pool.refit(pool.posterior)
    assert f"labelled={len(pool.labelled_idx)}" in repr(pool)


def test_pool_makes_no_array_of_all_instances(ray: Any, tmp_path: Path) -> None:
    features = ShardedFeatures(shards(tmp_path, N), "local", 2)
    posterior = problem(d=1, k=3, keep_data=False).pool.posterior
    choose_and_label(ShardPool(features, posterior, step_size="auto"))
    features.close()


def test_page_makes_no_array_of_all_items(ray: Any, tmp_path: Path) -> None:
    labelled(shards(tmp_path, N), N)


def labelled(folder: str, n: int) -> list[Any]:
    """Open shards as the page does, label some items, train, and close."""
    project: Project = open_project(folder, classes=CLASSES, reader=on_ray("local"))
    features: Any = project.features
    options = LabelOptions(test="3", check_every=4, rows=lambda _: ShardTable(features))
    with opened_project(project, options, print, None) as (service, shown, _):
        reply = service.next("me").result()
        for turn in range(20):
            item = reply["next"]["item"]["id"]
            strategy = ("herding", "margin", "random")[turn % 3]
            service.change_settings("me", {"strategy": strategy}).result()
            reply = service.label("me", item, int(item) % 3).result()
            if turn == 10:
                retrain(service.desk)
        service.label("me", str(n - 1), 1).result()
        service.undo("me").result()
        service.desk.read(service.views.fingerprint).result()
        service.views.guesses.page(None, 0, 10)
        assert service.views.progress("me")["classes"]
        assert shown.item(str(n - 1))
        return [service.desk.state, service.desk.learner, shown]
