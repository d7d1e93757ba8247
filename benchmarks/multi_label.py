"""Several classes per item: `python -m benchmarks multi_label --data FOLDER`.

Macro F1 on test items after 100 to 800 labelled items, in batches of 50: the default strategy and others with
our model, and one-vs-rest logistic regression of scikit-learn that picks by its own margin. All choose
thresholds on labelled items alone: ours by leaving each out, scikit-learn's in three folds. Besides: the time
of an update against that with one class per item, and probabilities after exact updates against one-vs-rest
logistic regression with the same prior.
GoEmotions is only reported; pairs of Clinc-150 intents (the mean of two vectors) and of digits are for
development.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

import everylabel as el
from benchmarks.timing import report, seconds, write
from everylabel.core.leave_one_out import leave_one_out
from everylabel.models.scaling import fit_pool_scaling, suited_precision

BUDGETS = (100, 200, 400, 800)
BATCH, POOL, TEST = 50, 3000, 1000
OURS = ("herding", "random", "margin", "class_wise", "badge")
RIVAL = "one-vs-rest, margin"
INTENTS = 30


class Data(NamedTuple):
    """A pool and test items with their indicator matrices."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def emotions(folder: Path, rng: np.random.Generator) -> Data:
    with np.load(folder / "goemotions_minilm384.npz") as file:
        some = rng.permutation(len(file["X_train"]))[:POOL]
        x, y = file["X_train"][some].astype(np.float32), file["Y_train"][some].astype(float)
        return Data(x, y, file["X_test"].astype(np.float32), file["Y_test"].astype(float))


def intents(folder: Path, rng: np.random.Generator) -> Data:
    kept = np.random.default_rng(7).permutation(150)[:INTENTS]
    shares = 1.0 / np.arange(1, INTENTS + 1) ** 0.7
    with np.load(folder / "clinc150_minilm384.npz") as file:
        parts = [(file[f"X_{part}"].astype(np.float32), file[f"y_{part}"]) for part in ("train", "test")]

    def pairs(x: np.ndarray, y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        rows = [np.flatnonzero(y == c) for c in kept]
        both = [rng.choice(INTENTS, 2, replace=False, p=shares / shares.sum()) for _ in range(n)]
        features = [(x[rng.choice(rows[a])] + x[rng.choice(rows[b])]) / 2 for a, b in both]
        return np.stack(features), _indicator(np.stack(both), INTENTS)

    return Data(*pairs(*parts[0], POOL), *pairs(*parts[1], TEST))


def two_digits(folder: Path, rng: np.random.Generator) -> Data:
    x, y = load_digits(return_X_y=True)

    def pairs(some: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        both = rng.choice(some, (n, 2))
        return x[both].reshape(n, -1).astype(np.float32) / 16, _indicator(y[both], 10)

    return Data(*pairs(np.arange(1200), POOL), *pairs(np.arange(1200, len(x)), TEST))


SETS: dict[str, Callable[[Path, np.random.Generator], Data]] = {
    "goemotions": emotions, "clinc150 pairs": intents, "digit pairs": two_digits,
}  # fmt: skip


def _indicator(classes: np.ndarray, k: int) -> np.ndarray:
    return np.asarray(np.eye(k)[classes].max(axis=1))


def scores(data: Data, probs: np.ndarray, limits: np.ndarray) -> list[float]:
    """Return macro F1 by thresholds, macro F1 at 0.5, and macro average precision."""
    f1 = [f1_score(data.y_test, probs >= t, average="macro", zero_division=0) for t in (limits, 0.5)]
    return [*map(float, f1), float(average_precision_score(data.y_test, probs, average="macro"))]


def ours(data: Data, strategy: str, seed: int) -> list[list[float]]:
    """Return the scores at each budget."""
    k, rng = data.y.shape[1], np.random.default_rng(seed)
    prior, found, mean = suited_precision(k), [], np.zeros((data.x.shape[1] + 1, k))
    pool = el.Pool(data.x, el.laplace(mean, data.x[:0].astype(float), "bernoulli", prior))
    labelled = np.empty(0, np.int64)
    while len(labelled) < BUDGETS[-1]:
        labelled = np.r_[labelled, el.select(pool, strategy, BATCH, rng)]
        x, y = data.x[labelled].astype(float), data.y[labelled]
        mean = el.fit_map(x, y, k, prior, init=mean, tol=1e-4)
        posterior = el.laplace(mean, x, "bernoulli", prior, labels=y)
        pool = el.Pool(data.x, posterior, labelled_idx=labelled, labels=y)
        if len(labelled) in BUDGETS:
            limits = el.thresholds(1.0 / (1.0 + np.exp(-leave_one_out(posterior))), y)
            found.append(scores(data, el.predict_proba(posterior, data.x_test, "mean"), limits))
    return found


def rival(data: Data, seed: int) -> list[list[float]]:
    """Return the scores of scikit-learn, which begins with random items."""
    rng, found = np.random.default_rng(seed), []
    labelled = rng.choice(len(data.x), BATCH, replace=False)
    model = OneVsRestClassifier(LogisticRegression(C=1.0, max_iter=300))
    while True:
        x, y = data.x[labelled], data.y[labelled].astype(int)
        usable = np.flatnonzero((y.min(axis=0) == 0) & (y.max(axis=0) == 1))
        model.fit(x, y[:, usable])

        def whole(part: Any, usable: np.ndarray = usable, n: int = y.shape[1]) -> np.ndarray:
            every = np.zeros((len(part), n))
            every[:, usable] = part
            return every

        if len(labelled) in BUDGETS:
            often = np.flatnonzero(y[:, usable].sum(axis=0) >= 6)  # those that three folds know
            held = np.zeros((len(y), len(usable)))
            if len(often):
                held[:, often] = cross_val_predict(
                    model, x, y[:, usable[often]], cv=3, method="predict_proba"
                )
            found.append(scores(data, whole(model.predict_proba(data.x_test)), el.thresholds(whole(held), y)))
        if len(labelled) == BUDGETS[-1]:
            return found
        free = np.setdiff1d(np.arange(len(data.x)), labelled)
        margin = np.abs(model.predict_proba(data.x[free]) - 0.5).min(axis=1)
        labelled = np.r_[labelled, free[np.argsort(margin)[:BATCH]]]


def curves(name: str, folder: Path, seeds: int) -> list[dict[str, Any]]:
    """Return mean and standard error of each arm at each budget."""
    found: dict[str, list[Any]] = {}
    for seed in range(seeds):
        data = SETS[name](folder, np.random.default_rng(seed))
        scaling = fit_pool_scaling(data.x)
        data = data._replace(
            **{part: scaling(getattr(data, part)).astype(np.float32) for part in ("x", "x_test")}
        )
        for strategy in OURS:
            found.setdefault(strategy, []).append(ours(data, strategy, seed))
        found.setdefault(RIVAL, []).append(rival(data, seed))
    rows = []
    for arm, runs in found.items():
        values = np.asarray(runs)  # (seeds, budgets, scores)
        error = values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0 * values[0]
        rows += [
            {
                "set": name, "arm": arm, "items": n, "repetitions": seeds,
                "macro F1": round(m[0], 4), "standard error": round(e[0], 4),
                "macro F1 at 0.5": round(m[1], 4), "macro average precision": round(m[2], 4),
            }
            for n, m, e in zip(BUDGETS, values.mean(axis=0), error, strict=True)
        ]  # fmt: skip
    return rows


def update_ratio(d: int = 384, k: int = 28, n: int = 200) -> dict[str, float]:
    """Return the time of a label's update against that of one class per item."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, d)) / 4, rng.integers(k, size=n)
    answers = (rng.random((n, k)) < 0.06).astype(float)
    single = el.laplace(el.fit_map(x, y, k), x, labels=y)
    several = el.laplace(el.fit_map(x, answers, k), x, "bernoulli", labels=answers)
    new = rng.normal(size=(1, d)) / 4
    ratios = {}
    for method, rounds in (("second_order", 300), ("exact", 60)):
        times = seconds(
            {
                "one class per item": lambda method=method: el.update(single, new, y[:1], method),  # type: ignore[misc]
                "several": lambda method=method: el.update(several, new, answers[:1], method),  # type: ignore[misc]
            },
            rounds,
        )
        ratios[method] = round(times["several"] / times["one class per item"], 3)
    return ratios


def exactness(folder: Path, n: int = 300) -> float:
    """Return the largest difference to one-vs-rest logistic regression after 100 updates."""
    data = emotions(folder, np.random.default_rng(0))
    x, y = data.x[:n].astype(float) * 5, data.y[:n]
    kept = np.flatnonzero((y[: n - 100].min(axis=0) == 0) & (y.max(axis=0) == 1))
    y = y[:, kept]
    first = n - 100
    mean = el.fit_map(x[:first], y[:first], len(kept))
    posterior = el.laplace(mean, x[:first], "bernoulli", labels=y[:first])
    for i in range(first, n):
        posterior = el.update(posterior, x[i : i + 1], y[i : i + 1], "exact")
    design, test = (np.c_[part, np.ones(len(part))] for part in (x, data.x_test.astype(float) * 5))
    plain = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000)
    right = OneVsRestClassifier(plain).fit(design, y.astype(int)).predict_proba(test)
    return float(np.abs(el.predict_proba(posterior, test[:, :-1], "mean") - right).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the features")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    found: dict[str, Any] = {
        "update_ratio": update_ratio(), "largest_difference": exactness(given.data), "curves": []
    }  # fmt: skip
    for name in given.sets:
        found["curves"] += curves(name, given.data, given.seeds)
        write(given.out / "multi_label.json", found, measures=("core", "selection", "models/thresholds.py"))
    columns = [
        "arm",
        "set",
        "items",
        "macro F1",
        "standard error",
        "macro F1 at 0.5",
        "macro average precision",
    ]
    report(
        "several classes per item", columns, [[str(row[name]) for name in columns] for row in found["curves"]]
    )
    print(f"update: {found['update_ratio']}, against logistic regression: {found['largest_difference']:.2g}")


if __name__ == "__main__":
    main()
