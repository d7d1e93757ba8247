"""Speed of selection as ratios measured in one run: `make bench NAME=selection`.

Jobs take turns, and the lower quartile of each job's times counts; trust ratios, not seconds. The extra
`bench` installs the other libraries; missing ones are reported. Results go to docs/results/selection.json.
"""

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import everylabel as el
from benchmarks import selection_peers
from benchmarks.results import write
from benchmarks.timing import seconds
from everylabel.selection.strategies import DEFAULT

OUT = Path("docs/results/selection.json")


def posterior(features: np.ndarray, k: int, rng: np.random.Generator) -> el.Posterior:
    return el.laplace(0.1 * rng.normal(size=(features.shape[1] + 1, k)), features[:200])


def rescore(post: el.Posterior, features: np.ndarray, i: int, label: int) -> int:
    """Return the next instance the slow way: update, all logits, all probabilities, all margins."""
    post = el.update(post, features[i : i + 1], [label])
    f = features @ post.mean[:-1].astype(np.float32) + post.mean[-1].astype(np.float32)
    f = np.exp(f - f.max(axis=1, keepdims=True))
    f /= f.sum(axis=1, keepdims=True)
    f = np.partition(f, -2, axis=1)
    return int(np.argmin(f[:, -1] - f[:, -2]))


def label_to_next(n: int, d: int, k: int, target: float | None = None) -> dict[str, Any]:
    """Return the time of a label and the next pick relative to the bare product H @ v."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n, d), dtype=np.float32)
    post, v = posterior(features, k, rng), rng.normal(size=d).astype(np.float32)
    pool = el.Pool(features, post)

    def label() -> None:
        el.select(pool, "margin", 1, rng, ask=lambda i: int(rng.integers(k)))

    plain = {"bare": lambda: features @ v, "label": label}
    first = seconds({**plain, "rescore": lambda: rescore(post, features, 3, 1)}, 5 if n * d > 1e8 else 15)
    for _ in range(300 if n < 500_000 else 50):
        label()
    later = seconds(plain, 5 if n * d > 1e8 else 15)
    cache = pool.logits().nbytes + pool.labels.nbytes + pool.weights.nbytes + pool.state.nbytes
    return {
        "n": n,
        "d": d,
        "k": k,
        "bare_product_s": first["bare"],
        "label_to_next_s": first["label"],
        "ratio": first["label"] / first["bare"],
        "ratio_after_many_labels": later["label"] / later["bare"],
        "full_rescoring_over_ours": first["rescore"] / first["label"],
        "cache_over_features": cache / features.nbytes,
        "target_ratio": target,
    }


def default_choice(d: int, k: int, dtype: str) -> dict[str, Any]:
    """Return the time of a label and the next pick in a pool of a million, by herding and by margin."""
    rng, n = np.random.default_rng(0), 1_000_000
    features = np.empty((n, d), dtype)
    for at in range(0, n, 100_000):
        features[at : at + 100_000] = rng.standard_normal((100_000, d), dtype=np.float32)
    idx, labels = np.arange(200), rng.integers(k, size=200)
    post = el.laplace(el.fit_map(features[idx], labels, k), features[idx], labels=labels)
    pools = {name: el.Pool(features, post, labelled_idx=idx, labels=labels) for name in ("margin", DEFAULT)}
    jobs: dict[str, Callable[[], Any]] = {
        name: partial(el.select, pool, name, 1, rng, ask=lambda i: int(rng.integers(k)))
        for name, pool in pools.items()
    }
    took = seconds(jobs, 15)
    return {
        "n": n,
        "d": d,
        "k": k,
        "dtype": dtype,
        "margin_s": took["margin"],
        f"{DEFAULT}_s": took[DEFAULT],
        "ratio": took[DEFAULT] / took["margin"],
        "target_ratio": 1.5,
    }


def optimal(d: int, k: int, b: int, target: float) -> dict[str, Any]:
    """Return the time of optimal_batch's 2,000 batches relative to a loop over update and predict_proba."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2200, d), dtype=np.float32)
    labels = rng.integers(k, size=2200)
    pool = el.Pool(features[:1200], posterior(features, k, rng))
    val, right = features[1200:], labels[1200:]

    def loop(batches: int = 5) -> None:
        for _ in range(batches):
            some = rng.choice(1200, b, replace=False)
            after = el.update(pool.posterior, features[some], labels[some])
            np.mean(el.predict_proba(after, val).argmax(axis=1) == right)

    given = pool, labels[:1200], val, right, b
    jobs: dict[str, Callable[[], Any]] = {
        "ours": lambda: el.optimal_batch(*given, rng=rng),
        "five of the loop": loop,
    }
    took = seconds(jobs, 3)
    speedup = 400 * took["five of the loop"] / took["ours"]
    return {"d": d, "k": k, "b": b, "ours_s": took["ours"], "speedup": speedup, "target": target}


def lookahead(k: int) -> dict[str, Any]:
    """Return the time of one pick of 1,000 candidates x 1,000 instances relative to a bare product."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2000, 384), dtype=np.float32)
    pool = el.Pool(features, posterior(features, k, rng))
    kernel = rng.normal(size=(1000, 1000)).astype(np.float32)
    columns = rng.normal(size=(1000, k)).astype(np.float32)
    double, wide = kernel.astype(np.float64), columns.astype(np.float64)
    options: Any = {"n_candidates": 1000, "n_eval": 1000}
    jobs = {
        "pick": lambda: el.select(pool, "lookahead", 1, rng, **options),
        "float32": lambda: kernel @ columns,
        "float64": lambda: double @ wide,
    }
    took = seconds(jobs, 9)
    return {
        "k": k,
        "pick_s": took["pick"],
        "over_bare_float32": took["pick"] / took["float32"],
        "over_bare_float64": took["pick"] / took["float64"],
        "target": 40.0 if k == 10 else None,
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=170).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--parts", nargs="*", default=["label", "default", "optimal", "lookahead", "peers", "eer"]
    )
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    results: dict[str, Any] = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "label": lambda: [
            label_to_next(10_000, 384, 10),
            label_to_next(100_000, 384, 10),
            label_to_next(100_000, 768, 10),
            label_to_next(100_000, 768, 150, 3.0),
            label_to_next(1_000_000, 384, 10, 2.0),
        ],
        "default": lambda: [
            default_choice(64, 2, "float32"),
            default_choice(64, 10, "float32"),
            default_choice(384, 20, "float16"),
        ],
        "optimal": lambda: [optimal(384, 10, 10, 100.0), optimal(768, 77, 50, 30.0)],
        "lookahead": lambda: [lookahead(k) for k in (10, 20, 40, 80, 150)],
        "peers": selection_peers.batches,
        "eer": selection_peers.expected_error,
    }
    for part in asked.parts:
        results[part] = parts[part]()
        show(part, results[part])
        results["threads"] = os.environ.get("OMP_NUM_THREADS", "all")
        write(asked.out, results, parts=[part])


if __name__ == "__main__":
    main()
