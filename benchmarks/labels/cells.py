"""Measurements in a folder of JSON lines; a row is identified by some of its fields and measured once."""

import json
import re
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.labels.curve import BUDGETS, Point

Row = dict[str, Any]


class Rows:
    """The rows of one file; delete the file to measure them again."""

    def __init__(self, path: Path, fields: tuple[str, ...]) -> None:
        self.path, self.fields = path, fields
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows = {tuple(row[field] for field in fields): row for row in map(json.loads, lines)}

    def make(self, keys: Iterable[tuple[Any, ...]], row: Callable[..., Row]) -> None:
        """Measure the missing rows in this order; each is stored at once."""
        for key in keys:
            if key not in self.rows:
                made = dict(zip(self.fields, key, strict=True)) | row(*key)
                self.rows[key] = made
                with self.path.open("a") as file:
                    file.write(json.dumps(made) + "\n")


class Cell(NamedTuple):
    """One learning curve: its identity, points and cost."""

    set: str
    seed: int
    arm: str
    points: list[Point]
    seconds: float  # of processor time, measuring included


class Cells:
    """The curves in a folder, one file per arm, so that several processes can run different arms."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._files = folder, dict[str, Rows]()

    def all(self) -> list[Cell]:
        """Return all cells, by seed, set and arm."""
        files = [Rows(path, Cell._fields[:3]) for path in self.folder.glob("*.jsonl")]
        return sorted(Cell(**row) for file in files for row in file.rows.values())

    def run(
        self, wanted: Iterable[tuple[str, int, str]], curve: Callable[[str, int, str], list[Point]]
    ) -> None:
        """Run the missing cells in this order; print the cost of each."""

        def row(name: str, seed: int, arm: str) -> Row:
            began = _spent()
            points = curve(name, seed, arm)
            seconds = round(_spent() - began, 2)
            shown = " ".join(f"{(p['test'] + p['left']) / 2:.3f}" for p in points if p["n"] in BUDGETS)
            print(time.strftime("%H:%M:%S"), name, seed, arm, f"{seconds:.1f} s", shown, flush=True)
            return {"points": points, "seconds": seconds}

        for key in wanted:
            name = re.sub("[^a-z0-9]+", "-", key[2].lower()) + ".jsonl"
            file = self._files.setdefault(name, Rows(self.folder / name, Cell._fields[:3]))
            file.make([key], row)


def stored(found: dict[str, Any]) -> list[Cell]:
    """Return the curves of a written result (labels.json); those of version 0.1 have points at BUDGETS."""
    cells = []
    for row in found["curves"]:
        shown = [what for what in ("test", "left", "positives", "f1") if what in row]
        for at, seed in enumerate(row["seeds"]):
            points = [
                {"n": int(n), "names": row.get("names", False)} | {what: row[what][n][at] for what in shown}
                for n in row["test"]
            ]
            cells.append(Cell(row["set"], seed, row["arm"], points, row["seconds"]))
    return cells


def _spent() -> float:
    """Return processor seconds of this process and of its children that have ended."""
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + child.ru_utime + child.ru_stime
