"""A grid of independent cells: run by joblib, each seeded by its own coordinates, stored as it ends.

The results do not depend on the order of cells or the number of processes. Any joblib backend works:
`with joblib.parallel_config(backend="dask"): run_cells(...)`; `--ray` uses Ray's. Machine, versions and code
are recorded with the results.
"""

import hashlib
import os
import platform
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

import everylabel
from everylabel.experiments.data import Data
from everylabel.experiments.results import Measurement, Results, Row

AT_ONCE = 4  # cells per process and round, for backends that return whole lists
MEASURING = ("core", "selection", "models", "experiments")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


class Cell(NamedTuple):
    """One unit of work: part of one repetition of an experiment on a dataset."""

    experiment: str  # the name of its grid
    dataset: str
    repetition: int
    training: str  # "recipe" (the paper's) or "fast" (fit_map)
    part: str = ""  # for example the strategy

    @property
    def name(self) -> str:
        return "/".join(map(str, self))

    def rng(self, *more: object) -> np.random.Generator:
        """Return a generator that depends on this cell's coordinates alone."""
        return seeded(*self, *more)

    def shared_rng(self) -> np.random.Generator:
        """Return a generator shared by all parts and trainings of a repetition, for paired draws."""
        return seeded(self.dataset, self.repetition)


class Experiment:
    """An experiment: its cells and how to run one."""

    name: str
    grid: str  # the name of its cells; experiments that show the same curves share them
    figure: str
    title: str
    strategies: tuple[str, ...] = ()  # variants of its grid to show; all if empty
    small_only: tuple[str, ...] = ()  # strategies that are skipped for large batches
    on_items = False  # trains a network on items instead of using features
    xlabel = "labels"  # what its curves are drawn over
    relative_to = ""  # the variant that its other curves are compared with
    note = ""  # how it was run, for the report

    def parts(self, data: Data) -> Sequence[str]:
        """Return the parts of a repetition."""
        return [""]

    @abstractmethod
    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        """Return the measurements of one cell."""


def seeded(*coordinates: object) -> np.random.Generator:
    """Return a generator seeded by a hash that is the same on every machine."""
    digest = hashlib.sha256(repr(coordinates).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def cells_of(
    experiments: Sequence[Experiment], datasets: Sequence[Data], repetitions: int, training: str
) -> list[Cell]:
    """Return all cells, each once, one repetition of everything after the other."""
    cells = (
        Cell(experiment.grid, data.name, repetition, training, part)
        for repetition in range(repetitions)
        for experiment in experiments
        for data in datasets
        if experiment.on_items == (data.setting.kind == "items")
        for part in experiment.parts(data)
    )
    return list(dict.fromkeys(cells))


def run_cells(
    cells: Sequence[Cell],
    experiments: Iterable[Experiment],
    load: Callable[[str], Data],
    results: Results,
    jobs: int,
) -> Iterator[Cell]:
    """Run the cells that are not finished yet, store each as it ends, and yield it.

    `load` returns a dataset by name, in any process. Data other than those of stored cells are refused.
    """
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        results.same_data(dataset, load(dataset).digest)
    done = results.finished()
    todo = [cell for cell in cells if cell.name not in done]
    by_grid = {experiment.grid: experiment for experiment in experiments}
    tasks = (delayed(_run)(cell, by_grid[cell.experiment], load) for cell in todo)
    return _stored(tasks, results, jobs)


def _stored(tasks: Iterable[Any], results: Results, jobs: int) -> Iterator[Cell]:
    for cell, seconds, measurements in _ended(tasks, jobs):
        rows = [Row(*cell[:4], *measurement) for measurement in measurements]
        results.add(cell.name, seconds, rows, code())
        yield cell


def _ended(tasks: Iterable[Any], jobs: int) -> Iterator[tuple[Cell, float, list[Measurement]]]:
    """Yield the results of tasks as they end; for a backend that returns lists (Ray's), in rounds."""
    if get_active_backend()[0].supports_return_generator:
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")(tasks)
        return
    left = iter(tasks)
    with Parallel(n_jobs=jobs) as parallel:
        while some := list(islice(left, AT_ONCE * effective_n_jobs(jobs))):
            yield from parallel(some)


def _run(
    cell: Cell, experiment: Experiment, load: Callable[[str], Data]
) -> tuple[Cell, float, list[Measurement]]:
    """Run one cell on one thread, so that times compare and processes do not fight for cores."""
    began = time.perf_counter()
    if find_spec("torch"):  # a library loaded later would not be limited
        import torch

        torch.set_num_threads(1)
    with threadpool_limits(1):
        measurements = experiment.run(cell, load(cell.dataset))
    return cell, time.perf_counter() - began, measurements


def describe() -> str:
    """Return the machine and the versions in one line."""
    versions = [f"{name} {number}" for name in PACKAGES if (number := _version(name))]
    machine = f"{os.cpu_count()} cores, {_processor()}, {platform.system()}"
    return f"{machine}; Python {platform.python_version()}, {', '.join(versions)}"


@cache
def code() -> str:
    """Return the version and a digest of all source that takes part in a measurement."""
    home = Path(everylabel.__file__).parent
    files = [file for folder in MEASURING for file in (home / folder).rglob("*.py")]
    digest = hashlib.sha256()
    for file in sorted(file for file in files if "reporting" not in file.parts):
        digest.update(file.relative_to(home).as_posix().encode() + b"\0" + file.read_bytes())
    return f"everylabel {version('everylabel')}, source {digest.hexdigest()[:12]}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
