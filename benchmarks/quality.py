"""Which strategy learns fastest: paired active-learning runs on real features, `make bench NAME=quality`.

All strategies start from the same random labels and choose from the same 1,000 candidates in every
cycle; after each batch the last layer is retrained. The score of a run is the mean accuracy over
its curve. Results go to docs/results/selection_quality.json and .png. `--runs` and `--only` measure some:
`--runs herding refine boss "boss, retrained" --only digits` compares BoSS by updates with BoSS by retraining.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

import everylabel as el
from benchmarks.results import write
from everylabel.selection.lookahead.optimal import BOSS_BATCHES, draw_batches

OUT = Path("docs/results/selection_quality.json")
POOL, CANDIDATES, VALIDATION, TEST = 3000, 1000, 500, 2000
FEW = 3  # repetitions of the optimal look-ahead with more than 50 classes, which takes a minute a run
BASE = "margin + updates"


class Setting(NamedTuple):
    """One dataset: file, classes, labels per cycle, cycles."""

    file: str
    k: int
    b: int
    cycles: int


SETTINGS = {
    "digits": Setting("", 10, 10, 8),
    "cifar10": Setting("cifar10_efflite2_pca384", 10, 10, 8),
    "banking77": Setting("banking77_minilm384", 77, 40, 6),
    "clinc150": Setting("clinc150_minilm384", 150, 50, 6),
    "dbpedia14": Setting("dbpedia14_minilm384", 14, 14, 6),
    "dtd10": Setting("dtd10_efflite2_1280", 10, 10, 6),
}


class Data(NamedTuple):
    """A pool with its true labels, and validation and test data."""

    x: np.ndarray
    y: np.ndarray
    val_x: np.ndarray
    val_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


Choose = Callable[[el.Pool, Data, int, np.ndarray, np.random.Generator], np.ndarray]


def top(name: str) -> Choose:
    return lambda pool, data, b, candidates, rng: el.select(pool, name, b, rng, candidates=candidates)


def updated(name: str, **options: Any) -> Choose:
    """Return Algorithm 1 with the strategy."""
    return lambda pool, data, b, candidates, rng: el.select(
        pool, name, b, rng, ask=lambda i: int(data.y[i]), candidates=candidates, **options
    )


def optimal(**options: Any) -> Choose:
    return lambda pool, data, b, candidates, rng: el.optimal_batch(
        pool, data.y, data.val_x, data.val_y, b, rng=rng, candidates=candidates, **options
    )


def retrained(
    pool: el.Pool, data: Data, b: int, candidates: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the best batch of BoSS, each judged by training on it from the current mean."""
    idx, known = np.sort(candidates), pool.labelled_idx
    tried = draw_batches(pool, idx, b, BOSS_BATCHES, "boss", rng)
    mean, scores = np.asarray(pool.posterior.mean), []
    for batch in idx[tried]:
        rows = np.r_[known, batch]
        after = el.fit_map(data.x[rows], data.y[rows], mean.shape[1], init=mean, tol=1e-3)
        guessed = (data.val_x @ after[:-1] + after[-1]).argmax(axis=1)
        scores.append(np.mean(guessed == data.val_y))
    return np.asarray(idx[tried[int(np.argmax(scores))]])


RUNS: dict[str, Choose] = {
    "random": top("random"),
    "margin": top("margin"),
    BASE: updated("margin"),
    "badge": top("badge"),
    "badge + updates": updated("badge_norm"),
    "typiclust": top("typiclust"),
    "look-ahead": updated("lookahead"),
    "herding": top("herding"),
    "maxherding": top("maxherding"),
    "probcover": top("probcover"),
    "falcun": top("falcun"),
    "dropquery": top("dropquery"),
    "alfamix": top("alfamix"),
    "bait": top("bait"),
    "bait + updates": updated("bait", oversample=1),
    "refine": top("refine"),
    "boss": optimal(batches="boss", step_size="auto"),
    "boss, retrained": retrained,
    "optimal, 2,000 random batches": optimal(),
    "optimal, greedy": optimal(batches="greedy", step_size="auto"),
}


def load(name: str, folder: Path) -> tuple[np.ndarray, ...]:
    """Return training features and labels, test features and labels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        x, y = (x[order] / 16.0).astype(np.float32), y[order]
        return x[:1297], y[:1297], x[1297:], y[1297:]
    with np.load(folder / f"{SETTINGS[name].file}.npz") as z:
        return z["X_train"].astype(np.float32), z["y_train"], z["X_test"].astype(np.float32), z["y_test"]


def split(raw: tuple[np.ndarray, ...], rng: np.random.Generator) -> Data:
    """Return a random pool, validation and test set."""
    x, y, test_x, test_y = raw
    order, test = rng.permutation(len(x)), rng.permutation(len(test_x))[:TEST]
    n_val = min(VALIDATION, len(x) // 4)
    pool, val = order[:-n_val][:POOL], order[-n_val:]
    return Data(x[pool], y[pool], x[val], y[val], test_x[test], test_y[test])


def curve(data: Data, setting: Setting, choose: Choose, rep: int) -> tuple[list[float], float]:
    """Return test accuracy after every training, and the seconds spent on choosing."""
    _, k, b, cycles = setting
    labelled = np.random.default_rng(rep).choice(len(data.x), b, replace=False)
    rng, spent, accuracies = np.random.default_rng(5000 + rep), 0.0, []
    mean = None
    for cycle in range(cycles + 1):
        x, y = data.x[labelled], data.y[labelled]
        mean = el.fit_map(x, y, k, init=mean, tol=1e-5)
        posterior = el.laplace(mean, x)
        accuracies.append(float(np.mean(el.logits(posterior, data.test_x).argmax(axis=1) == data.test_y)))
        if cycle == cycles:
            break
        pool = el.Pool(data.x, posterior, labelled_idx=labelled, labels=y)
        same = np.random.default_rng(1000 * rep + cycle)  # candidates depend on the labelled set only
        candidates = same.permutation(len(data.x))
        candidates = candidates[pool.state[candidates] == 0][:CANDIDATES]
        began = time.perf_counter()
        labelled = np.r_[labelled, choose(pool, data, b, candidates, rng)]
        spent += time.perf_counter() - began
    return accuracies, spent / (cycles * b)


def summary(curves: dict[str, dict[str, list[Any]]]) -> list[dict[str, Any]]:
    """Return, by dataset and strategy, the mean over the curve and its paired difference to the base."""
    rows = []
    for name, runs in curves.items():
        for run, results in runs.items():
            means = np.asarray([np.mean(c) for c in results])
            base = np.asarray([np.mean(c) for c in runs.get(BASE, next(iter(runs.values())))[: len(means)]])
            gain = 100 * (means - base)
            error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None
            last = float(np.mean([c[-1] for c in results]))
            rows.append(
                {
                    "data": name,
                    "strategy": run,
                    "repetitions": len(means),
                    "mean_accuracy": round(float(means.mean()), 4),
                    "last_accuracy": round(last, 4),
                    "points_over_base": round(float(gain.mean()), 2),
                    "standard_error": None if error is None else round(error, 2),
                }
            )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"mean accuracy over the curve; points over '{BASE}', paired")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(width=150).print(table)


def plot(curves: dict[str, dict[str, list[Any]]], path: Path) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(4.5 * len(curves), 4), squeeze=False)
    for axis, (name, runs) in zip(axes[0], curves.items(), strict=True):
        b = SETTINGS[name].b
        for run, results in runs.items():
            mean = np.mean(results, axis=0)
            axis.plot(b * np.arange(1, len(mean) + 1), mean, label=run, lw=2 if "ahead" in run else 1)
        axis.set(title=name, xlabel="labels", ylabel="accuracy")
    axes[0, -1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the npz files")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(SETTINGS))
    parser.add_argument("--runs", nargs="*", default=list(RUNS), choices=list(RUNS), metavar="RUN")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--resume", action="store_true", help="continue from the repetitions in --out")
    asked = parser.parse_args()
    names = [
        n for n in asked.only if not SETTINGS[n].file or (asked.data / f"{SETTINGS[n].file}.npz").exists()
    ]
    raw = {name: load(name, asked.data) for name in names}
    curves: dict[str, dict[str, list[Any]]] = {name: {run: [] for run in asked.runs} for name in names}
    seconds: dict[str, dict[str, list[float]]] = {name: {run: [] for run in asked.runs} for name in names}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    if asked.resume:
        before = json.loads(asked.out.read_text())
        curves = before["curves"]
        seconds = {
            name: {run: [t] for run, t in s.items()} for name, s in before["seconds_per_label"].items()
        }
    for rep in range(min(len(next(iter(runs.values()))) for runs in curves.values()), asked.repetitions):
        for name in names:
            data = split(raw[name], np.random.default_rng(rep))
            for run in asked.runs:
                if run.startswith("optimal") and SETTINGS[name].k > 50 and rep >= FEW:
                    continue
                accuracies, spent = curve(data, SETTINGS[name], RUNS[run], rep)
                curves[name][run].append(accuracies)
                seconds[name][run].append(spent)
        rows = summary(curves)
        times = {name: {r: round(float(np.mean(t)), 5) for r, t in s.items()} for name, s in seconds.items()}
        settings = {name: SETTINGS[name]._asdict() for name in names}
        result = {"settings": settings, "summary": rows, "seconds_per_label": times, "curves": curves}
        write(asked.out, result, parts=[] if asked.resume else None)
        Console().print(f"repetition {rep + 1} of {asked.repetitions} done")
    show(rows)
    plot(curves, asked.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
