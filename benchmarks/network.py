"""Gain and cost of fine-tuning the encoder, compared with frozen features: `make bench NAME=network`.

    python -m benchmarks.network --data FOLDER [--cells trec6:64 banking77:308] [--seeds 0 1]

Random labels out of a pool; accuracy on other texts of the head on frozen features, on tuned ones beside
them, and of the gate between the two. Each finished cell is stored, so that a stopped run resumes.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.kills import Killed
from benchmarks.results import records, sentence, write
from benchmarks.timing import report
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.embedding.hub import located
from everylabel.models.embedding.texts import DEFAULT
from everylabel.models.finetuning import Finetuned, finetune
from everylabel.models.finetuning.encoder import States
from everylabel.models.finetuning.job import Job, write_job
from everylabel.models.finetuning.tuning import FOLDS
from everylabel.models.names import phrase
from everylabel.projects.network import JOB_MODULE

PAGE = Path("docs/results/network.md")
LABELS = (64, 128, 256, 512)
SHOWN = 128  # labels of the figure
TITLES = {
    "trec6": "TREC-6",
    "tweetoffensive": "TweetOffensive",
    "goemotions": "GoEmotions, ten",
    "banking77": "Banking-77",
    "clinc150": "Clinc-150",
    "election": "Election tweets",
    "reuters": "Reuters, 21",
    "newsgroups": "20 Newsgroups",
    "friends": "Friends",
}
SETS = tuple(TITLES)
EMOTIONS = [
    *("admiration", "amusement", "anger", "curiosity", "fear"),
    *("gratitude", "joy", "love", "sadness", "surprise"),
]
Rows = list[tuple[str, str]]


def read(data: Path, name: str) -> tuple[Rows, Rows]:
    """Return texts with their classes, for the pool and for tests."""
    if name == "banking77":
        return _banking(data, "train"), _banking(data, "test")
    if name == "clinc150":
        parts = json.loads((data / "official" / "clinc150" / "data_full.json").read_text())
        return tuple([(text, label) for text, label in parts[part]] for part in ("train", "test"))  # type: ignore[return-value]
    with (data / "texts" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    label = "labels" if name == "goemotions" else "label"
    kept = [row for row in rows if name != "goemotions" or row[label] in EMOTIONS]  # one label, of ten
    split = [
        [(row["text"], row[label]) for row in kept if (row["split"] == "train") is first]
        for first in (True, False)
    ]
    return split[0], split[1]


def _banking(data: Path, part: str) -> Rows:
    with (data / "official" / "banking77" / f"{part}.csv").open(newline="") as file:
        return [(row["text"], row["category"]) for row in csv.DictReader(file)]


def measure(data: Path, encoder: str, name: str, n: int, seed: int, pool: int, test: int) -> dict[str, Any]:
    """Return one cell: accuracies, results of cross-validation, seconds."""
    train, other = read(data, name)
    classes = sorted({label for _, label in train})
    rng = np.random.default_rng(seed)
    chosen = [train[i] for i in rng.permutation(len(train))[:pool]]
    held = [other[i] for i in rng.permutation(len(other))[:test]]
    texts, labels = zip(*chosen[:n], strict=True)
    began, busy = time.perf_counter(), time.process_time()
    found = finetune(
        encoder, texts, labels, names=classes, unlabelled=[text for text, _ in chosen[n:]], seed=seed
    )
    cell: dict[str, Any] = {"set": name, "labels": n, "seed": seed, "pool": len(chosen), "test": len(held)}
    cell |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}
    cell |= _accuracies(found, held)
    cell |= {
        "folds": FOLDS,
        "trusted": found.trusted,
        "cv_accuracy": found.accuracy,
        "cv_log_loss": found.log_loss,
    }
    cell["gated"] = cell["beside"] if found.trusted else cell["frozen"]
    cell["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return cell


def _accuracies(found: Finetuned, held: Rows) -> dict[str, float]:
    """Return the accuracy on held-out texts of heads on frozen, tuned and both features."""
    encoder = found.encoder.encoder
    encoder.set_weights(found.encoder.frozen)
    states = States(encoder, [text for text, _ in held])
    encoder.set_weights(found.encoder.tuned)
    after = states.embed()
    truth = np.array([label for _, label in held])
    every = {
        "frozen": (found.frozen, found.frozen_names, states.features),
        "tuned": (found.tuned, found.tuned_names, after),
    }
    every["beside"] = tuple(np.concatenate(pair, axis=1) for pair in zip(*every.values(), strict=True))  # type: ignore[assignment]
    scores = {}
    for how, (items, phrases, others) in every.items():
        names = {name: phrases[found.name_classes == c] for c, name in enumerate(found.classes)}
        head = LaplaceClassifier().fit(
            items[found.labelled],
            np.asarray(found.classes)[found.labels],
            unlabelled=items,
            names=names,
            classes=found.classes,
        )
        scores[how] = float(np.mean(head.predict(others) == truth))
    return scores


class Serving(Killed):
    """A server of texts: the time of a label with and without a fine-tuning attempt beside it."""

    name = "texts.csv"

    def __init__(self, folder: Path, rows: Rows, encoder: str) -> None:
        super().__init__(folder, None)
        self.source, self.encoder, self.rows = folder.parent / self.name, encoder, rows
        self.names = sorted({label for _, label in rows})
        with self.source.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text"])
            writer.writerows([i, text] for i, (text, _) in enumerate(rows))

    def arguments(self) -> list[str]:
        columns = ["--text-column", "text", "--id-column", "id", "--classes", ",".join(self.names)]
        return [str(self.source), "--model", self.encoder, *columns]

    def measure(self, pause: float = 0.2) -> dict[str, Any]:
        """Label until a first attempt has ended; return milliseconds from a label to the next item."""
        seconds: dict[bool, list[float]] = {False: [], True: []}
        process = self.start()
        try:
            reply, ended = self.insist("/api/next", {"person": "me"}), False
            while not ended and reply["next"] is not None:
                network = self.ask("GET", "/api/progress")["network"]
                item = reply["next"]["item"]["id"]
                body = {"person": "me", "item": item, "class": self.names.index(self.rows[int(item)][1])}
                began = time.perf_counter()
                reply = self.insist("/api/label", body)
                seconds[network["share"] is not None].append(time.perf_counter() - began)
                ended = bool(network["generations"]) or bool(seconds[True] and network["share"] is None)
                time.sleep(pause)
        finally:
            process.kill()
            process.wait()
        found: dict[str, Any] = {}
        for during, some in seconds.items():
            how = "during an attempt" if during else "before"
            found[how] = {"labels": len(some)} | {
                f"p{q}": 1000 * float(np.percentile(some, q)) for q in (50, 90, 99)
            }
        return found


def attempt(rows: Rows, n: int, encoder: str) -> dict[str, Any]:
    """Return seconds and peak memory of the process that the page starts for an attempt with n labels."""
    names = sorted({label for _, label in rows})
    labels = {str(i): names.index(label) for i, (_, label) in enumerate(rows[:n])}
    job = Job(encoder, "text", names, labels, [[phrase(name)] for name in names], {})
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder), job, [text for text, _ in rows])
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", JOB_MODULE, folder], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "items": len(rows),
        "labels": n,
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1000,
    }


def summary(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the means over seeds of each set and number of labels."""
    rows = []
    for name, n in dict.fromkeys((cell["set"], cell["labels"]) for cell in cells):
        some = [cell for cell in cells if (cell["set"], cell["labels"]) == (name, n)]
        gains = [100 * (cell["gated"] - cell["frozen"]) for cell in some]
        row: dict[str, Any] = {"set": name, "labels": n, "seeds": len(some)}
        row |= {how: float(np.mean([cell[how] for cell in some])) for how in ("frozen", "tuned", "gated")}
        row |= {
            "gain": float(np.mean(gains)),
            "worst": min(gains),
            "trusted": sum(c["trusted"] for c in some),
        }
        row |= {key: float(np.mean([cell[key] for cell in some])) for key in ("cpu_seconds", "megabytes")}
        rows.append(row)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the accuracy of each set at 128 labels, with the original and with the fine-tuned encoder."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    some = sorted((row for row in rows if row["labels"] == SHOWN), key=lambda row: -row["gain"])
    figure, ax = plt.subplots(figsize=(10, 3.4))
    at = np.arange(len(some))
    for shift, how, title in ((-0.2, "frozen", "original encoder"), (0.2, "gated", "fine-tuned encoder")):
        bars = ax.bar(at + shift, [row[how] for row in some], 0.38, label=title)
        ax.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
    ax.set_xticks(at, [TITLES[row["set"]] for row in some])
    ax.set(ylabel=f"accuracy at {SHOWN} labels", ylim=(0, 1.05))
    ax.legend(frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def table(rows: list[dict[str, Any]], cells: list[dict[str, Any]]) -> str:
    """Return the table of all cells, with the mean gain and the worst run."""
    lines = [
        "| set | labels | draws | frozen | gate | tuned | gain of each draw, points | trusted | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (SETS.index(row["set"]), row["labels"])):
        gains = [
            f"{100 * (cell['gated'] - cell['frozen']):+.1f}"
            for cell in cells
            if (cell["set"], cell["labels"]) == (row["set"], row["labels"])
        ]
        lines.append(
            f"| {TITLES[row['set']]} | {row['labels']} | {row['seeds']} | {row['frozen']:.3f} "
            f"| {row['gated']:.3f} | {row['tuned']:.3f} | {', '.join(gains)} | {row['trusted']} "
            f"| {row['cpu_seconds']:.0f} |"
        )
    at_128 = [row["gain"] for row in rows if row["labels"] == SHOWN]
    every = [100 * (cell["gated"] - cell["frozen"]) for cell in cells]
    lines += [
        "",
        f"Mean gain at {SHOWN} labels over {len(at_128)} sets: {np.mean(at_128):+.1f} points. Worst of "
        f"{len(every)} runs: {min(every):+.1f} points. Runs that lost more than a point: "
        f"{sum(gain < -1 for gain in every)}.",
    ]
    return "\n".join(lines)


def fill(page: Path, text: str) -> None:
    """Replace the part of a page between two marks."""
    begin, end = "[//]: # (begin: made by benchmarks.network)\n\n", "\n\n[//]: # (end)"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + text + end + rest.split(end, 1)[1])


def main() -> None:
    """Measure the cells that are missing, print the table, write JSON and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--encoder", default=DEFAULT)
    parser.add_argument("--cells", nargs="*", help="set:labels; all sets at 64, 128, 256, 512 by default")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(5)), help="draws of the labels")
    parser.add_argument("--pool", type=int, default=3000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--cache", type=Path, default=Path("build/network.jsonl"))
    parser.add_argument("--serving", action="store_true", help="label to next beside an attempt, on TREC-6")
    parser.add_argument("--attempt", action="store_true", help="cost of an attempt's process, on TREC-6")
    parser.add_argument("--out", type=Path, default=PAGE.with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder = located(options.encoder, "--encoder FOLDER", False).name
    if options.attempt:
        texts = read(options.data, "trec6")[0][: options.pool]
        print(json.dumps(attempt(texts, SHOWN, encoder), indent=1))
        return
    if options.serving:
        with tempfile.TemporaryDirectory() as folder:
            texts = read(options.data, "trec6")[0][: options.pool]
            serving = Serving(Path(folder) / "texts.csv.everylabel", texts, encoder)
            print(json.dumps(serving.measure(), indent=1))
        return
    wanted = options.cells or [f"{name}:{n}" for n in LABELS for name in SETS]
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    cells = (
        [json.loads(line) for line in options.cache.read_text().splitlines()]
        if options.cache.exists()
        else []
    )
    done = {(cell["set"], cell["labels"], cell["seed"], cell["pool"]) for cell in cells}
    for seed in options.seeds:
        for name, n in ((part.split(":")[0], int(part.split(":")[1])) for part in wanted):
            if (name, n, seed, options.pool) in done:
                continue
            cell = measure(options.data, encoder, name, n, seed, options.pool, options.test)
            print(json.dumps(cell), flush=True)
            with options.cache.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            cells.append(cell)
    rows = summary(cells)
    shown = [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    report("frozen against fine-tuned", list(rows[0]), shown)
    write(options.out, {"summary": rows, "cells": cells})
    draw(rows, options.out.with_suffix(".png"))
    fill(PAGE, f"{sentence(records(options.out))}\n\n{table(rows, cells)}")


if __name__ == "__main__":
    main()
