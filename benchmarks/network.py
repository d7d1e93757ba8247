"""Gain and cost of fine-tuning the encoder, compared with frozen features: `make bench NAME=network`.

    python -m benchmarks.network --data FOLDER [--cells trec6:64 banking77:308] [--seeds 0 1]

Random labels out of a pool; accuracy on other texts of the head on frozen features, on tuned ones beside
them, and of the gate between the two. Each finished cell is stored, so that a stopped run resumes.

    python -m benchmarks.network --data FOLDER --part page [--cells trec6 goemotions] [--seeds 0 1] --pool 500

labels on the page's own desk, and compares the accuracy that the page shows after each label with the true
one, with and without fine-tuning. The other parts are SetFit on the labels of the cells, and on TREC-6 the
cost of an attempt's process, and the milliseconds of a label beside it.
"""

import argparse
import contextlib
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.kills import Killed
from benchmarks.results import records, sentence, write
from benchmarks.timing import report
from everylabel.core.errors import need
from everylabel.labelling import progress
from everylabel.models.class_names import phrase
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.embedding.hub import located
from everylabel.models.embedding.texts import DEFAULT
from everylabel.models.finetuning import Finetuned, finetune
from everylabel.models.finetuning.encoder import States
from everylabel.models.finetuning.job import Job, write_job
from everylabel.models.finetuning.job import run as run_job
from everylabel.models.finetuning.tuning import FOLDS
from everylabel.projects.folder import LogUse
from everylabel.projects.network import JOB_MODULE
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web.server import opened_project

PAGE = Path("docs/results/network.md")
LABELS = (64, 128, 256, 512)
PARTS = ("cells", "setfit", "page", "attempt", "serving")
SHOWN = 128  # labels of the figure
FEW = 10  # classes of a set on the page, drawn at random: with 77 classes, an attempt needs 300 labels
PACE = 0.3  # seconds between two labels on the page
DURING = 10  # labels that are given while an attempt runs: one takes 30 seconds, a person 3 seconds a label
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
ON_PAGE = ("trec6", "tweetoffensive", "goemotions", "banking77")
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


def draw_texts(data: Path, name: str, seed: int, pool: int, test: int) -> tuple[Rows, Rows, list[str]]:
    """Return a pool, whose first texts are labelled, texts for tests, and the classes."""
    train, other = read(data, name)
    rng = np.random.default_rng(seed)
    chosen = [train[i] for i in rng.permutation(len(train))[:pool]]
    held = [other[i] for i in rng.permutation(len(other))[:test]]
    return chosen, held, sorted({label for _, label in train})


def measure_setfit(
    data: Path, encoder: str, name: str, n: int, seed: int, pool: int, test: int
) -> dict[str, Any]:
    """Return accuracy and seconds of SetFit on the labels of a cell, with its authors' settings."""
    need("setfit", "bench", "the comparison with SetFit")
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    chosen, held, classes = draw_texts(data, name, seed, pool, test)
    texts, labels = zip(*chosen[:n], strict=True)
    began, busy = time.perf_counter(), time.process_time()
    model = SetFitModel.from_pretrained(encoder)
    given = Dataset.from_dict({"text": texts, "label": [classes.index(label) for label in labels]})
    with tempfile.TemporaryDirectory() as place:
        how = TrainingArguments(
            output_dir=place,
            batch_size=16,
            num_epochs=1,
            num_iterations=20,
            seed=seed,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        Trainer(model=model, args=how, train_dataset=given).train()
    guess = np.asarray(model.predict([text for text, _ in held]))
    cell: dict[str, Any] = {"set": name, "labels": n, "seed": seed, "pool": len(chosen), "test": len(held)}
    cell |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}
    return cell | {"setfit": float(np.mean(guess == [classes.index(label) for _, label in held]))}


def measure(data: Path, encoder: str, name: str, n: int, seed: int, pool: int, test: int) -> dict[str, Any]:
    """Return one cell: accuracies, results of cross-validation, seconds."""
    chosen, held, classes = draw_texts(data, name, seed, pool, test)
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
        "frozen": (found.frozen, found.before[found.n_items :], states.features),
        "tuned": (found.tuned, found.after[found.n_items :], after),
    }
    every["beside"] = tuple(np.concatenate(pair, axis=1) for pair in zip(*every.values(), strict=True))  # type: ignore[assignment]
    scores = {}
    for how, (items, phrases, others) in every.items():
        names = {name: phrases[found.phrase_classes == c] for c, name in enumerate(found.classes)}
        head = LaplaceClassifier().fit(
            items[found.labelled],
            np.asarray(found.classes)[found.labels],
            unlabelled=items,
            names=names,
            classes=found.classes,
        )
        scores[how] = float(np.mean(head.predict(others) == truth))
    return scores


def write_texts(path: Path, rows: Rows) -> None:
    """Write a source of the page."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([i, text] for i, (text, _) in enumerate(rows))


def few_classes(data: Path, name: str, seed: int, pool: int) -> Rows:
    """Return the texts of a pool, of FEW classes at most."""
    rows, rng = read(data, name)[0], np.random.default_rng(seed)
    kept = set(rng.permutation(sorted({label for _, label in rows}))[:FEW])
    some = [row for row in rows if row[1] in kept]
    return [some[i] for i in rng.permutation(len(some))[:pool]]


def label_on_page(rows: Rows, n: int, encoder: str, setting: str) -> dict[str, Any]:
    """Give n labels on the page's desk; return the page's accuracy and the true one after each label."""
    names = sorted({label for _, label in rows})
    truth = np.array([names.index(label) for _, label in rows])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.csv"
        write_texts(source, rows)
        columns: dict[str, Any] = {"text_column": "text", "id_column": "id", "classes": names}
        project = open_project(source, model=encoder, log=LogUse(), **columns)
        with opened_project(project, LabelOptions(network=setting), print, None) as (service, *_):
            desk, network = service.desk, service.views.network
            assert network is not None

            def attempt(part: Path) -> None:
                network.share = 0.0
                with contextlib.redirect_stdout(None):
                    run_job(part)

            network.trainer._run = attempt  # in this process: another one would load its libraries each time

            def look() -> dict[str, Any]:
                state = desk.state
                left = np.setdiff1d(np.arange(len(desk.ids)), list(state.labels))
                guess = np.array(desk.learner.columns)[desk.learner.probabilities_of(left).argmax(axis=1)]
                known = progress.accuracy(state)
                right = float(np.mean(guess == truth[[int(desk.ids[i]) for i in left]]))
                figures = {key: known[key] for key in ("estimate", "low", "high", "checks")}
                return {"labels": len(state.labels), "truth": right, **figures}

            while len(desk.ids) < len(rows):  # the texts are still being embedded
                time.sleep(PACE)
            reply, during = service.next("me").result(), 0
            looks: list[dict[str, Any]] = []
            while len(looks) < n:
                item = reply["next"]["item"]["id"]
                reply = service.label("me", item, int(truth[int(item)])).result()
                looks.append(desk.read(look).result())
                time.sleep(PACE)
                during = 0 if network.share is None else during + 1
                while during >= DURING and network.share is not None:
                    time.sleep(PACE)
            tried = [{"labels": each.labels, "trusted": each.trusted} for each in desk.state.generations]
            return {"looks": looks, "attempts": tried, "error": network.error}


class Serving(Killed):
    """A server of texts: the time of a label with and without a fine-tuning attempt beside it."""

    name = "texts.csv"

    def __init__(self, folder: Path, rows: Rows, encoder: str) -> None:
        super().__init__(folder, None)
        self.source, self.encoder, self.rows = folder.parent / self.name, encoder, rows
        self.names = sorted({label for _, label in rows})
        write_texts(self.source, rows)

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


def run_on_page(options: argparse.Namespace, encoder: str, runs: list[dict[str, Any]]) -> None:
    """Make the runs on the page that are missing, with fine-tuning and without."""
    done = {(run["set"], run["seed"], run["network"]) for run in runs}
    for seed in options.seeds:
        for name in options.cells or ON_PAGE:
            rows = few_classes(options.data, name, seed, options.pool)
            for setting in ("auto", "frozen"):
                if (name, seed, setting) not in done:
                    found = label_on_page(rows, options.labels, encoder, setting)
                    runs.append({"set": name, "seed": seed, "network": setting, "pool": len(rows), **found})
                    print(name, seed, setting, found["attempts"], found["error"], flush=True)
                    keep(cache_of(options), runs)


def page_summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each run how often the page's range held the truth, and how far its estimate was."""
    rows = []
    for run in runs:
        if "looks" not in run:  # summarised already
            rows.append(run)
            continue
        looks = [look for look in run["looks"] if look["estimate"] is not None]
        off = np.array([look["estimate"] - look["truth"] for look in looks])
        began = min([each["labels"] for each in run["attempts"] if each["trusted"]], default=None)
        tuned = [began is not None and look["labels"] > began + DURING for look in looks]
        rows.append(
            {key: run[key] for key in ("set", "seed", "network", "pool", "attempts")}
            | {
                "labels": len(run["looks"]),
                "tuned_at": began,
                "truth": run["looks"][-1]["truth"],
                "bias": float(off.mean()),
                "bias_tuned": float(off[tuned].mean()) if any(tuned) else None,
                "error": float(np.sqrt(np.mean(off**2))),
                "width": float(np.mean([look["high"] - look["low"] for look in looks])),
                "covered": float(np.mean([look["low"] <= look["truth"] <= look["high"] for look in looks])),
            }
        )
    return rows


def page_table(rows: list[dict[str, Any]]) -> str:
    """Return the mean figures of the runs of each set and setting, and of all runs."""
    lines = [
        "| set | encoder | runs | tuned in | accuracy at the end | bias | once tuned | error | width "
        "| covered | always covered |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    names = [*dict.fromkeys(row["set"] for row in rows), "all"]
    for setting, name in ((setting, name) for setting in ("auto", "frozen") for name in names):
        some = [row for row in rows if row["network"] == setting and name in ("all", row["set"])]
        if not some:
            continue
        mean = {key: 100 * np.mean([row[key] for row in some]) for key in ("bias", "width", "covered")}
        tuned = [row["bias_tuned"] for row in some if row["bias_tuned"] is not None]
        error = 100 * np.sqrt(np.mean([row["error"] ** 2 for row in some]))
        lines.append(
            f"| {TITLES.get(name, name)} | {'fine-tuned' if setting == 'auto' else 'original'} | {len(some)} "
            f"| {sum(row['tuned_at'] is not None for row in some)} "
            f"| {np.mean([row['truth'] for row in some]):.3f} | {mean['bias']:+.1f} "
            f"| {f'{100 * np.mean(tuned):+.1f}' if tuned else ''} | {error:.1f} | {mean['width']:.0f} "
            f"| {mean['covered']:.0f}% | {sum(row['covered'] == 1 for row in some)} |"
        )
    return "\n".join(lines)


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
        "| set | labels | runs | original | page | tuned | gain of each run, points | used | seconds |",
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


def setfit_table(cells: list[dict[str, Any]], setfit: list[dict[str, Any]]) -> str:
    """Return accuracy and seconds of SetFit beside those of fine-tuning on the same labels."""
    lines = [
        "| set | labels | run | everylabel | SetFit | seconds, everylabel | seconds, SetFit |",
        "|---|---|---|---|---|---|---|",
    ]
    ours = {(cell["set"], cell["labels"], cell["seed"], cell["pool"]): cell for cell in cells}
    for cell in sorted(setfit, key=lambda cell: (SETS.index(cell["set"]), cell["labels"], cell["seed"])):
        own = ours.get((cell["set"], cell["labels"], cell["seed"], cell["pool"]))
        if own is None:
            continue
        lines.append(
            f"| {TITLES[cell['set']]} | {cell['labels']} | {cell['seed']} | {own['gated']:.3f} "
            f"| {cell['setfit']:.3f} | {own['cpu_seconds']:.0f} | {cell['cpu_seconds']:.0f} |"
        )
    return "\n".join(lines)


def fill(page: Path, part: str, text: str) -> None:
    """Replace the part of a page between two marks."""
    begin, end = f"[//]: # (begin: {part} of benchmarks.network)\n\n", "\n\n[//]: # (end)"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + text + end + rest.split(end, 1)[1])


def stored(options: argparse.Namespace, part: str) -> list[dict[str, Any]]:
    """Return the cells or runs of the cache; those of the page if there is no cache yet."""
    path = options.cache / f"{part}.jsonl"
    if path.exists():
        return [json.loads(line) for line in path.read_text().splitlines()]
    known = json.loads(options.out.read_text()) if options.out.exists() else {}
    return known.get(part, [])


def cache_of(options: argparse.Namespace) -> Path:
    """Return the file of finished cells or runs of a part, one a line."""
    return options.cache / f"{options.part}.jsonl"


def keep(path: Path, cells: list[dict[str, Any]]) -> None:
    """Write the cells or runs of a cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(cell) + "\n" for cell in cells))


def measure_missing(
    run: Callable[..., dict[str, Any]],
    wanted: list[str],
    options: argparse.Namespace,
    encoder: str,
    cells: list[dict[str, Any]],
) -> None:
    """Measure the cells (set:labels) that are missing, and store each."""
    done = {(cell["set"], cell["labels"], cell["seed"], cell["pool"]) for cell in cells}
    for seed in options.seeds:
        for name, n in ((each.split(":")[0], int(each.split(":")[1])) for each in wanted):
            if (name, n, seed, options.pool) not in done:
                cells.append(run(options.data, encoder, name, n, seed, options.pool, options.test))
                print(json.dumps(cells[-1]), flush=True)
                keep(cache_of(options), cells)


def main() -> None:
    """Measure what is missing of one part; write JSON, figure and tables of all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default=PARTS[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--encoder", default=DEFAULT)
    parser.add_argument("--cells", nargs="*", help="set:labels; all sets at 64, 128, 256, 512 by default")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(5)), help="draws of the labels")
    parser.add_argument("--pool", type=int, default=3000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--labels", type=int, default=150, help="labels of a run on the page")
    parser.add_argument("--cache", type=Path, default=Path("build/network"), help="folder of finished cells")
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    parser.add_argument("--out", type=Path, default=PAGE.with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = {part: stored(options, part) for part in PARTS}
    if not options.tables_only:
        measure_part(options, known[options.part])
    rows = summary(known["cells"])
    shown = [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    report("frozen against fine-tuned", list(rows[0]), shown)
    known["page"] = page_summary(known["page"])
    write(options.out, known, parts=[] if options.tables_only else [options.part])
    draw(rows, options.out.with_suffix(".png"))
    fill(PAGE, "cells", table(rows, known["cells"]))
    fill(PAGE, "setfit", setfit_table(known["cells"], known["setfit"]))
    fill(PAGE, "page", page_table(known["page"]))
    fill(PAGE, "versions", sentence(records(options.out)))


def measure_part(options: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """Measure what is missing of a part, add it to what was found before, and store each result."""
    encoder, part = located(options.encoder, "--encoder FOLDER", False).name, options.part
    if part in ("cells", "setfit"):
        run = measure if part == "cells" else measure_setfit
        wanted = options.cells or [f"{name}:{n}" for n in LABELS for name in SETS]
        measure_missing(run, wanted, options, encoder, found)
    elif part == "page":
        run_on_page(options, encoder, found)
    else:
        texts = read(options.data, "trec6")[0][: options.pool]
        found[:] = [attempt(texts, SHOWN, encoder) if part == "attempt" else serve(texts, encoder)]
        print(json.dumps(found[0], indent=1))


def serve(texts: Rows, encoder: str) -> dict[str, Any]:
    """Return the milliseconds from a label to the next item, with and without an attempt beside it."""
    with tempfile.TemporaryDirectory() as folder:
        return Serving(Path(folder) / "texts.csv.everylabel", texts, encoder).measure()


if __name__ == "__main__":
    main()
