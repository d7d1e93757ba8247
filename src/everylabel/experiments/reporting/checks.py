"""How a claim is looked up in the measurements.

A check works out a number in every repetition that is positive where the claim is right, for every
dataset. A dataset is for the claim if the 95% confidence interval of the mean (Student's t) lies above
zero, against it if below; `tally` makes a verdict of them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from everylabel.experiments.reporting.summary import (
    Curves,
    Estimate,
    by_repetition,
    datasets_of,
    estimate,
    mean_of,
    over_repetitions,
)
from everylabel.experiments.results import Row

CONFIDENCE = 0.95
UNMEASURED = "nothing was measured that it speaks of"


class Found(NamedTuple):
    """What one dataset says to a claim: positive is the claim's side."""

    dataset: str
    estimate: Estimate
    text: str  # the figure as people read it

    @property
    def side(self) -> int:
        """On which side of zero the confidence interval lies, 0 if on both."""
        mean, error, n = self.estimate
        if n < 2:
            return 0
        width = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * error
        return int(mean > width) - int(mean < -width)


Check = Callable[[list[Row]], list[Found]]
Statistic = Callable[[Curves], float]


def tally(found: Sequence[Found], spoken_of: Iterable[str] = (), can: bool = False) -> tuple[str, str]:
    """Return a verdict and the figures, over the datasets a claim speaks of or, if none is there, over all.

    It holds if no dataset is against it and at least half are for it; of what only *can* happen, one
    dataset is enough.
    """
    found = [one for one in found if one.estimate.n]
    counted = [one for one in found if one.dataset in spoken_of] or found
    others = [one for one in found if one not in counted]
    text = "; ".join(one.text for one in counted)
    text += f" | others: {'; '.join(one.text for one in others)}" if others else ""
    sides = [one.side for one in counted if one.estimate.n > 1]
    if not sides:
        return "not tested", f"{text}: one repetition decides nothing" if text else UNMEASURED
    for_it, against = sides.count(1), sides.count(-1)
    if not for_it:
        return ("does not hold" if against else "undecided"), text
    return ("holds" if can or (not against and 2 * for_it >= len(sides)) else "mixed"), text


def points(name: str, found: Estimate) -> str:
    """Return a difference of accuracies as people read it."""
    spread = f"± {100 * found.error:.1f}" if found.n > 1 else "(one repetition)"
    return f"{name} {100 * found.mean:+.1f} {spread}"


def each(statistic: Statistic) -> Check:
    """Return a check by a number that each repetition's accuracies give."""

    def check(rows: list[Row]) -> list[Found]:
        names = datasets_of(rows)
        numbers = [over_repetitions(rows, "accuracy", name, statistic) for name in names]
        return [Found(d, e, points(d, e)) for d, e in zip(names, numbers, strict=True)]

    return check


def gap(found: Curves, better: str, worse: str, low: float = 0, high: float = np.inf) -> float:
    """Return by how much one curve lies above another between two x."""
    over, under = ({x: v for x, v in found[name].items() if low <= x < high} for name in (better, worse))
    if not over or over.keys() != under.keys():
        raise KeyError(better)
    return mean_of(over) - mean_of(under)


def beats(better: str, worse: str, low: float = 0, high: float = np.inf) -> Check:
    """Claim: one variant's curve lies above another's."""
    return each(partial(gap, better=better, worse=worse, low=low, high=high))


def leads_early(better: str, worse: str) -> Check:
    """Claim: the lead is larger in the first half of the curve than in the second."""
    return each(lambda found: _halves([found[better][x] - found[worse][x] for x in sorted(found[better])]))


def closer_early(near: str, goal: str) -> Check:
    """Claim: one variant is closer to another in the first half of the curve than in the second."""
    return each(lambda found: _halves([-abs(found[near][x] - found[goal][x]) for x in sorted(found[goal])]))


def _halves(gaps: list[float]) -> float:
    """Return by how much the mean of the first half is above that of the second; all curves start alike."""
    half = (len(gaps) - 1) // 2
    if not half:
        raise KeyError("a curve of one cycle has no halves")
    return float(np.mean(gaps[1 : half + 1]) - np.mean(gaps[half + 1 :]))


def closer(near: str, far: str, goal: str) -> Check:
    """Claim: one variant's accuracies are closer to the goal's than another's."""

    def statistic(found: Curves) -> float:
        at = found[goal]
        apart = [np.mean([abs(found[name][x] - at[x]) for x in at]) for name in (far, near)]
        return float(apart[0] - apart[1])

    return each(statistic)


def grows(variant: str) -> Check:
    """Claim: accuracy grows with x; the last third of the curve against the first."""

    def statistic(found: Curves) -> float:
        values = [found[variant][x] for x in sorted(found[variant])]
        third = max(1, len(values) // 3)
        return float(np.mean(values[-third:]) - np.mean(values[:third]))

    return each(statistic)


def beats_all(better: str, others: Sequence[str]) -> Check:
    """Claim: one variant beats the best of the others."""

    def check(rows: list[Row]) -> list[Found]:
        found = []
        for dataset in datasets_of(rows):
            gaps = {
                name: over_repetitions(rows, "accuracy", dataset, partial(gap, better=better, worse=name))
                for name in others
            }
            once = max(found.n for found in gaps.values()) > 1  # then a rival measured once decides nothing
            fair = (name for name in gaps if gaps[name].n > once)
            name = min(fair, key=lambda n: gaps[n].mean, default=None)
            if name is not None:
                found.append(Found(dataset, gaps[name], points(f"{dataset} (over {name})", gaps[name])))
        return found

    return check


def nothing_helps(variants: Sequence[str]) -> Check:
    """Claim: none of the variants improves on the baseline: minus the gain of the one best on average.

    The best of each repetition would gain by chance alone.
    """

    def check(rows: list[Row]) -> list[Found]:
        found = []
        for dataset in datasets_of(rows):
            losses = [
                over_repetitions(rows, "accuracy", dataset, partial(gap, better="baseline", worse=variant))
                for variant in variants
            ]
            least = min(losses, key=lambda loss: loss.mean)
            found.append(Found(dataset, least, points(dataset, least)))
        return found

    return check


def smaller_share(variant: str, than_on: str) -> Check:
    """Claim: of what retraining gains, an update gains a smaller share than on another dataset."""

    def shares(rows: list[Row], dataset: str) -> list[float]:
        gains: dict[str, list[float]] = {variant: [], "retraining": []}
        for found in by_repetition(rows, "accuracy", dataset).values():
            if {variant, "retraining", "baseline"} <= found.keys():
                for name, values in gains.items():
                    values.append(gap(found, name, "baseline"))
        whole = float(np.mean(gains["retraining"])) if gains["retraining"] else 0.0
        return [gain / whole for gain in gains[variant]] if whole > 0 else []

    def check(rows: list[Row]) -> list[Found]:
        goal, found = shares(rows, than_on), []
        for dataset in datasets_of(rows):
            mine = shares(rows, dataset)
            apart = estimate(a - b for a, b in zip(goal, mine, strict=False))
            if dataset != than_on and apart.n:
                text = f"{dataset} {np.mean(mine):.2f}, {than_on} {np.mean(goal):.2f}, apart {apart}"
                found.append(Found(dataset, apart, f"share of retraining's gain: {text}"))
        return found

    return check


def within(least: float, most: float = np.inf) -> Callable[[float], float]:
    """Return what is positive for ratios between two bounds, the more the farther from both."""
    return lambda ratio: float(min(np.log(ratio / least), np.log(most / ratio)))


def speed(way: str, faster: str, slower: str | None, bounds: Callable[[float], float]) -> Check:
    """Claim: at |D| = 1,000 an update's speed-up, or its ratio to another's, lies within bounds."""

    def ratio(found: Curves) -> float:
        return found[faster][1000] / (1.0 if slower is None else found[slower][1000])

    label = "" if slower is not None else f" over {way}"
    return _ratios(way, ratio, bounds, label)


def slowest(way: str, variants: Sequence[str]) -> Check:
    """Claim: every update at every |D| is faster than retraining; the least ratio decides."""

    def ratio(found: Curves) -> float:
        return min(value for name in variants for value in found[name].values())

    return _ratios(way, ratio, within(1.0), f" over {way}, at the least")


def _ratios(way: str, ratio: Statistic, bounds: Callable[[float], float], label: str) -> Check:
    def check(rows: list[Row]) -> list[Found]:
        found = []
        for dataset in datasets_of(rows):
            shown, judged = (
                over_repetitions(rows, f"speed-up over {way}", dataset, statistic)
                for statistic in (ratio, lambda curves: bounds(ratio(curves)))
            )
            spread = f" ± {shown.error:,.2g}" if shown.n > 1 else ""
            found.append(Found(dataset, judged, f"{dataset} {shown.mean:,.3g}x{spread}{label}"))
        return found

    return check


def both(*checks: Check) -> Check:
    """Claim: several things at once; each counts."""
    return lambda rows: [one for check in checks for one in check(rows)]
