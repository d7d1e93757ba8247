"""Run the missing cells, then write the report: `python -m benchmarks.labels`.

The report keeps the stored figures of arms that the cache does not have, with their own record: to measure
one arm again, run `python -m benchmarks.labels --arms page` with an empty cache.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.labels import fine_tuning, report, trust
from benchmarks.labels.arms import NO_NAMES, all_arms
from benchmarks.labels.cells import Cells, Rows, stored
from benchmarks.labels.curve import Point
from benchmarks.labels.figures import Curves
from benchmarks.labels.plots import plot
from benchmarks.labels.sets import SETS, has_words, load
from benchmarks.results import WHOLE, Record, cache_record, records

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
    parser.add_argument("--encoder", help="that made the feature files, if not MiniLM: see encoder.py")
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
        _report(curves, trusted, tuned, made, given.out, given.encoder)


def _report(curves: Cells, trusted: Rows, tuned: Rows, made: Record, out: Path, encoder: str | None) -> None:
    stem = f"labels-{encoder}" if encoder else "labels"
    path, made_by = out / f"{stem}.json", dict[str, Record]()
    before = json.loads(path.read_text()) if path.exists() else {"curves": [], "trust": [], "fine_tuning": []}
    records_before = records(path)

    def joined(new: Iterable[Any], old: Iterable[Any], part: Callable[[Any], str]) -> list[Any]:
        rows = list(new)
        made_by.update({part(row): made for row in rows})
        kept = [row for row in old if made_by.get(part(row)) is not made]
        made_by.update({part(row): records_before.get(part(row)) or records_before[WHOLE] for row in kept})
        return rows + kept

    cells = joined(curves.all(), stored(before), lambda cell: cell.arm)
    names = joined(trusted.rows.values(), before["trust"], lambda row: "class names")
    same = joined(tuned.rows.values(), before["fine_tuning"], lambda row: f"{row['arm']} (SetFit's labels)")
    found = Curves(sorted(cells))
    minilm = Curves(stored(json.loads((out / "labels.json").read_text()))) if encoder else None
    report.write(found, names, same, out / stem, made_by, encoder, minilm)
    plot(found, out / f"{stem}.png")


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
