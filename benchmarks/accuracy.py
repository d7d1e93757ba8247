"""The accuracy that the page shows, compared with the true accuracy in simulated runs.

This page answers: is the range of the accuracy that the page shows right, also if people look all the time,
and how far is the estimate from the truth?

{short}

## How it was measured

A run simulates a project of 2,000 items and up to 500 labels, with the page's own model. Every tenth label is
a random check. The others are chosen by herding (the page's default) or margin, three at a time. After 24
numbers of labels the estimate is compared with the true accuracy on the unlabelled items.

Each table compares three estimates:

- *version 0.1*: the model's mean confidence, corrected by the last 50 checks.
- *calibrated*: leave-one-out predictions, calibrated, and corrected by the checks.
- *page*: the estimate of today's page (`labelling/quality/accuracy.py`).

Columns, in percentage points or in percent of runs:

- *bias*: mean of estimate minus truth; *error*: its root mean square.
- *width*: mean width of the range.
- *covered*: share of ranges that contain the truth; *always covered*: share of runs in which every range,
  from five checks on, contained it.
- *off by 10*: share of estimates that are more than 10 points off, at 100 labels.
- *says 100 %*: share of estimates of 100 %.

Constants of the estimate were chosen on digits, TREC-6, MPQA, DBpedia-14 and Banking-77; the other sets were
measured once, for this report.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.labels.sets import DEVELOPED_ON, FILES, Data, load
from benchmarks.results import WHOLE, Record, cache_record, sentence, write
from everylabel.core.arrays import softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import FeatureTable, TrainingSet, in_order, on_scale, train
from everylabel.labelling.quality import stopping
from everylabel.labelling.quality.accuracy import FEWEST, Interval, Verdicts, accuracy_on_unlabelled, wilson
from everylabel.labelling.state.types import Place
from everylabel.log.events import Assessed
from everylabel.selection.pool import Where

LOOKS = (*range(50, 161, 10), 180, 200, 220, *range(250, 401, 30), 430, 460, 500)
ASKED = (4, 10, 20, 30, 60, 120)  # labels at which class names are asked whether they hold
EVERY, AT_ONCE, MOST = 10, 3, 500
SHOWN = (50, 100, 200, 400)
RISE = 0.01  # test accuracy that AHEAD more labels bring, if advice to stop is wrong
ESTIMATORS = ("today", "proposed", "ours")
NAMES = {"today": "version 0.1", "proposed": "calibrated", "ours": "page"}  # in the tables


STOPS = """Does the page's advice to stop come when it should, and never too early? It should come if 100 more
labels bring less than a point."""


class Run(NamedTuple):
    """One labelling run: the prediction before each label, and the model at each look."""

    drawn: np.ndarray
    sure: np.ndarray  # before it was learned
    right: np.ndarray
    looks: list[dict[str, np.ndarray]]


def simulate(name: str, folder: Path, seed: int, strategy: str) -> Run:
    """Return a run on a dataset."""
    data = load(name, folder, seed)
    rows, classes = FeatureTable([str(i) for i in range(len(data.x))], data.x), tuple(range(data.k))
    vectors = {} if data.names is None else {c: data.names[c : c + 1] for c in classes}
    training, rng = TrainingSet(classes, {}, vectors, len(data.x)), np.random.default_rng([seed, 5])
    learner = Learner(rows, rows.ids, training)
    order: list[int] = []
    told: list[tuple[bool, float, bool]] = []
    looks = []
    while True:
        n = len(order)
        if vectors and any(n - AT_ONCE < at <= n for at in ASKED):  # training asks whether names hold
            learner = Learner(
                rows, rows.ids, training._replace(places=_labelled(order, data.y)), before=learner
            )
        if n in LOOKS:
            known = zip(order, told, strict=True)
            foretold = {
                i for i, (check, sure, right) in known if right and sure >= stopping.FORETOLD and not check
            }
            looks.append(_look(learner, data, order, foretold))
        if n >= MOST:
            break
        check = n % EVERY == EVERY - 1
        some = [learner.draw(rng)] if check else learner.pick(strategy, AT_ONCE, rng)
        for i in some:
            assert i is not None
            probs = learner.probabilities(i)
            told.append((check, float(probs.max()), bool(probs.argmax() == data.y[i])))
            order.append(i)
        learner.update(_labelled(order[n:], data.y), classes, len(data.x))
    drawn, sure, right = (np.array(column) for column in zip(*told, strict=True))
    return Run(drawn, sure, right, looks)


def _labelled(items: list[int], truth: np.ndarray) -> dict[int, Place]:
    return {i: Place(Where.LABELLED, int(truth[i])) for i in items}


def _look(learner: Learner, data: Data, order: list[int], foretold: set[int]) -> dict[str, np.ndarray]:
    """Return verdicts on the labels in order, and the model's confidence and accuracy on unlabelled items.

    foretold : labels that do not count as the last ones
    """
    truth, k = data.y, data.k
    pool, rows, labels = learner.pool, learner.names, {i: int(truth[i]) for i in order}
    idx, y = in_order(labels)
    posterior = train(pool.features, labels, k, rows, tol=1e-6)
    without = softmax(np.asarray(leave_one_out(posterior))[: len(y)])
    mean = np.asarray(posterior.mean)[:, :k]
    tested = on_scale(data.x_test, learner.scaling) if learner.scaling is not None else data.x_test
    at = np.searchsorted(idx, order)
    left = pool.free_idx
    probs = pool.probs(left)
    taught = [i for i in order if i not in foretold]
    last = {*taught[-max(10, len(taught) // 5) :]}
    kept = {i: label for i, label in labels.items() if i not in last}
    then = softmax(pool.rows(left) @ np.asarray(train(pool.features, kept, k, rows, tol=1e-3).mean))
    guess, each = probs.argmax(axis=1), np.arange(len(left))
    return {
        "n": np.array(len(order)),
        "sure": without.max(axis=1)[at],
        "right": (without.argmax(axis=1) == y)[at],
        "left": probs.max(axis=1).astype(np.float32),
        "truth": np.array(np.mean(guess == truth[left])),
        "test": np.array(np.mean((tested @ mean[:-1] + mean[-1]).argmax(axis=1) == data.y_test)),
        "last": np.array(len(last)),
        "gain": np.array(np.mean(probs[each, guess] - probs[each, then.argmax(axis=1)])),
    }


def save(run: Run, path: Path) -> None:
    """Store a run as a file of arrays."""
    arrays = {"drawn": run.drawn, "sure": run.sure, "right": run.right}
    for at, look in enumerate(run.looks):
        arrays |= {f"{at}.{name}": value for name, value in look.items()}
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def restore(path: Path) -> Run:
    """Return a stored run."""
    with np.load(path) as arrays:
        found = dict(arrays)
    n = 1 + max(int(name.split(".")[0]) for name in found if "." in name)
    looks = [
        {name.split(".")[1]: value for name, value in found.items() if name.startswith(f"{i}.")}
        for i in range(n)
    ]
    return Run(found["drawn"], found["sure"], found["right"], looks)


def today(run: Run, look: dict[str, np.ndarray]) -> Interval:
    """Return the estimate of version 0.1."""
    last = np.flatnonzero(run.drawn[: int(look["n"])])[-50:]
    estimate = float(look["left"].mean() + np.mean(run.right[last] - run.sure[last]))
    return wilson(min(max(estimate, 0.0), 1.0), len(last), 1.959964)


def proposed(run: Run, look: dict[str, np.ndarray]) -> Interval:
    """Return the difference estimate from leave-one-out predictions, calibrated on all labels."""
    check, right = run.drawn[: int(look["n"])], look["right"].astype(float)
    a, b = 0.0, 1.0
    rows = np.column_stack([np.ones(len(right)), _logit(look["sure"])])
    for _ in range(30):
        p = 1 / (1 + np.exp(-rows @ [a, b]))
        gradient = rows.T @ (p - right) + [a, 4 * (b - 1)]
        step = np.linalg.solve((rows.T * (p * (1 - p))) @ rows + np.diag([1.0, 4.0]), gradient)
        a, b = a - step[0], b - step[1]
    there, here = (1 / (1 + np.exp(-a - b * _logit(look[name]))) for name in ("left", "sure"))
    n = int(check.sum())
    estimate = float(there.mean() + n / (n + 10) * np.mean((right - here)[check]))
    return wilson(min(max(estimate, 0.0), 1.0), n + 5, 2.575829)


def ours(run: Run, look: dict[str, np.ndarray]) -> Interval:
    """Return the estimate that the page shows."""
    n = int(look["n"])
    given = look["sure"], look["right"], run.sure[:n], run.right[:n], run.drawn[:n].astype(float)
    return accuracy_on_unlabelled(Verdicts(*given), look["left"])


def _logit(p: np.ndarray) -> np.ndarray:
    p = np.clip(p.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)))


def measured(cells: Iterable[tuple[str, str, int, Run]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each estimator at each look of each run."""
    by: dict[str, Callable[[Run, dict[str, np.ndarray]], Interval]]
    by = {"today": today, "proposed": proposed, "ours": ours}
    for name, strategy, seed, run in cells:
        for look in run.looks:
            if run.drawn[: int(look["n"])].sum() < FEWEST:
                continue
            for who, estimator in by.items():
                found, truth = estimator(run, look), float(look["truth"])
                yield {
                    "set": name, "strategy": strategy, "seed": seed, "n": int(look["n"]), "by": who,
                    "truth": round(truth, 4), "test": round(float(look["test"]), 4),
                    "gain": round(float(look["gain"]), 5), "last": int(look["last"]),
                    **{key: round(value, 4) for key, value in found._asdict().items()},
                }  # fmt: skip


def table(rows: list[dict[str, Any]], title: str) -> list[str]:
    """Return two tables of each estimator on some runs: by number of labels, and over whole runs."""
    heads = ["estimate", "labels", "bias", "error", "covered", "width"]
    text = [f"## {title} ({len(_runs(rows))} runs)", "", *_lines(heads, _by_labels(rows)), ""]
    heads = ["estimate", "error", "width", "always covered", "off by 10", "says 100 %"]
    return [*text, *_lines(heads, _over_runs(rows)), ""]


def _lines(heads: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)]


def _by_labels(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return bias, error, coverage and width of each estimator at some numbers of labels."""
    found = []
    for who in ESTIMATORS:
        for n in SHOWN:
            off, wide, held = _arrays([row for row in rows if row["by"] == who and row["n"] == n])
            error = 100 * np.sqrt(np.mean(off**2))
            figures = (
                f"{100 * off.mean():+.1f}",
                f"{error:.1f}",
                f"{held.mean():.0%}",
                f"{100 * wide.mean():.0f}",
            )
            found.append([NAMES[who], str(n), *figures])
    return found


def _over_runs(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return error, width and the shares of each estimator over all numbers of labels."""
    found = []
    for who in ESTIMATORS:
        own = [row for row in rows if row["by"] == who]
        off, wide, _ = _arrays(own)
        far = np.mean([abs(row["estimate"] - row["truth"]) > 0.1 for row in own if row["n"] == 100])
        full = np.mean([row["estimate"] >= 0.9995 for row in own])
        shares = [f"{share:.0%}" for share in (_always(own), far, full)]
        found.append(
            [NAMES[who], f"{100 * np.sqrt(np.mean(off**2)):.1f}", f"{100 * wide.mean():.1f}", *shares]
        )
    return found


def _always(rows: list[dict[str, Any]]) -> float:
    """Return the share of runs in which every interval held the truth."""
    return float(np.mean([all(_held(row) for row in some) for some in _runs(rows).values()]))


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the main figures of the page's estimate as a list."""
    own = [row for row in rows if row["by"] == "ours"]
    off, wide, _ = _arrays(own)
    share = _always(own)
    return (
        f"- In {share:.0%} of the simulated projects, the range contained the truth from beginning to end.\n"
        f"- The range is {100 * wide.mean():.0f} percentage points wide on average.\n"
        f"- The estimate is off by {100 * np.sqrt(np.mean(off**2)):.0f} points (root mean square).\n\n"
        f"These are {len(_runs(own))} projects on datasets that were not used in development."
    )


def _runs(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["set"], row["strategy"], row["seed"]), []).append(row)
    return found


def _held(row: dict[str, Any]) -> bool:
    return bool(row["low"] - 1e-4 <= row["truth"] <= row["high"] + 1e-4)


def _arrays(rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    off = np.array([row["estimate"] - row["truth"] for row in rows])
    return off, np.array([row["high"] - row["low"] for row in rows]), np.array([_held(row) for row in rows])


def _little(row: dict[str, Any]) -> bool:
    return stopping.is_little(Assessed(row["n"], 0, 0.0, gain=row["gain"], without=row["last"]))


def stops(rows: list[dict[str, Any]], title: str) -> str:
    """Return how often the advice to stop came where it should, and how often too early.

    It should come where at some look AHEAD more labels bring less than RISE on test data (three looks
    averaged).
    """
    came, wrong, could, found = 0, 0, 0, 0
    at: list[int] = []
    runs = _runs([row for row in rows if row["by"] == "ours"])
    for run in runs.values():
        n = np.array([row["n"] for row in run])
        tested = np.convolve(np.pad([row["test"] for row in run], 1, mode="edge"), np.ones(3) / 3, "valid")
        rise = np.interp(n + stopping.AHEAD, n, tested) - tested
        judged = n + stopping.AHEAD <= n[-1]
        little = np.array([_little(row) for row in run]) & (n >= stopping.STOP_AFTER)
        advised = np.flatnonzero(judged[1:] & little[1:] & little[:-1]) + 1
        could += bool(np.any(rise[judged] < RISE))
        found += bool(np.any(rise[judged] < RISE) and len(advised))
        if len(advised):
            came, at = came + 1, [*at, int(n[advised[0]])]
            wrong += bool(rise[advised[0]] >= RISE)
    when = f", at {np.median(at):.0f} labels in the median" if at else ""
    return (
        f"- {title}: it came in {found} of the {could} runs in which it should{when}, and in {came} of all "
        f"{len(runs)} runs. It was too early in {wrong}."
    )


def by_dataset(rows: list[dict[str, Any]]) -> list[str]:
    """Return one table of the page's estimate with a line for each dataset."""
    heads = ["dataset", "error", "width", "always covered", "off by 10", "says 100 %"]
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        some = [row for row in rows if row["set"] == name]
        *_, own = _over_runs(some)
        lines.append([f"{name} ({len(_runs(some))} runs)", *own[1:]])
    return ["## The page's estimate by dataset", "", *_lines(heads, lines), ""]


def page(rows: list[dict[str, Any]], records: Mapping[str, Record]) -> str:
    """Return the report of all rows."""
    new = [row for row in rows if row["set"] not in DEVELOPED_ON]
    parts = {"Datasets not used in development": new}
    parts["Datasets used in development"] = [row for row in rows if row["set"] in DEVELOPED_ON]
    advice = [stops(some, title) for title, some in parts.items() if some]
    for strategy in ("herding", "margin"):
        parts[f"Datasets not used in development, {strategy}"] = [
            row for row in new if row["strategy"] == strategy
        ]
    text = ["# Whether the accuracy can be trusted", ""]
    text += [(__doc__ or "").partition("\n\n")[2].replace("{short}", summary(new))]
    text += [line for title, some in parts.items() if some for line in table(some, title)]
    text += by_dataset(rows)
    text += ["## When to stop", "", STOPS, "", *advice, ""]
    text += ["## Version", "", f"`make bench NAME=accuracy` measures again. {sentence(records)}", ""]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default="digits," + ",".join(FILES))
    parser.add_argument("--reps", type=int, default=4)
    parser.add_argument("--curves", type=Path, default=Path("build/accuracy"))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--tables-only", action="store_true")
    given = parser.parse_args()
    records = {WHOLE: cache_record(given.curves)}
    for seed in range(0 if given.tables_only else given.reps):
        for name in given.sets.split(","):
            for strategy in ("herding", "margin"):
                path = given.curves / f"{name}_{strategy}_{seed}.npz"
                if not path.exists():
                    save(simulate(name, given.data, seed, strategy), path)
                    print(path.stem, flush=True)
    stems = [(path.stem.rsplit("_", 2), path) for path in sorted(given.curves.glob("*.npz"))]
    cells = ((name, strategy, int(seed), restore(path)) for (name, strategy, seed), path in stems)
    rows = list(measured(cells))
    (given.out / "accuracy.md").write_text(page(rows, records))
    write(given.out / "accuracy.json", {"rows": rows}, cached=records, indent=0)


if __name__ == "__main__":
    main()
