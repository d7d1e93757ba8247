"""Figures of learning curves: labels needed for a rival's accuracy, and regret to the best rival.

Arms are compared on the repetitions that both have, paired. Accuracies are on test data, on the unlabelled
rest of the pool, or the mean of both.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.labels.cells import Cell
from benchmarks.labels.curve import BUDGETS

JUDGED = ("test", "left", "both")
FROM = 25  # labels, the least budget at which the choice is judged
POINT = 0.01


class Difference(NamedTuple):
    """The difference of two arms over paired repetitions."""

    rival: str
    mean: float
    error: float | None  # standard error; None of one repetition
    n: int

    @property
    def behind(self) -> bool:
        """Return whether a difference is below -1 point, beyond two standard errors; False for one run."""
        return self.error is not None and self.mean + 2 * self.error < -POINT


class Curves:
    """Cells by set, arm and seed."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._by: dict[tuple[str, str], dict[int, Cell]] = {}
        for cell in cells:
            self._by.setdefault((cell.set, cell.arm), {})[cell.seed] = cell

    def sets(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self._by))

    def arms(self, name: str) -> list[str]:
        return [arm for other, arm in self._by if other == name]

    def seeds(self, name: str, *arms: str) -> list[int]:
        """Return the repetitions that all these arms have."""
        have = [set(self._by.get((name, arm), {})) for arm in arms]
        return sorted(set.intersection(*have))

    def seconds(self, name: str, arm: str) -> float:
        return float(np.mean([cell.seconds for cell in self._by[name, arm].values()]))

    def is_whole(self, name: str, arm: str) -> bool:
        """Return whether there is a curve with all its points, not only those at BUDGETS."""
        cells = self._by.get((name, arm), {}).values()
        return any(len(cell.points) > len(BUDGETS) for cell in cells)

    def taught(self, name: str, arm: str) -> bool:
        """Return whether class names teach the arm before the first label."""
        return any(cell.points[0].get("names", False) for cell in self._by[name, arm].values())

    def values(self, name: str, arm: str, n: int, what: str, seeds: Sequence[int]) -> np.ndarray:
        """Return a figure after n labels of each repetition."""
        points = [next(p for p in self._by[name, arm][seed].points if p["n"] == n) for seed in seeds]
        return np.array([_figure(point, what) for point in points])

    def curve(self, name: str, arm: str, what: str, seeds: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers of labels, and a figure's mean at each."""
        stops = [p["n"] for p in self._by[name, arm][seeds[0]].points]
        rows = [[_figure(p, what) for p in self._by[name, arm][seed].points] for seed in seeds]
        return np.array(stops), np.mean(rows, axis=0)


def _figure(point: dict[str, Any], what: str) -> float:
    return (point["test"] + point["left"]) / 2 if what == "both" else float(point[what])


def needed(curves: Curves, name: str, arm: str, rival: str, n: int, what: str = "both") -> float | None:
    """Return the labels after which an arm's mean curve reaches a rival's accuracy at n; None if never."""
    seeds = curves.seeds(name, arm, rival)
    target = float(curves.values(name, rival, n, what, seeds).mean())
    stops, mean = curves.curve(name, arm, what, seeds)
    reached = np.flatnonzero(mean >= target)
    if not curves.taught(name, arm):  # before the first label it knows nothing, and names one class for all
        reached = reached[reached > 0]
    if not len(reached):
        return None
    i = int(reached[0])
    if i == 0 or mean[i - 1] >= target:
        return float(stops[i])
    share = (target - mean[i - 1]) / (mean[i] - mean[i - 1])
    return float(stops[i - 1] + share * (stops[i] - stops[i - 1]))


def difference(curves: Curves, name: str, arm: str, rival: str, n: int, what: str) -> Difference:
    """Return an arm's figure minus a rival's, paired."""
    seeds = curves.seeds(name, arm, rival)
    gain = curves.values(name, arm, n, what, seeds) - curves.values(name, rival, n, what, seeds)
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None
    return Difference(rival, float(gain.mean()), error, len(gain))


def regret(
    curves: Curves, name: str, arm: str, rivals: Iterable[str], n: int, what: str
) -> Difference | None:
    """Return an arm's figure less that of the rival who has most on the repetitions of both.

    Rivals of one repetition only are left out, if there are others: the luckiest of them would win.
    """
    shared = {rival: len(curves.seeds(name, arm, rival)) for rival in rivals}
    enough = min(2, max(shared.values(), default=0))
    there = [rival for rival, n_shared in shared.items() if n_shared >= max(1, enough)]
    found = [difference(curves, name, arm, rival, n, what) for rival in there]
    return min(found, key=lambda each: each.mean, default=None)


def regrets(
    curves: Curves, arm: str, rivals: Sequence[str], what: str, sets: Sequence[str]
) -> dict[tuple[str, int], Difference]:
    """Return the regret of all datasets at each budget from FROM on."""
    found = {
        (name, n): regret(curves, name, arm, rivals, n, what)
        for name in sets
        if arm in curves.arms(name)
        for n in BUDGETS
        if n >= FROM
    }
    return {key: each for key, each in found.items() if each is not None}


def accuracies(rows: list[dict[str, Any]], **wanted: Any) -> np.ndarray:
    """Return the accuracies of rows with these values."""
    some = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return np.array([(row["test"] + row.get("left", row["test"])) / 2 for row in some])
