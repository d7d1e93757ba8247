"""Fair ratios on a noisy machine: the things compared take turns, and each keeps its best times."""

import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import made_by


def seconds(
    jobs: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the lower quartile of each job's time over rounds in which every job has its turn."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()  # warm up
    for _ in range(rounds):
        for name, job in jobs.items():
            began = clock()
            job()
            times[name].append(clock() - began)
    return {name: float(np.quantile(values, 0.25)) for name, values in times.items()}


def peak_bytes(job: Callable[[], Any]) -> int:
    """Return how much memory a job holds at its peak, beyond what was there before."""
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def machine() -> dict[str, Any]:
    """Return what a reader needs to know of the run."""
    return {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def report(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    table = Table(title=title)
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def write(
    path: Path,
    results: dict[str, Any],
    *,
    measures: Sequence[str],
    parts: Sequence[str] | None = None,
    cached: Mapping[str, made_by.Record] | None = None,
) -> None:
    """Write results as JSON, with the machine and the code they come from.

    `measures` are folders or files below src/everylabel, as "core" or "selection/pool": by them the index of
    results shows whether the code has changed since. `parts` are those that this run has measured, where the
    others are kept from an earlier run. `cached` are records of parts from a cache (`made_by.kept`).
    """
    made = made_by.record(measures)
    before = {} if parts is None else made_by.records(path)
    records = {**before, **dict.fromkeys([made_by.WHOLE] if parts is None else parts, made), **(cached or {})}
    figures = {name: value for name, value in results.items() if name not in ("made_by", "machine")}
    tables = {name for name, value in figures.items() if isinstance(value, list | dict)}
    if parts is not None and tables and tables <= set(records):
        records.pop(made_by.WHOLE, None)  # every part has been measured by itself since
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"made_by": records, "machine": machine(), **figures}, indent=2) + "\n")
    Console().print(f"results written to {path}; `make results-index` lists it")
