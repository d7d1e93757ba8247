"""Fair ratios on a noisy machine: jobs take turns, and the best times of each count."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table


def seconds(
    jobs: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the lower quartile of each job's times; the jobs take turns."""
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
    """Return the additional memory of a job at its peak."""
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def report(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    table = Table(title=title)
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
