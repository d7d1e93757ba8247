"""The distance of every learner to retraining, and its time per label."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import everylabel as el
from benchmarks.updates.datasets import Dataset
from benchmarks.updates.rivals import EQUAL_TIME, EXACT, LEARNERS, PAPER, WarmLBFGS, softmax
from everylabel.experiments.training import accuracy, distance

SIZES, ADDED = (50, 100, 500, 1000), (1, 10, 50)
FEW = 3  # repetitions of the learners of other libraries, which take most of the time
FOREIGN = ("River", "SGDClassifier")
SEED = 20_260


class Result(NamedTuple):
    """One learner after some labels, in one repetition."""

    dataset: str
    n: int
    added: int
    repetition: int
    learner: str
    distance: float
    accuracy: float
    base: float  # accuracy before the labels
    retrained: float  # accuracy of retraining
    seconds: list[float]  # every label's


def measure(name: str, data: Dataset, n: int, repetition: int) -> Iterator[Result]:
    """Yield every learner's results on one split."""
    rng = np.random.default_rng([SEED, repetition, n])
    rows = rng.permutation(len(data.y))[: n + max(ADDED)]
    x, y = data.x[rows], data.y[rows]
    means = {0: el.fit_map(x[:n], y[:n], data.k)}
    for added in ADDED:
        before = means[max(means)]
        means[added] = el.fit_map(x[: n + added], y[: n + added], data.k, init=before)
    design = np.c_[data.test_x, np.ones(len(data.test_y))]
    truth = {added: softmax(design @ mean) for added, mean in means.items()}
    right = {added: accuracy(probs, data.test_y) for added, probs in truth.items()}
    own: list[float] = []
    for learner, make in LEARNERS.items():
        if learner.startswith(FOREIGN) and repetition >= FEW:
            continue
        state, seconds = make(x[:n], y[:n], means[0]), []
        for i in range(max(ADDED)):
            if isinstance(state, WarmLBFGS):
                state.seconds = own[i]
            began = time.perf_counter()
            state.learn(x[n + i], int(y[n + i]))
            seconds.append(time.perf_counter() - began)
            if i + 1 in ADDED:
                probs = state.predict(data.test_x)
                near, correct = distance(probs, truth[i + 1]), accuracy(probs, data.test_y)
                yield Result(
                    name, n, i + 1, repetition, learner, near, correct, right[0], right[i + 1], seconds[:]
                )
        own = seconds if learner == EXACT else own


def cells(results: list[Result]) -> list[dict[str, Any]]:
    """Return one row per dataset, size, number of labels and learner: means over repetitions."""
    groups: dict[tuple[str, int, int, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.dataset, result.n, result.added, result.learner), []).append(result)
    rows = []
    for (dataset, n, added, learner), group in groups.items():
        base, reached, best = (
            float(np.mean([getattr(r, field) for r in group])) for field in ("base", "accuracy", "retrained")
        )
        seconds = np.concatenate([r.seconds for r in group])
        rows.append(
            {
                "dataset": dataset,
                "n": n,
                "added": added,
                "learner": learner,
                "repetitions": len(group),
                "distance": float(np.mean([r.distance for r in group])),
                "worst_distance": max(r.distance for r in group),
                "gain": best - base,
                "share": (reached - base) / (best - base) if best - base > 0.005 else None,
                "short": best - reached,
                "ms": 1e3 * float(np.mean(seconds)),
                "ms_median": 1e3 * float(np.median(seconds)),
            }
        )
    return rows


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of quality: over all cells."""
    of = {(r["dataset"], r["n"], r["added"], r["learner"]): r for r in rows}
    exact = [r for r in rows if r["learner"] == EXACT]
    ratios = {
        (r["dataset"], r["n"], r["added"]): r["distance"]
        / of[r["dataset"], r["n"], r["added"], PAPER]["distance"]
        for r in exact
    }
    worst = max(ratios, key=lambda cell: ratios[cell])
    shares = [r["share"] for r in exact if r["share"] is not None]
    paper = [r["distance"] for r in rows if r["learner"] == PAPER]
    return {
        "cells": len(exact),
        "share_mean": float(np.mean(shares)),
        "share_least": min(shares),
        "share_cells": len(shares),
        "distance_mean": float(np.mean([r["distance"] for r in exact])),
        "distance_paper": float(np.mean(paper)),
        "distance_ratio": float(np.mean([r["distance"] for r in exact]) / np.mean(paper)),
        "worst_cell": list(worst),
        "worst_cell_ratio": ratios[worst],
        "worst_distance_after_one": max(r["worst_distance"] for r in exact if r["added"] == 1),
        "equal_time_distance": float(np.mean([r["distance"] for r in rows if r["learner"] == EQUAL_TIME])),
    }
