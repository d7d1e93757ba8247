"""Speed and memory of the core, as ratios measured in one run: `make bench NAME=core`."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import everylabel as el
from benchmarks.results import write
from benchmarks.timing import peak_bytes, report, seconds
from everylabel.torch import train_head

D, K = 384, 10
Data = tuple[np.ndarray, np.ndarray]


def data(n: int, rng: np.random.Generator, d: int = D, k: int = K) -> Data:
    """Return overlapping classes with features of norm about 6, like those of a language model."""
    labels = rng.integers(k, size=n)
    centres = rng.normal(size=(k, d))
    features = centres[labels] + 2.0 * rng.normal(size=(n, d))
    return features * (6.0 / np.linalg.norm(features, axis=1, keepdims=True)), labels


def one_label(rng: np.random.Generator, rounds: int) -> list[dict[str, Any]]:
    """Time one label against the minimum: a matrix-vector product and a rank-one subtraction."""
    x, y = data(400, rng)
    post = el.laplace(el.fit_map(x[:100], y[:100], K), x[:100])
    later = el.update(post, *data(2000, rng))
    h, one = np.append(x[0], 1.0), x[:1]

    def floor() -> np.ndarray:
        v = post.cov @ h
        return post.cov - np.outer(v, v)

    times = seconds(
        {
            "floor": floor,
            "second order": lambda: el.update(post, one, y[:1]),
            "second order, after 2,000 labels": lambda: el.update(later, one, y[:1]),
            "first order": lambda: el.update(post, one, y[:1], "first_order"),
            "10 labels one by one": lambda: el.update(post, x[:10], y[:10]),
            "10 labels jointly": lambda: el.update(post, x[:10], y[:10], joint=True),
        },
        rounds,
    )
    return [
        {"job": name, "milliseconds": 1e3 * value, "times_floor": value / times["floor"]}
        for name, value in times.items()
    ]


def plain_recipe(x: np.ndarray, y: np.ndarray) -> torch.nn.Linear:
    """Train by the paper's recipe, written with torch's own classes."""
    rows = torch.utils.data.TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))
    loader = torch.utils.data.DataLoader(rows, batch_size=64, shuffle=True)
    layer = torch.nn.Linear(x.shape[1], K)
    optimiser = torch.optim.RAdam(layer.parameters(), lr=0.01, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=200)
    for _ in range(200):
        for batch, labels in loader:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(layer(batch), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        schedule.step()
    return layer


def against_retraining(rng: np.random.Generator, sizes: list[int]) -> list[dict[str, Any]]:
    """Time each update on new labels against retraining (the paper's Fig. 5 has ten labels)."""
    rows = []
    for n in sizes:
        x, y = data(n + 10, rng)
        post = el.laplace(el.fit_map(x[:n], y[:n], K), x[:n])
        samples = el.sample(post, 10_000, rng)
        new = x[n:], y[n:]
        fast = seconds(
            {
                "second order, 1 label": partial(el.update, post, new[0][:1], new[1][:1]),
                "second order": partial(el.update, post, *new),
                "first order": partial(el.update, post, *new, "first_order"),
                "fit_map": partial(el.fit_map, x, y, K),
            },
            15,
        )
        fast |= seconds({"Monte Carlo": partial(el.update, samples, *new)}, 3)
        fast |= seconds({"recipe": partial(train_head, x, y, K, rng)}, 2)
        fast |= seconds({"plain recipe": partial(plain_recipe, x, y)}, 1)
        rows += [
            {
                "n": n,
                "update": update,
                "milliseconds": 1e3 * fast[update],
                "x plain recipe": fast["plain recipe"] / fast[update],
                "x our recipe": fast["recipe"] / fast[update],
                "x fit_map": fast["fit_map"] / fast[update],
            }
            for update in fast
        ]
    return rows


def memory(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Measure the peak memory of an update, in multiples of the size of its result."""
    x, y = data(600, rng)
    post = el.laplace(el.fit_map(x[:100], y[:100], K), x[:100])
    samples = el.sample(post, 10_000, rng)
    state = post.cov.nbytes + post.mean.nbytes
    whole = 500 * 10_000 * K * 4  # n x m x k in single precision
    one = peak_bytes(lambda: el.update(post, x[:1], y[:1]))
    many = peak_bytes(lambda: el.update(samples, x[:500], y[:500]))
    return [
        {"job": "one label: peak / (d^2 + d k)", "megabytes": one / 1e6, "ratio": one / state},
        {"job": "Monte Carlo, 500 labels: peak / (n m k)", "megabytes": many / 1e6, "ratio": many / whole},
    ]


def main() -> None:
    """Run everything, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/core.json"))
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    torch.set_num_threads(1)
    with threadpool_limits(1):  # the same for all, whatever else the machine is doing
        results = {
            "one_label": one_label(rng, options.rounds),
            "against_retraining": against_retraining(rng, [10, 100, 1000]),
            "memory": memory(rng),
        }
    for title, rows in results.items():
        cells = [[f"{v:,.2f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
        report(title.replace("_", " ") + f" (d={D}, k={K})", list(rows[0]), cells)
    write(options.out, results)


if __name__ == "__main__":
    main()
