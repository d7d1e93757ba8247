"""Time: against warm training to the same distance, growth with n, d and k, and a thousand labels.

Processor time of one thread, so that others on the machine do not count.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import everylabel as el
from benchmarks.timing import seconds
from benchmarks.updates.datasets import Dataset
from benchmarks.updates.rivals import Learner, Updated, WarmFitMap, WarmLBFGS, softmax
from everylabel.core.updates import exact
from everylabel.experiments.training import distance

SEED = 77_003
ITERATIONS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40)
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
FINE = tuple(10.0 ** (-1 - third / 3) for third in range(16))  # tolerances, three a decade
TURNS = 5
AROUND = 20  # labels before and after one, whose median it is measured against
GROWTH = {
    "n": [(n, 384, 10) for n in (50, 100, 200, 500, 1000, 2000, 4000)],
    "n, k=150": [(n, 384, 150) for n in (200, 500, 1000, 2000, 4000)],
    "d": [(500, d, 10) for d in (96, 192, 384, 768, 1536)],
    "k": [(500, 384, k) for k in (2, 5, 10, 20, 50, 100, 200)],
}


def to_the_same_distance(name: str, data: Dataset, n: int, n_labels: int = 10) -> dict[str, Any]:
    """Return the time a label of the exact update, the paper's, and warm training that is as near.

    One label is learned before the clock runs: what the exact update builds then serves it until
    the labels have grown by 40% (`grow` measures that share).
    """
    rows = np.random.default_rng([SEED, n]).permutation(len(data.y))[: n + 1 + n_labels]
    x, y = data.x[rows], data.y[rows]
    mean = el.fit_map(x[:n], y[:n], data.k)
    best = el.fit_map(x, y, data.k, init=mean)
    truth = softmax(np.c_[data.test_x, np.ones(len(data.test_y))] @ best)

    def run(make: Callable[[], Learner], repeats: int = 3) -> tuple[float, float]:
        times = []
        for _ in range(repeats):
            state = make()
            state.learn(x[n], int(y[n]))
            began = time.process_time()
            for i in range(n + 1, n + 1 + n_labels):
                state.learn(x[i], int(y[i]))
            times.append((time.process_time() - began) / n_labels)
        return 1e3 * min(times), distance(state.predict(data.test_x), truth)

    start = x[:n], y[:n], mean
    ours, near = run(partial(Updated, *start, "exact"))
    paper, _ = run(partial(Updated, *start, "second_order"))
    row: dict[str, Any] = {"dataset": name, "n": n, "k": data.k, "exact_ms": ours, "distance": near}
    row["paper_ms"] = paper
    for iterations in ITERATIONS:
        make = partial(WarmLBFGS, *start, max_iter=iterations)
        row["lbfgs_iterations"] = iterations
        if run(make, 1)[1] <= near:
            break
    row["lbfgs_ms"], row["lbfgs_distance"] = run(make)
    for tol in TOLERANCES:
        train = partial(WarmFitMap, *start, tol=tol)
        row["fit_map_tol"] = tol
        if run(train, 1)[1] <= near:
            break
    row["fit_map_ms"], row["fit_map_distance"] = run(train)
    row["lbfgs10_ms"], row["lbfgs10_distance"] = run(partial(WarmLBFGS, *start, max_iter=10))
    return row


def ratio(name: str, data: Dataset, n: int, b: int, draws: int = 8) -> dict[str, Any]:
    """Return the time of b labels at once after n, of the exact update and of warm `fit_map` that is as near.

    Each of some draws of b labels is learned from the same n, which updates have reached, so that what they
    carry along is there; the distance is the mean over draws to the very optimum.
    """
    rows = np.random.default_rng([SEED, n, b]).permutation(len(data.y))[: n + draws * b]
    x, y = data.x[rows], data.y[rows]
    first = n - b - 1
    mean = el.fit_map(x[:first], y[:first], data.k)
    before = el.laplace(mean, x[:first], labels=y[:first])
    for some in (slice(first, n - b), slice(n - b, n)):
        before = el.update(before, x[some], y[some], "exact")
    warm = el.fit_map(x[:n], y[:n], data.k, init=mean)
    new = [slice(n + i * b, n + (i + 1) * b) for i in range(draws)]
    joined = [(np.vstack([x[:n], x[some]]), np.append(y[:n], y[some])) for some in new]
    design = np.c_[data.test_x, np.ones(len(data.test_y))]
    truth = [softmax(design @ el.fit_map(*both, data.k, init=warm, tol=1e-9)) for both in joined]

    def exact_means() -> list[np.ndarray]:
        return [np.asarray(el.update(before, x[some], y[some], "exact").mean) for some in new]

    def trained(tol: float) -> list[np.ndarray]:
        return [np.asarray(el.fit_map(*both, data.k, init=warm, tol=tol)) for both in joined]

    def near(means: list[np.ndarray]) -> float:
        pairs = zip(means, truth, strict=True)
        return float(np.mean([distance(softmax(design @ mean), best) for mean, best in pairs]))

    wanted = near(exact_means())
    for tol in FINE:
        reached = near(trained(tol))
        if reached <= wanted:
            break
    jobs: dict[str, Callable[[], Any]] = {"exact": exact_means, "fit_map": partial(trained, tol)}
    ms = {who: 1e3 * took / draws for who, took in seconds(jobs, TURNS, time.process_time).items()}
    row = {"dataset": name, "n": n, "k": data.k, "labels": b, "distance": wanted, "exact_ms": ms["exact"]}
    row |= {"fit_map_ms": ms["fit_map"], "fit_map_tol": tol, "fit_map_distance": reached}
    return row | {"ratio": ms["fit_map"] / ms["exact"]}


def stalls(name: str, data: Dataset, first: int = 100, last: int = 900, turns: int = 2) -> dict[str, Any]:
    """Return the slowest of many labels in a row against the median of those around it."""
    rows = np.random.default_rng([SEED, 2]).permutation(len(data.y))[:last]
    x, y = data.x[rows], data.y[rows]
    mean = el.fit_map(x[:first], y[:first], data.k)
    times = np.empty((turns, last - first))
    for turn in range(turns):
        state = Updated(x[:first], y[:first], mean, "exact")
        for i in range(first, last):
            began = time.process_time()
            state.learn(x[i], int(y[i]))
            times[turn, i - first] = 1e3 * (time.process_time() - began)
    took = times.min(axis=0)[1:]  # the first one builds all there is
    around = [np.median(took[max(0, i - AROUND) : i + AROUND + 1]) for i in range(len(took))]
    ratios = took / around
    worst = int(np.argmax(ratios))
    return {
        "dataset": name,
        "k": data.k,
        "labels": [first, last],
        "median_ms": float(np.median(took)),
        "worst_ms": float(took[worst]),
        "worst_at": first + 1 + worst,
        "worst_ratio": float(ratios[worst]),
        "above_3": int(np.sum(ratios > 3.0)),
    }


def grow(n: int, d: int, k: int, n_labels: int = 21) -> dict[str, float]:
    """Return the milliseconds per label on generated classes, without and with the share of rebuilding."""
    rng = np.random.default_rng([SEED, n, d, k])
    y = rng.integers(k, size=n + n_labels)
    x = (0.35 * rng.normal(size=(k, d))[y] + rng.normal(size=(len(y), d))) * (6 / np.sqrt(d))
    state = Updated(x[:n], y[:n], el.fit_map(x[:n], y[:n], k, tol=1e-4), "exact")
    times = []
    for i in range(n, n + n_labels):
        began = time.process_time()
        state.learn(x[i], int(y[i]))
        times.append(1e3 * (time.process_time() - began))
    label = float(np.median(times[1:]))
    build = max(times[0] - label, 0.0)
    every = (exact.GROWTH - 1.0) * n
    return {"n": n, "d": d, "k": k, "ms": label, "build_ms": build, "ms_with_build": label + build / every}


def exponent(rows: list[dict[str, float]], axis: str, field: str = "ms_with_build") -> float:
    """Return the slope of log time over log size in the upper half of the sizes."""
    rows = rows[len(rows) // 2 :] if len(rows) > 4 else rows
    return float(np.polyfit(np.log([r[axis] for r in rows]), np.log([r[field] for r in rows]), 1)[0])


def drift(data: Dataset, n: int = 50, n_labels: int = 1000) -> list[dict[str, float]]:
    """Return the distance to retraining while labels come one by one."""
    rows = np.random.default_rng([SEED, 1]).permutation(len(data.y))[: n + n_labels]
    x, y = data.x[rows], data.y[rows]
    mean = el.fit_map(x[:n], y[:n], data.k)
    ours, paper = (Updated(x[:n], y[:n], mean, method) for method in ("exact", "second_order"))
    design, found = np.c_[data.test_x, np.ones(len(data.test_y))], []
    for i in range(n, n + n_labels):
        for state in (ours, paper):
            state.learn(x[i], int(y[i]))
        if (i + 1 - n) % 50 == 0 or i + 1 - n in (1, 10):
            mean = el.fit_map(x[: i + 1], y[: i + 1], data.k, init=ours.posterior.mean)
            truth = softmax(design @ mean)
            near, far = (distance(state.predict(data.test_x), truth) for state in (ours, paper))
            found.append({"labels": i + 1 - n, "exact": near, "paper": far})
    return found
