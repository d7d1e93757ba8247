"""A pool in shards on a Ray cluster of this machine: time, traffic and memory of a label.

    python -m benchmarks.scale [--sizes 1000000 2000000 4000000] [--labels 30] [--scratch /var/tmp]
                               [--out docs/results]

N x 384 in float16, 20 classes, 4 shards. In turns: a label and the next pick by margin; and the bare products
H v of all shards at once, by the loop that a label uses and by NumPy (as float32, in chunks), where the
slowest shard counts. Each size has its own driver, so that its peak memory is its own. Bytes are those of
pickled calls and replies. The cost of a label on the page is measured by herding and by margin, on scaled
features and leased items. Writes scale.json and prints a table: each goal, whether it is met, and traffic and
memory by the cost model of docs/results/scale.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import everylabel as el
from benchmarks.results import write
from benchmarks.timing import report
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import TrainingSet
from everylabel.labelling.state.types import Place
from everylabel.scale.cluster import connect
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.pool import ShardPool
from everylabel.scale.project import ShardTable
from everylabel.selection.pool import Where

D, K, SHARDS, ROWS = 384, 20, 4, 50_000
BAR, MORE, WIRE, MEMORY = 1.3, 15.0, 64 * 1024, 500


def write_shards(folder: Path, n: int) -> None:
    """Write N rows around 20 centres, in parts of shards."""
    centres = np.random.default_rng(0).normal(size=(K, D)).astype(np.float32)
    for shard in range(SHARDS):
        rows = n // SHARDS
        out = np.lib.format.open_memmap(
            folder / f"part-{shard:06d}.npy", mode="w+", dtype=np.float16, shape=(rows, D)
        )
        rng = np.random.default_rng(shard + 1)
        for at in range(0, rows, ROWS):
            some = out[at : at + ROWS]
            noise = rng.standard_normal((len(some), D), np.float32)
            some[:] = 0.2 * centres[rng.integers(K, size=len(some))] + noise
        out.flush()


def bare(worker: Any, v: np.ndarray, numpy: bool) -> float:
    """Return the seconds of a shard's product."""
    features = next(iter(worker.parts.values())).numbers.features
    began = time.perf_counter()
    if numpy:
        for at in range(0, features.n, 2048):
            worker.array[at : at + 2048].astype(np.float32) @ v[:-1]
    else:
        features.product(v)
    return time.perf_counter() - began


def memory(_: Any = None) -> float:
    """Return this process's peak memory in MB; getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def pickled(what: Any) -> int:
    """Return the number of bytes that Ray sends."""
    return len(import_module("ray.cloudpickle").dumps(what))


class Counted:
    """A wrapper of Ray or an actor that counts the bytes of requests and replies."""

    def __init__(self, inner: Any, total: list[int]) -> None:
        self._inner, self._total = inner, total

    def __getattr__(self, name: str) -> Any:
        return Counted(getattr(self._inner, name), self._total)

    def options(self, **how: Any) -> "Counted":
        return Counted(self._inner.options(**how), self._total)

    def remote(self, *args: Any) -> Any:
        self._total.append(pickled(args))
        return self._inner.remote(*args)


def bytes_of(pool: ShardPool, act: Callable[[], Any]) -> int:
    """Return the bytes sent in both directions."""
    total: list[int] = []
    features, ray = pool.numbers.sharded, pool.numbers.sharded.ray

    class Counting:
        exceptions, wait = ray.exceptions, ray.wait

        @staticmethod
        def get(refs: Any) -> Any:
            found = ray.get(refs)
            total.append(pickled(found))
            return found

    actors, own = [part.actor for part in pool.numbers.parts], features.actors
    features.ray, features.actors = Counting, [Counted(actor, total) for actor in own]
    for part in pool.numbers.parts:
        part.actor = Counted(part.actor, total)
    act()
    features.ray, features.actors = ray, own
    for part, actor in zip(pool.numbers.parts, actors, strict=True):
        part.actor = actor
    return sum(total)


def label(pool: ShardPool, rng: np.random.Generator) -> float:
    """Return the seconds from a label to the next pick."""
    i = int(el.select(pool, "margin", 1, rng)[0])
    began = time.perf_counter()
    pool.add(i, int(rng.integers(K)))
    el.select(pool, "margin", 1, rng)
    return time.perf_counter() - began


def on_page(
    features: ShardedFeatures, known: dict[int, int], strategy: str, labels: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the cost of a label on the page: the leased item is labelled, the next is leased."""
    rows = ShardTable(features)
    places = {item: Place(Where.LABELLED, label) for item, label in known.items()}
    learner = Learner(rows, rows.ids, TrainingSet(tuple(range(K)), places, {}, len(rows.ids)))
    out = learner.pick(strategy, 1, rng)
    _put(learner, out[0], Place(Where.LEASED))

    def answer() -> None:
        _put(learner, out.pop(), Place(Where.LABELLED, int(rng.integers(K))))
        learner.expected_accuracy()
        out.extend(learner.pick(strategy, 1, rng))
        _put(learner, out[0], Place(Where.LEASED))

    for _ in range(3):
        answer()
    times = []
    for _ in range(labels):
        began = time.perf_counter()
        answer()
        times.append(time.perf_counter() - began)
    pool: Any = learner.pool
    found = {"ms": round(1000 * float(np.median(times)), 1), "wire": bytes_of(pool, answer)}
    learner.close()
    return found


def _put(learner: Learner, item: int, place: Place) -> None:
    learner.update({item: place}, learner.columns, len(learner.ids))


def drive(folder: str, labels: int) -> dict[str, Any]:
    """Return the costs of labels on the shards of a folder."""
    ray = connect("local", num_cpus=2, object_store_memory=100 * 2**20)
    began = time.perf_counter()
    features = ShardedFeatures(folder, "local", SHARDS)
    rng = np.random.default_rng(0)
    idx = np.sort(rng.choice(len(features), 200, replace=False))
    x, y = features[idx].astype(np.float64), rng.integers(K, size=200)
    posterior = el.laplace(el.fit_map(x, y, K, 1.0), x, prior_precision=1.0, keep_data=False)
    pool = ShardPool(features, posterior, labelled_idx=idx, labels=y, step_size="auto")
    starting = time.perf_counter() - began
    v = rng.normal(size=D + 1).astype(np.float32)
    times: dict[str, list[float]] = {"label": [], "loop": [], "numpy": []}
    for _ in range(3):
        label(pool, rng)
    for turn in range(labels):
        times["label"].append(label(pool, rng))
        for name in ("loop", "numpy") if turn % 5 == 0 else ("loop",):
            calls = [actor.__ray_call__.remote(bare, v, name == "numpy") for actor in features.actors]
            times[name].append(max(ray.get(calls)))
    ms = {name: 1000 * float(np.median(some)) for name, some in times.items()}
    wire = bytes_of(pool, lambda: label(pool, rng))
    pool.close()
    known = dict(zip(idx.tolist(), y.tolist(), strict=True))
    page = {name: on_page(features, known, name, labels, rng) for name in ("herding", "margin")}
    worker = max(ray.get([actor.__ray_call__.remote(memory) for actor in features.actors]))
    a = len(features.actors)
    model = a * (4 * D + 4 * K + 512) + a * 4 * D * 2
    bar = round(BAR * ms["loop"] + MORE, 1)
    held = {
        "label to next": ms["label"] <= bar,
        "wire": max(wire, *(some["wire"] for some in page.values())) <= WIRE,
        "driver": memory() < MEMORY,
    }
    return {
        "bars held": held,
        "label to next, ms": round(ms["label"], 1),
        "label to next, lower quartile, ms": round(1000 * float(np.quantile(times["label"], 0.25)), 1),
        "bare product of the slowest shard, ms": round(ms["loop"], 1),
        "bare product by NumPy, ms": round(ms["numpy"], 1),
        "bar by our product, ms": bar,
        "bar by NumPy's product, ms": round(BAR * ms["numpy"] + MORE, 1),
        "wire, bytes a label": wire,
        "wire by the model, bytes": model,
        "page by herding, label to next, ms": page["herding"]["ms"],
        "page by margin, label to next, ms": page["margin"]["ms"],
        "page by herding, wire, bytes a label": page["herding"]["wire"],
        "page by margin, wire, bytes a label": page["margin"]["wire"],
        "driver, peak MB": round(memory()),
        "driver by the model, MB": 270,
        "largest worker, peak MB": round(worker),
        "start, s": round(starting, 1),
    }


def measure(sizes: list[int], labels: int, scratch: Path) -> dict[str, Any]:
    found = {}
    for n in sizes:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            write_shards(Path(folder), n)
            command = [sys.executable, "-m", "benchmarks.scale", "--drive", folder, "--labels", str(labels)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[f"{n:,}"] = json.loads(done.stdout.splitlines()[-1])
        print(n, json.dumps(found[f"{n:,}"]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--drive", help="a folder of shards: only this, and print what was found")
    parser.add_argument("--out", type=Path, help="folder for scale.json")
    given = parser.parse_args()
    if given.drive is not None:
        print(json.dumps(drive(given.drive, given.labels)))
        return
    found = measure(given.sizes, given.labels, given.scratch)
    names = list(next(iter(found.values())))
    rows = [[name, *(str(one[name]) for one in found.values())] for name in names]
    report("a pool in shards", ["what", *found], rows)
    if given.out is not None:
        write(given.out / "scale.json", {"sizes": found})


if __name__ == "__main__":
    main()
