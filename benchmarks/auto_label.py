"""Letting the model finish: how much at most 80 confirmations certify, and how often a promise is broken.

    python -m benchmarks.auto_label [--reps 5] [--sets digits,...] [--out docs/results]

Each run labels 120 items as on the page: herding, every tenth a random check, the pool and the class names as
prior. Then people who make no error confirm in ORDERS random orders, for an error rate of 5 % with 95 %
confidence on the rest of 2,000 items. NAME:12 has 12 random classes of NAME; cifar10:animals separates
animals from vehicles. The rule was chosen on digits, DBpedia-14 and Banking-77; the others are reported only.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import ASKED, AT_ONCE, EVERY
from benchmarks.labels.sets import POOL, Data, load_all
from benchmarks.results import write
from benchmarks.timing import report
from everylabel.core.arrays import softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.labelling.auto_label import neighbour_agreement, number_to_propose
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import FeatureTable, TrainingSet, in_order, train
from everylabel.labelling.quality.accuracy import Verdicts, calibrated
from everylabel.labelling.quality.certificate import certify, levels
from everylabel.labelling.state.types import Place
from everylabel.selection.pool import Where

SETS = ("digits", "dbpedia14", "banking77:12", "subj", "clinc150:15", "cifar10:animals")
LABELS, MOST, ORDERS, RATE = 120, 80, 40, 0.05
ANIMALS = (2, 3, 4, 5, 6, 7)  # classes of CIFAR-10


def load(name: str, folder: Path, seed: int) -> Data:
    """Return a pool drawn by the seed, of the classes that the name selects."""
    rng = np.random.default_rng([seed, 17])
    base, _, part = name.partition(":")
    data = load_all(base, folder)
    if part == "animals":
        data = data._replace(y=np.isin(data.y, ANIMALS).astype(np.int64), classes=("vehicle", "animal"))
    elif part:
        some = np.sort(rng.permutation(data.k)[: int(part)])
        there = np.isin(data.y, some)
        names = None if data.names is None else data.names[some]
        classes = tuple(data.classes[c] for c in some)
        y = np.searchsorted(some, data.y[there])
        data = data._replace(x=data.x[there], y=y, classes=classes, names=names)
    at = rng.permutation(len(data.y))[:POOL]
    return data._replace(x=data.x[at], y=data.y[at])


def labelled(data: Data, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Label a pool; return the other items, best first: scores, P(right), and whether the model is wrong."""
    rows, classes = FeatureTable([str(i) for i in range(len(data.x))], data.x), tuple(range(data.k))
    vectors = {} if data.names is None else {c: data.names[c : c + 1] for c in classes}
    training, rng = TrainingSet(classes, {}, vectors, len(data.x)), np.random.default_rng([seed, 5])
    learner = Learner(rows, rows.ids, training)
    order: list[int] = []
    told: list[tuple[bool, float, bool]] = []
    while len(order) < LABELS:
        n = len(order)
        check = n % EVERY == EVERY - 1
        for i in [learner.draw(rng)] if check else learner.pick("herding", AT_ONCE, rng):
            assert i is not None
            probs = learner.probabilities(i)
            told.append((check, float(probs.max()), bool(probs.argmax() == data.y[i])))
            order.append(i)
        learner.update(_places(data, order[n:]), classes, len(data.x))
        if vectors and any(n < at <= len(order) for at in ASKED):  # training asks whether names hold
            learner = Learner(rows, rows.ids, training._replace(places=_places(data, order)), before=learner)
    pool, known = learner.pool, {i: int(data.y[i]) for i in order}
    idx, y = in_order(known)
    without = softmax(np.asarray(leave_one_out(train(pool.features, known, data.k, learner.names, tol=1e-6))))
    at = np.searchsorted(idx, order)
    drawn, sure, right = (np.array(column) for column in zip(*told, strict=True))
    left_out = without[: len(y)].max(axis=1)[at], (without[: len(y)].argmax(axis=1) == y)[at]
    verdicts = Verdicts(*left_out, sure, right, drawn.astype(float))
    left = pool.free_idx
    probs = np.asarray(pool.probs(left))
    told_of = np.concatenate([np.eye(data.k)[y], probs])
    agreement = neighbour_agreement(pool.features, np.concatenate([idx, left]), told_of, left, probs)
    score = probs.max(axis=1) * agreement
    best = np.argsort(-score, kind="stable")
    wrong = probs.argmax(axis=1) != data.y[left]
    return score[best], calibrated(verdicts, probs.max(axis=1)[best]), wrong[best]


def _places(data: Data, items: list[int]) -> dict[int, Place]:
    return {i: Place(Where.LABELLED, int(data.y[i])) for i in items}


def confirm(score: np.ndarray, wrong: np.ndarray, rng: np.random.Generator) -> tuple[int, bool, int]:
    """Return the certified items, whether too many of them are wrong, and the confirmations."""
    order = rng.permutation(len(score))
    where, known = levels(score[order].tolist()), list[bool | None]([None] * len(score))
    used = 0
    while True:
        found = certify(where, known, rate=RATE, confidence=0.95)
        if found.certified is not None or found.next is None or used == MOST:
            break
        known[found.next], used = bool(wrong[order[found.next]]), used + 1
    if found.certified is None:
        return 0, False, used
    chosen = wrong[order][np.array(where) >= found.certified]
    return len(chosen), bool(chosen.mean() > RATE), used


def measure(name: str, folder: Path, reps: int) -> dict[str, Any]:
    """Return the figures of a set over some runs."""
    runs: list[dict[str, Any]] = []
    for seed in range(reps):
        score, right, wrong = labelled(load(name, folder, seed), seed)
        n, rng = number_to_propose(right, len(score), RATE), np.random.default_rng(seed)
        ends = [confirm(score[:n], wrong[:n], rng) for _ in range(ORDERS if n else 0)] or [(0, False, 0)]
        half = -(-len(score) // 2)
        runs.append(
            {
                "accuracy of the rest": 1.0 - wrong.mean(),
                "errors in the better half": wrong[:half].mean(),
                "proposed": n / len(score),
                "half certified": np.mean([size >= half for size, _, _ in ends]),
                "certified": np.mean([size for size, _, _ in ends]) / len(score),
                "broken": np.mean([broken for _, broken, _ in ends]),
                "confirmations": np.mean([used for _, _, used in ends]),
            }
        )
    found: dict[str, Any] = {key: round(float(np.mean([run[key] for run in runs])), 4) for key in runs[0]}
    return {"set": name, "runs": reps, "orders": ORDERS, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for auto_label.json")
    given = parser.parse_args()
    found = [measure(name, given.data, given.reps) for name in given.sets.split(",")]
    report("let the model finish", list(found[0]), [[str(value) for value in row.values()] for row in found])
    if given.out is not None:
        write(given.out / "auto_label.json", {"sets": found})


if __name__ == "__main__":
    main()
