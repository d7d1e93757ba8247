"""Whether today's code gives the stored figures of the reproduction: `make bench NAME=reproduction`.

Measuring all of docs/results/reproduction takes hours. This runs its first repetitions again, with the same
seeds, and compares each accuracy with the stored one. Methods that draw random numbers (Monte Carlo, Badge)
may differ by chance where the code draws in another order.
"""

import argparse
import csv
import gzip
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.results import FOLDER, write
from everylabel.experiments.data import available, load
from everylabel.experiments.engine import cells_of, run_cells
from everylabel.experiments.reporting.summary import EXPERIMENTS
from everylabel.experiments.results import Results, Row

STORED = FOLDER / "reproduction" / "measurements.csv.gz"
TIMED = ("speed-up",)  # seconds, which no two runs share
SAME = 0.001  # a tenth of a point

Key = tuple[str, str, int, str, str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduction", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--reps", type=int, default=1)
    parser.add_argument("--training", nargs="*", default=["fast"], choices=["fast", "recipe"])
    parser.add_argument(
        "--experiments", nargs="*", default=[name for name in EXPERIMENTS if name not in TIMED]
    )
    parser.add_argument("--datasets", nargs="*", help="default: all with features")
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args()
    folder = str(given.data)
    experiments = [EXPERIMENTS[name] for name in given.experiments]
    data = [load(name, folder) for name in given.datasets or available(folder)]
    before = dict(_accuracies(_stored()))
    cells = [
        cell for training in given.training for cell in cells_of(experiments, data, given.reps, training)
    ]
    known = {key[:4] for key in before}
    cells = [cell for cell in cells if cell[:4] in known]
    with tempfile.TemporaryDirectory() as place, closing(Results(Path(place) / "now.sqlite")) as results:
        running = run_cells(cells, experiments, partial(load, folder=folder), results, 1)
        for _ in track(running, "running", total=len(cells)):
            pass
        now = dict(_accuracies(results.rows()))
    write(given.out / "reproduction_check.json", {"compared": compared(before, now)}, indent=1)


def _stored() -> Iterator[Row]:
    with gzip.open(STORED, "rt", newline="") as file:
        for row in csv.DictReader(file):
            x, value, repetition = float(row["x"]), float(row["value"]), int(row["repetition"])
            yield Row(
                row["experiment"],
                row["dataset"],
                repetition,
                row["training"],
                row["variant"],
                x,
                row["metric"],
                value,
            )


def _accuracies(rows: Any) -> Iterator[tuple[Key, float]]:
    for row in rows:
        if row.metric == "accuracy":
            yield (row.experiment, row.dataset, row.repetition, row.training, row.variant, row.x), row.value


def compared(before: dict[Key, float], now: dict[Key, float]) -> list[dict[str, Any]]:
    """Return the differences of today's accuracies to the stored ones, in points.

    Steps of the same update count as one variant.
    """
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for key in sorted(now.keys() & before.keys()):
        experiment, _, _, training, variant, _ = key
        groups[training, experiment, re.sub(r", [\d.]+$", "", variant)].append(now[key] - before[key])
    return [
        {
            "training": training,
            "experiment": experiment,
            "variant": variant,
            "values": len(some),
            "same": sum(abs(each) < SAME for each in some),
            "mean difference": round(100 * float(np.mean(some)), 2),
            "largest difference": round(100 * float(np.abs(some).max()), 2),
        }
        for (training, experiment, variant), some in groups.items()
    ]


if __name__ == "__main__":
    main()
