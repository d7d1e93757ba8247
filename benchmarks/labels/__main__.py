"""Run the missing cells, then write the report: `python -m benchmarks.labels`."""

import argparse
from functools import partial
from pathlib import Path

from benchmarks.labels import fine_tuning, report, trust
from benchmarks.labels.arms import NO_NAMES, all_arms
from benchmarks.labels.cells import Cells, Rows
from benchmarks.labels.curve import Point
from benchmarks.labels.figures import Curves
from benchmarks.labels.plots import plot
from benchmarks.labels.sets import SETS, has_words, load
from benchmarks.results import cache_record

STEPS = ("curves", "trust", "setfit", "report")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labels", description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="all of them, unless given")
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder of the feature files"
    )
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/everylabel/bench-labels")
    parser.add_argument("--before", type=Path, help="a checkout of version 0.1, see version_before.py")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--arms", nargs="*", help="all that can be run here, unless given")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--tuned", type=int, default=1, help="repetitions of the comparison with SetFit")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the report")
    given = parser.parse_args()
    steps = given.steps or STEPS
    made = cache_record(given.cache)
    curves = Cells(given.cache / "curves")
    trusted = Rows(given.cache / "trust.jsonl", trust.FIELDS)
    tuned = Rows(given.cache / "fine_tuning.jsonl", fine_tuning.FIELDS)
    if "curves" in steps:
        _curves(curves, given)
    if "trust" in steps:
        keys = [(n, s, kind) for s in range(*given.seeds) for n in trust.SETS for kind in trust.KINDS]
        trusted.make(keys, partial(trust.trust, folder=given.data))
    if "setfit" in steps:
        tuned.make(fine_tuning.keys(given.tuned), partial(fine_tuning.compare, folder=given.data))
    if "report" in steps:
        found = Curves(curves.all())
        report.write(found, list(trusted.rows.values()), list(tuned.rows.values()), given.out, made)
        plot(found, given.out / "labels.png")


def _curves(cells: Cells, given: argparse.Namespace) -> None:
    known = all_arms(given.before)
    arms = list(known) if given.arms is None else given.arms

    def curve(name: str, seed: int, arm: str) -> list[Point]:
        return list(known[arm](load(name, given.data, seed), seed))

    wanted = [
        (name, seed, arm)
        for seed in range(*given.seeds)
        for name in given.sets
        for arm in arms
        if arm != NO_NAMES or has_words(name)  # without words, the page is the page without names
    ]
    cells.run(wanted, curve)


if __name__ == "__main__":
    main()
