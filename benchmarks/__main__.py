"""Run one benchmark, or all: `make bench NAME=core`, `make results`.

    python -m benchmarks [NAME] [--data FOLDER] [--before CHECKOUT] [--since DAY]

Without a name, each benchmark runs in a process of its own, the next after a failure. Results made since a
day (today) are not measured again, so that a stopped run resumes.
"""

import argparse
import runpy
import subprocess
import sys
from datetime import date
from pathlib import Path

from benchmarks.results import FOLDER, records

DATA, OUT, BEFORE = ["--data", "{data}"], ["--out", "docs/results"], ["--before", "{before}"]
NAMES: dict[str, tuple[str, list[list[str]]]] = {  # what it measures, and the command lines of its module
    "core": ("speed and memory of the core, as ratios in one run", [["core"]]),
    "updates": ("quality and speed of the exact update", [["updates"]]),
    "training": ("fit_map against scikit-learn's LogisticRegression", [["training"]]),
    "imports": ("import everylabel, everylabel --help", [["imports"]]),
    "models": ("features by a hook, embedding, stored features, ensembles", [["models"]]),
    "embedding": ("rows a second, time to the first item", [["embedding", *DATA, *OUT]]),
    "selection": ("speed of selection against other libraries", [["selection"]]),
    "quality": ("paired active-learning curves", [["quality", *DATA]]),
    "accuracy": ("whether the accuracy on the page can be trusted", [["accuracy", *DATA]]),
    "sources": ("labels of sources that are not fully trusted", [["sources", *DATA]]),
    "multi_label": (
        "several classes per item, against one-vs-rest logistic regression",
        [["multi_label", *DATA]],
    ),
    "network": ("accuracy with and without fine-tuning the encoder", [["network", *DATA]]),
    "labels": ("accuracy for each label, against other tools", [["labels", *DATA, *BEFORE]]),
    "chaos": ("kills, full disks, cut connections", [["chaos", "--minutes", "5", *OUT]]),
    "crowd": ("many people who disagree, over HTTP", [["crowd", *OUT]]),
    "growth": ("the cost of an answer after 100,000 answers", [["growth", *OUT]]),
    "serving": (
        "the server with 100,000 and a million items, and under kill -9",
        [["serving", *OUT], ["serving_large", *OUT], ["kills", "--kills", "200", *OUT]],
    ),
    "auto_label": ("items certified by 80 confirmations, and broken promises", [["auto_label", *DATA]]),
    "scale": ("a pool of 1, 2 and 4 million items in shards on Ray", [["scale", *OUT]]),
    "reproduction": ("whether the stored reproduction of the paper still holds", [["reproduction", *DATA]]),
    "label_studio": ("webhooks of Label Studio beside 100,000 tasks", [["label_studio", *OUT]]),
}


RESULTS = {  # files below docs/results, where they are named otherwise than the benchmark
    "quality": ["selection_quality"],
    "serving": ["serving", "serving_large", "kills"],
    "reproduction": ["reproduction_check"],
    "label_studio": ["label-studio-webhooks"],
}


def is_made(name: str, since: str, folder: Path = FOLDER) -> bool:
    """Return whether all results of a benchmark were measured on a day or later."""
    made = [records(folder / f"{file}.json") for file in RESULTS.get(name, [name])]
    return all(part and min(one["date"] for one in part.values()) >= since for part in made)


def main() -> None:
    """Run the benchmark that the command line names, or all without a result since a day."""
    listed = "\n".join(f"  {name:<14}{what}" for name, (what, _) in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        epilog=f"benchmarks:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=NAMES, metavar="NAME")
    parser.add_argument("--data", default="../shared/data", help="folder of the feature files")
    parser.add_argument("--before", default=".venv/version-0.1", help="checkout of version 0.1")
    parser.add_argument("--since", default=date.today().isoformat(), help="keep results since %(default)s")
    given = parser.parse_args()
    if given.name is None:
        sys.exit(run_all(given.since, ["--data", given.data, "--before", given.before]))
    for module, *arguments in NAMES[given.name][1]:
        sys.argv = [module, *(part.format(data=given.data, before=given.before) for part in arguments)]
        runpy.run_module(f"benchmarks.{module}", run_name="__main__")


def run_all(since: str, options: list[str]) -> int:
    """Run all benchmarks without a result since a day; return how many failed."""
    left = [name for name in NAMES if not is_made(name, since)]
    print(f"{len(left)} of {len(NAMES)} have no result since {since}: {', '.join(left)}", flush=True)
    failed = [name for name in left if subprocess.call([sys.executable, "-m", "benchmarks", name, *options])]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    main()
