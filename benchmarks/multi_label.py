"""Several classes per item: `python -m benchmarks multi_label --data FOLDER`.

Macro F1 on test items after 100 to 800 labelled items, in batches of 50 to 200: the default strategy and
others with our model, and one-vs-rest logistic regression of scikit-learn that picks by its own margin. All
decide by thresholds that maximise expected F1 over the unlabelled items. Besides: the time of an update
against that with one class per item, and probabilities after exact updates against one-vs-rest logistic
regression with the same prior; and how often the intervals of precision, recall and F1 by class, from random
checks, hold the figures of the unlabelled items. Draws are kept in --cache, so a stopped run continues.
GoEmotions is only reported; pairs of Clinc-150 intents (the mean of two vectors) and of digits are for
development.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.multiclass import OneVsRestClassifier

import everylabel as el
from benchmarks.labels.sets import encoder_path
from benchmarks.results import cache_record, write
from benchmarks.serving import WARM_UP, data, quantiles, worked
from benchmarks.serving_large import start, stop
from benchmarks.timing import report, seconds
from everylabel.labelling.quality.f1 import set_figures
from everylabel.labelling.quality.suspect_labels import left_out_probabilities
from everylabel.models.scaling import fit_pool_scaling, suited_precision

BUDGETS = (100, 200, 400, 800)
TOTALS = (50, 100, 150, 200, 300, 400, 600, 800)  # labelled items after each batch
POOL, TEST = 4000, 1000
RIVAL = "one-vs-rest, margin"
ARMS = ("herding", "random", "class_wise", "label cardinality", "max loss", RIVAL)
CHOSEN, CHECKS = 200, 200  # items that a strategy chose and random checks, for the intervals
INTENTS = 30
KEPT = np.random.default_rng(7).permutation(150)[:INTENTS]  # intents of Clinc-150
NAMED = {
    "clinc150 pairs": ("clinc150_minilm384.npz", KEPT),
    "goemotions": ("goemotions_minilm384.npz", None),
}  # files with class names


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
    shares = 1.0 / np.arange(1, INTENTS + 1) ** 0.7
    with np.load(folder / "clinc150_minilm384.npz") as file:
        parts = [(file[f"X_{part}"].astype(np.float32), file[f"y_{part}"]) for part in ("train", "test")]

    def pairs(x: np.ndarray, y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        rows = [np.flatnonzero(y == c) for c in KEPT]
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


def scores(data: Data, probs: np.ndarray, pool: np.ndarray) -> list[float]:
    """Return macro F1 by thresholds that the pool chose, macro F1 at 0.5, and macro average precision."""
    f1 = [
        f1_score(data.y_test, probs >= t, average="macro", zero_division=0)
        for t in (el.thresholds(pool), 0.5)
    ]
    return [*map(float, f1), float(average_precision_score(data.y_test, probs, average="macro"))]


def cardinality(pool: el.Pool, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return how far the number of predicted classes is from the labels' mean (Li and Guo, 2013)."""
    usual = np.nanmean(np.nansum(pool.labels[pool.labelled_idx], axis=1))
    return np.abs((pool.probs(idx) >= 0.5).sum(axis=1) - usual) - 1e-3 * pool.margins(idx)  # ties


def max_loss(pool: el.Pool, idx: np.ndarray, rng: Any) -> np.ndarray:
    """Return the hinge loss of the predicted classes, which a label could take away (Yang et al., 2009)."""
    return np.asarray(np.maximum(1.0 - np.abs(pool.logits(idx)), 0.0).sum(axis=1))


RULES = {"label cardinality": cardinality, "max loss": max_loss}  # scikit-activeml 1.0 has no rule for this


def ours(data: Data, strategy: str, seed: int) -> list[list[float]]:
    """Return the scores at each budget."""
    k, rng = data.y.shape[1], np.random.default_rng(seed)
    prior, found, mean = suited_precision(k), [], np.zeros((data.x.shape[1] + 1, k))
    pool = el.Pool(data.x, el.laplace(mean, data.x[:0].astype(float), "bernoulli", prior))
    labelled = np.empty(0, np.int64)
    for total in TOTALS:
        new = el.select(pool, RULES.get(strategy, strategy), total - len(labelled), rng)
        labelled = np.r_[labelled, new]
        x, y = data.x[labelled].astype(float), data.y[labelled]
        mean = el.fit_map(x, y, k, prior, init=mean, tol=1e-3)
        posterior = el.laplace(mean, x, "bernoulli", prior, labels=y)
        pool = el.Pool(data.x, posterior, labelled_idx=labelled, labels=y)
        if total in BUDGETS:
            found.append(
                scores(data, el.predict_proba(posterior, data.x_test, "mean"), pool.probs(pool.free_idx))
            )
    return found


def rival(data: Data, seed: int) -> list[list[float]]:
    """Return the scores of scikit-learn, which begins with random items."""
    rng, found = np.random.default_rng(seed), []
    labelled = rng.choice(len(data.x), TOTALS[0], replace=False)
    model = OneVsRestClassifier(LogisticRegression(C=1.0, max_iter=300))
    for total in TOTALS:
        if total > len(labelled):
            free = np.setdiff1d(np.arange(len(data.x)), labelled)
            margin = np.abs(model.predict_proba(data.x[free]) - 0.5).min(axis=1)
            labelled = np.r_[labelled, free[np.argsort(margin)[: total - len(labelled)]]]
        y = data.y[labelled].astype(int)
        usable = np.flatnonzero((y.min(axis=0) == 0) & (y.max(axis=0) == 1))
        model.fit(data.x[labelled], y[:, usable])
        if total in BUDGETS:
            parts = data.x_test, np.delete(data.x, labelled, axis=0)
            probs = [np.zeros((len(part), y.shape[1])) for part in parts]
            for each, part in zip(probs, parts, strict=True):
                each[:, usable] = model.predict_proba(part)
            found.append(scores(data, *probs))
    return found


def run(names: list[str], folder: Path, seeds: int, cache: Path) -> None:
    """Run what the cache lacks, draw by draw; a run that was stopped continues."""
    for seed, name in ((seed, name) for seed in range(seeds) for name in names):
        missing = [arm for arm in ARMS if not _cell(cache, name, arm, seed).exists()]
        if not missing:
            continue
        data = scaled(name, folder, seed)
        for arm in missing:
            found = rival(data, seed) if arm == RIVAL else ours(data, arm, seed)
            _cell(cache, name, arm, seed).write_text(json.dumps(found))


def scaled(name: str, folder: Path, seed: int) -> Data:
    """Return a draw of a set, scaled as on the page."""
    data = SETS[name](folder, np.random.default_rng(seed))
    scaling = fit_pool_scaling(data.x)
    x, x_test = (scaling(part).astype(np.float32) for part in (data.x, data.x_test))
    return data._replace(x=x, x_test=x_test)


def intervals(name: str, folder: Path, seeds: int) -> list[dict[str, Any]]:
    """Return how often the intervals by class hold the figures of the unlabelled items."""
    held: dict[str, list[bool]] = {"precision": [], "recall": [], "f1": []}
    for seed in range(seeds):
        data, rng = scaled(name, folder, seed), np.random.default_rng(seed)
        k = data.y.shape[1]
        prior, classes = suited_precision(k), range(k)
        empty = el.laplace(np.zeros((data.x.shape[1] + 1, k)), data.x[:0].astype(float), "bernoulli", prior)
        chosen = el.select(el.Pool(data.x, empty), "herding", CHOSEN, rng)
        checks = rng.choice(np.setdiff1d(np.arange(len(data.x)), chosen), CHECKS, replace=False)
        labelled = np.r_[checks, chosen]
        x, y = data.x[labelled].astype(float), data.y[labelled]
        posterior = el.laplace(el.fit_map(x, y, k, prior), x, "bernoulli", prior, labels=y)
        probs = el.predict_proba(posterior, data.x.astype(float), "mean")
        rest = np.setdiff1d(np.arange(len(data.x)), labelled)
        limits = el.thresholds(probs[rest])
        said = left_out_probabilities(posterior, CHECKS) >= limits
        told = set_figures(y[:CHECKS], said, np.ones(CHECKS), classes)["classes"]
        true = set_figures(data.y[rest], probs[rest] >= limits, np.ones(len(rest)), classes)["classes"]
        for one, is_so in zip(told, true, strict=True):
            for figure, found in held.items():
                if one[figure] is not None and is_so[figure] is not None:
                    found.append(one[figure]["low"] <= is_so[figure]["estimate"] <= one[figure]["high"])
    return [
        {"set": name, "figure": figure, "intervals": len(found), "repetitions": seeds,
         "hold": round(float(np.mean(found)), 4) if found else None}
        for figure, found in held.items()
    ]  # fmt: skip


def _cell(cache: Path, name: str, arm: str, seed: int) -> Path:
    return cache / f"{name}-{arm}-{seed}.json".replace(" ", "_")


def curves(name: str, cache: Path, seeds: int) -> list[dict[str, Any]]:
    """Return mean and standard error of each arm at each budget, and how far it is behind the default."""
    draws = [s for s in range(seeds) if all(_cell(cache, name, arm, s).exists() for arm in ARMS)]
    found = {
        arm: np.array([json.loads(_cell(cache, name, arm, s).read_text()) for s in draws]) for arm in ARMS
    }  # (seeds, budgets, scores)
    rows = []
    for arm, values in found.items() if len(draws) > 1 else ():
        ahead = found[ARMS[0]][:, :, 0] - values[:, :, 0]
        for at, n in enumerate(BUDGETS):
            m = values[:, at].mean(axis=0)
            rows.append({
                "set": name, "arm": arm, "items": n, "repetitions": len(draws),
                "macro F1": round(m[0], 4), "standard error": _error(values[:, at, 0]),
                "default ahead": round(float(ahead[:, at].mean()), 4), "its error": _error(ahead[:, at]),
                "macro F1 at 0.5": round(m[1], 4), "macro average precision": round(m[2], 4),
            })  # fmt: skip
    return rows


def _error(values: np.ndarray) -> float:
    return round(float(values.std(ddof=1) / np.sqrt(len(values))), 4)


def class_names(name: str, folder: Path, seeds: int) -> list[dict[str, Any]]:
    """Return macro average precision with and without class names, by the number of positives a class."""
    file, kept = NAMED[name]
    with np.load(folder / file) as stored:
        classes = [str(c) for c in stored["classes"]]
    classes = classes if kept is None else [classes[c] for c in kept]
    vectors = el.embed_names(classes, encoder_path())
    found: dict[tuple[int, bool], list[tuple[float, bool]]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        data = SETS[name](folder, rng)
        for positives in (0, 1, 5):
            some = np.unique(
                [i for y in data.y.T for i in rng.choice(np.flatnonzero(y), positives, replace=False)]
            )
            some = some.astype(np.int64)
            for named in (False, True) if positives else (True,):
                model = el.LaplaceClassifier()
                names = vectors if named else None
                model.fit(data.x[some], data.y[some], unlabelled=data.x, names=names, classes=classes)
                score = average_precision_score(
                    data.y_test, model.predict_proba(data.x_test), average="macro"
                )
                found.setdefault((positives, named), []).append((float(score), model.names_hold_))
    return [
        {
            "set": name, "positives a class": positives, "names": named, "repetitions": seeds,
            "macro average precision": round(float(np.mean([score for score, _ in runs])), 4),
            "standard error": _error(np.array([score for score, _ in runs])),
            "names believed": sum(hold for _, hold in runs),
        }
        for (positives, named), runs in found.items()
    ]  # fmt: skip


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


def served(rows: int, labels: int, k: int = 28) -> dict[str, Any]:
    """Return milliseconds from label to next over HTTP, with one class per item and with several.

    Two servers take turns label by label, so that other work on the machine disturbs both alike. The
    processor's time counts all threads of a server, with trainings in the background.
    """
    x, own = data(rows, 384, k)
    answers = np.random.default_rng(1).random((rows, k)) < 1.0 / k
    answers[np.arange(rows), own] = True
    took: dict[str, list[float]] = {"single": [], "several": []}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        running: dict[str, Any] = {}
        try:
            for name, more in (("single", []), ("several", ["--multi-label"])):
                source = Path(folder) / f"{name}.npy"
                np.save(source, x.astype(np.float16))
                process, client, _ = start(source, k, more)
                running[name] = process, client, client.ask("POST", "/api/next", {"person": "first"})["next"]
            began = {}
            for turn in range(WARM_UP + labels):
                for name, (process, client, task) in list(running.items()):
                    if turn == WARM_UP:
                        began[name] = worked(process.pid)
                    item = task["item"]["id"]
                    body: dict[str, Any] = {"person": "first", "item": item}
                    if name == "single":
                        body |= {"class": int(own[int(item)])}
                    else:
                        body |= {"present": np.flatnonzero(answers[int(item)]).tolist()}
                    client.connection.close()  # the server closes one that waits while the other works
                    client.connection.connect()
                    at = time.perf_counter()
                    reply = client.ask("POST", "/api/label" if name == "single" else "/api/label_set", body)
                    took[name].append(time.perf_counter() - at)
                    running[name] = process, client, reply["next"]
            work = {name: (worked(each[0].pid) - began[name]) / labels for name, each in running.items()}
        finally:
            for process, *_ in running.values():
                stop(process)
    found = {name: quantiles(np.array(each[WARM_UP:])) for name, each in took.items()}
    ratio = {name: round(found["several"][name] / found["single"][name], 3) for name in found["single"]}
    ratio["processor"] = round(work["several"] / work["single"], 3)
    return {"pool": [rows, 384, k], "labels": labels, **found, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the features")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--cache", type=Path, default=Path("build/multi_label"), help="folder of finished draws"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--serving", type=int, help="measure only label to next, with a pool of N rows")
    parser.add_argument("--labels", type=int, default=300, help="of each server, with --serving")
    given = parser.parse_args()
    path = given.out / "multi_label.json"
    drawn = cache_record(given.cache)
    before = json.loads(path.read_text()) if path.exists() else {}
    if given.serving is not None:
        found = before | {"serving": served(given.serving, given.labels)}
        write(path, found, parts=["serving"])
        print(json.dumps(found["serving"], indent=1))
        return
    run(given.sets, given.data, given.seeds, given.cache)
    parts: dict[str, Any] = {
        "update_ratio": update_ratio(),
        "exact": {"largest difference to one-vs-rest logistic regression": exactness(given.data)},
        "names": [row for name in NAMED for row in class_names(name, given.data, min(given.seeds, 3))],
        "intervals": [row for name in SETS for row in intervals(name, given.data, given.seeds)],
        "curves": [row for name in SETS for row in curves(name, given.cache, given.seeds)],
    }
    found = before | parts
    write(path, found, parts=list(parts), cached={"curves": drawn})
    columns = ["set", "arm", *list(found["curves"][0])[2:]]
    report("several classes per item", columns, [[str(row[c]) for c in columns] for row in found["curves"]])
    print(f"update: {found['update_ratio']}, against logistic regression: {found['exact']}")


if __name__ == "__main__":
    main()
