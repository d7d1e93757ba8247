"""The compared methods (arms), ours and others: functions from data and a seed to a curve."""

from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.labels import chosen, peers
from benchmarks.labels.curve import STOPS, Point, measured
from benchmarks.labels.figures import Curves
from benchmarks.labels.served import served
from benchmarks.labels.sets import SETS, Data
from benchmarks.labels.version_before import COMMIT, version_before
from everylabel.labelling.state.types import DEFAULTS

OURS, NO_NAMES = "page", "page, no names"
MARGIN = "margin"
BEFORE = "version 0.1, page"
Arm = Callable[[Data, int], Iterable[Point]]


def by_strategy(strategy: str) -> dict[str, Arm]:
    """Return the arms of `select`, and of the choice alone on a rival's features."""
    return {
        "select": lambda data, seed: chosen.in_batches(chosen.ours(data), strategy, seed, updates=False),
        "select, ask": lambda data, seed: chosen.in_batches(chosen.ours(data), strategy, seed, updates=True),
        "choice alone": lambda data, seed: chosen.one_by_one(chosen.plain(data), strategy, seed),
    }


OUR_ARMS: dict[str, Arm] = {
    OURS: lambda data, seed: served(data, data.names),
    NO_NAMES: lambda data, seed: served(data, None),
    **by_strategy(DEFAULTS["strategy"]),
}
PLAIN_ARMS: dict[str, Arm] = {
    "random": lambda data, seed: chosen.in_batches(chosen.plain(data), "random", seed, updates=False),
    MARGIN: lambda data, seed: chosen.one_by_one(chosen.plain(data), "margin", seed),
    "margin, updates": lambda data, seed: chosen.in_batches(chosen.plain(data), "margin", seed, updates=True),
    "badge": lambda data, seed: chosen.in_batches(chosen.plain(data), "badge", seed, updates=False),
    "typiclust": lambda data, seed: chosen.in_batches(chosen.plain(data), "typiclust", seed, updates=False),
}


def before(checkout: Path | None) -> dict[str, Arm]:
    """Return the arm of version 0.1, if there is a checkout of it."""
    if checkout is None:
        print(f"version 0.1 takes no part: git worktree add --detach FOLDER {COMMIT}, then --before FOLDER")
        return {}

    def arm(data: Data, seed: int) -> Iterable[Point]:
        for found in version_before(data, STOPS, checkout):
            yield measured(data, found["labelled"], found["test"], found["pool"])

    return {BEFORE: arm}


def all_arms(checkout: Path | None) -> dict[str, Arm]:
    """Return all arms that can be run here."""
    return {**OUR_ARMS, **PLAIN_ARMS, **before(checkout), **peers.arms()}


def rivals_of(curves: Curves) -> list[str]:
    """Return the arms of the rivals."""
    return sorted({arm for name in curves.sets() for arm in curves.arms(name)} - set(OUR_ARMS))


def in_order(curves: Curves) -> list[str]:
    """Return the datasets that have curves."""
    return [name for name in SETS if name in curves.sets()]
