"""The paper's claims, each beside what we measured.

Each claim is a number that is positive where the claim is right, worked out in every repetition. A
dataset is for the claim if the 95% confidence interval of the mean (Student's t) lies above zero,
against it if below. The claim holds if no dataset is against it and at least half are for it; it does
not hold if none is for it and some are against it; it is undecided if none is either; else it is mixed.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from everylabel.experiments.reporting.summary import (
    Curves,
    Estimate,
    curves,
    datasets_of,
    mean_of,
    over_repetitions,
)
from everylabel.experiments.results import Row

Rows = dict[str, list[Row]]  # by experiment
Check = Callable[[list[Row]], tuple[str, str]]  # verdict, what was found
CONFIDENCE = 0.95
UNMEASURED = "nothing was measured that it speaks of"


class Verdict(NamedTuple):
    """What we found of one claim."""

    number: str
    claim: str
    where: str
    verdict: str  # "holds", "does not hold", "mixed", "undecided", "not tested"
    found: str


class Claim(NamedTuple):
    """A sentence of the paper and how to look it up in the results."""

    text: str
    where: str
    experiment: str
    check: Check


def judge(rows: Rows) -> list[Verdict]:
    """Return a verdict for every claim."""
    verdicts = []
    for i, claim in enumerate(CLAIMS, start=1):
        found = rows.get(claim.experiment, [])
        verdict, text = claim.check(found) if found else ("not tested", UNMEASURED)
        verdicts.append(Verdict(str(i), claim.text, claim.where, verdict, text))
    return verdicts


def tally(differences: dict[str, Estimate]) -> tuple[str, str]:
    """Return a verdict from one difference a dataset, in points: positive is the claim's side."""
    text = "; ".join(f"{d} {_points(e)}" for d, e in differences.items() if e.n)
    sides = [_side(e) for e in differences.values() if e.n > 1]
    if not sides:
        return "not tested", f"{text}: one repetition decides nothing" if text else UNMEASURED
    for_it, against = sides.count(1), sides.count(-1)
    if not for_it:
        return ("does not hold" if against else "undecided"), text
    return ("holds" if not against and 2 * for_it >= len(sides) else "mixed"), text


def _points(found: Estimate) -> str:
    spread = f"± {100 * found.error:.1f}" if found.n > 1 else "(one repetition)"
    return f"{100 * found.mean:+.1f} {spread}"


def _side(found: Estimate) -> int:
    """Return on which side of zero the confidence interval lies, 0 if on both."""
    width = float(stdtrit(found.n - 1, 0.5 + CONFIDENCE / 2)) * found.error
    return int(found.mean > width) - int(found.mean < -width)


def _each(statistic: Callable[[Curves], float], only: Iterable[str] = ()) -> Check:
    """Return a check by a number that each repetition's accuracies give."""

    def check(rows: list[Row]) -> tuple[str, str]:
        names = [d for d in datasets_of(rows) if not only or d in only]
        return tally({d: over_repetitions(rows, "accuracy", d, statistic) for d in names})

    return check


def _gap(found: Curves, better: str, worse: str, low: float = 0, high: float = np.inf) -> float:
    """Return by how much one curve lies above another between two x."""
    over, under = ({x: v for x, v in found[name].items() if low <= x < high} for name in (better, worse))
    if not over or over.keys() != under.keys():
        raise KeyError(better)
    return mean_of(over) - mean_of(under)


def _beats(better: str, worse: str, low: float = 0, high: float = np.inf) -> Check:
    """Claim: one variant's curve lies above another's."""
    return _each(partial(_gap, better=better, worse=worse, low=low, high=high))


def _early(better: str, worse: str) -> Check:
    """Claim: the lead is larger in the first half of the curve than in the second."""

    def statistic(found: Curves) -> float:
        gaps = [found[better][x] - found[worse][x] for x in sorted(found[better])][1:]  # all start alike
        half = len(gaps) // 2
        if not half:
            raise KeyError(better)
        return float(np.mean(gaps[:half]) - np.mean(gaps[half:]))

    return _each(statistic)


def _closer_early(near: str, goal: str) -> Check:
    """Claim: one variant is closer to another in the first half of the curve than in the second."""

    def statistic(found: Curves) -> float:
        gaps = [abs(found[near][x] - found[goal][x]) for x in sorted(found[goal])][1:]  # all start alike
        half = len(gaps) // 2
        if not half:
            raise KeyError(near)
        return float(np.mean(gaps[half:]) - np.mean(gaps[:half]))

    return _each(statistic)


def _closer(near: str, far: str, goal: str) -> Check:
    """Claim: one variant's accuracies are closer to the goal's than another's."""

    def statistic(found: Curves) -> float:
        at = found[goal]
        apart = [np.mean([abs(found[name][x] - at[x]) for x in at]) for name in (far, near)]
        return float(apart[0] - apart[1])

    return _each(statistic)


def _grows(variant: str) -> Check:
    """Claim: accuracy grows with x; the last third of the curve against the first."""

    def statistic(found: Curves) -> float:
        values = [found[variant][x] for x in sorted(found[variant])]
        third = max(1, len(values) // 3)
        return float(np.mean(values[-third:]) - np.mean(values[:third]))

    return _each(statistic)


def _beats_all(better: str, others: tuple[str, ...]) -> Check:
    """Claim: one variant beats the best of the others everywhere."""

    def check(rows: list[Row]) -> tuple[str, str]:
        differences = {}
        for dataset in datasets_of(rows):
            gaps = {
                name: over_repetitions(rows, "accuracy", dataset, partial(_gap, better=better, worse=name))
                for name in others
            }
            once = max(gap.n for gap in gaps.values()) > 1  # then a rival measured once decides nothing
            fair = (name for name in gaps if gaps[name].n > once)
            name = min(fair, key=lambda n: gaps[n].mean, default=None)
            if name is not None:
                differences[f"{dataset} (over {name})"] = gaps[name]
        return tally(differences)

    return check


def _nothing_helps(method: str, steps: tuple[float, ...], only: tuple[str, ...]) -> Check:
    """Claim: no step of a method improves on the baseline: minus the gain of the step best on average.

    The best of each repetition would gain by chance alone.
    """

    def check(rows: list[Row]) -> tuple[str, str]:
        differences = {}
        for dataset in (d for d in datasets_of(rows) if d in only):
            losses = [
                over_repetitions(
                    rows, "accuracy", dataset, partial(_gap, better="baseline", worse=f"{method}, {step:g}")
                )
                for step in steps
            ]
            differences[dataset] = min(losses, key=lambda loss: loss.mean)
        return tally(differences)

    return check


def _first_order_weaker(rows: list[Row]) -> tuple[str, str]:
    """Claim: first order gains less, as a share of retraining, where there are many classes."""
    shares = {}
    for dataset in datasets_of(rows):
        gain, best = (
            over_repetitions(rows, "accuracy", dataset, partial(_gap, better=name, worse="baseline"))
            for name in ("first order", "retraining")
        )
        if gain.n and best.mean > 0:
            shares[dataset] = gain.mean / best.mean
    many = [share for name, share in shares.items() if name in MANY_CLASSES]
    few = [share for name, share in shares.items() if name not in MANY_CLASSES]
    text = "share of retraining's gain: " + "; ".join(f"{d} {s:.2f}" for d, s in shares.items())
    if not many or not few:
        return "not tested", text
    return ("holds" if max(many) < min(few) else "mixed" if min(many) < max(few) else "does not hold"), text


def _speed(rows: list[Row], way: str, faster: str, slower: str | None) -> dict[str, float]:
    """Return at |D| = 1,000 the speed-up of one update, or its ratio to another's, by dataset."""
    found = {}
    for dataset in datasets_of(rows):
        at = {name: curve[1000].mean for name, curve in curves(rows, way, dataset).items() if 1000 in curve}
        if faster in at and (slower is None or slower in at):
            found[dataset] = at[faster] / (1.0 if slower is None else at[slower])
    return found


def _ratio(faster: str, slower: str | None, least: float, most: float = np.inf) -> Check:
    """Claim: a ratio of speeds at |D| = 1,000 lies between two bounds, on every dataset."""

    def check(rows: list[Row]) -> tuple[str, str]:
        right, parts = [], []
        for way in sorted({row.metric for row in rows}) if slower is None else [OVER_RECIPE]:
            found = _speed(rows, way, faster, slower)
            right += [least <= ratio <= most for ratio in found.values()]
            label = f"{way.removeprefix('speed-up ')}: " if slower is None else ""
            parts.append(label + ", ".join(f"{d} {ratio:,.3g}x" for d, ratio in found.items()))
        if not right:
            return "not tested", UNMEASURED
        return ("holds" if all(right) else "mixed" if any(right) else "does not hold"), "; ".join(parts)

    return check


OVER_RECIPE = "speed-up over recipe"
MANY_CLASSES = ("banking77", "clinc150")
RIVALS = ("random", "margin", "Badge", "Typiclust")
WITH_UPDATES = ("margin with updates", "Badge with updates")
CLAIMS = [
    Claim("The update (step 10) consistently achieves better accuracy than the baseline (|D| = 50).", "Sec. 4.2, Fig. 2", "step-size", _beats("second order, 10", "baseline")),
    Claim("Step 1 is too weak; with step 10 accuracies are much closer to retraining.", "Sec. 4.2, Fig. 2", "step-size", _closer("second order, 10", "second order, 1", "retraining")),
    Claim("A very high step, 30, can lead to worse accuracy than 10 (CIFAR-10).", "Sec. 4.2, Fig. 2", "step-size", _each(partial(_gap, better="second order, 10", worse="second order, 30"), ("cifar10",))),
    Claim("First order: a high step (0.1) can make accuracy collapse below the baseline.", "App. B", "step-size", _beats("baseline", "first order, 0.1")),
    Claim("Monte Carlo: no step improves accuracy on CIFAR-10.", "App. B", "step-size", _nothing_helps("monte carlo", (0.001, 0.005, 0.01, 0.1, 1.0), ("cifar10",))),
    Claim("The update improves on the baseline at all learning stages (tested: on average over them).", "Sec. 4.2, Fig. 3", "stages", _beats("second order", "baseline")),
    Claim("... also in later stages (|D| of 100 and more).", "Sec. 4.2, Fig. 3", "stages", _beats("second order", "baseline", low=100)),
    Claim("Over all stages its accuracy improvement is higher than first order's.", "Sec. 4.2, Fig. 3", "stages", _beats("second order", "first order")),
    Claim("Over all stages its accuracy improvement is higher than Monte Carlo's.", "Sec. 4.2, Fig. 3", "stages", _beats("second order", "Monte Carlo")),
    Claim("First order is effective in early stages (|D| < 50).", "Sec. 4.2, Fig. 3", "stages", _beats("first order", "baseline", high=50)),
    Claim("Monte Carlo is effective in early stages (|D| < 50).", "Sec. 4.2, Fig. 3", "stages", _beats("Monte Carlo", "baseline", high=50)),
    Claim("First order deteriorates accuracy in later stages (|D| of 100 and more).", "Sec. 4.2, Fig. 3", "stages", _beats("baseline", "first order", low=100)),
    Claim("Monte Carlo deteriorates accuracy in later stages (|D| of 100 and more).", "Sec. 4.2, Fig. 3", "stages", _beats("baseline", "Monte Carlo", low=100)),
    Claim("As D+ grows, the update's accuracy keeps improving.", "Sec. 4.2, Fig. 4", "new-sizes", _grows("second order")),
    Claim("As D+ grows, first order's accuracy keeps improving.", "Sec. 4.2, Fig. 4", "new-sizes", _grows("first order")),
    Claim("As D+ grows, Monte Carlo is worse than the baseline.", "Sec. 4.2, Fig. 4", "new-sizes", _beats("baseline", "Monte Carlo")),
    Claim("The update is better than first order whatever the dataset.", "Sec. 4.2, Fig. 4", "new-sizes", _beats("second order", "first order")),
    Claim("First order is less effective on datasets of many classes (Banking-77, Clinc-150).", "Sec. 4.2, Fig. 4", "new-sizes", _first_order_weaker),
    Claim("All updates are faster than retraining (tested: second order at |D| = 1000).", "Sec. 4.2, Fig. 5", "speed-up", _ratio("second order", None, 1.0)),
    Claim("First order is the fastest: at least as fast as second order.", "Sec. 4.2, Fig. 5", "speed-up", _ratio("first order", "second order", 1.0)),
    Claim("At |D| = 1000 the fastest update, first order, is about 1,700 times faster than retraining (850 to 3,400).", "Sec. 4.2, Fig. 5", "speed-up", _ratio("first order", None, 850.0, 3400.0)),
    Claim("Second order's speed-up is similar to first order's (within a factor of two).", "Sec. 4.2, Fig. 5", "speed-up", _ratio("second order", "first order", 0.5)),
    Claim("Second order is significantly faster than Monte Carlo (twice at least).", "Sec. 4.2, Fig. 5", "speed-up", _ratio("second order", "Monte Carlo", 2.0)),
    Claim("Margin with updates outperforms margin's top b.", "Sec. 5, Fig. 6", "batch-selection", _beats("margin with updates", "margin")),
    Claim("Badge with updates outperforms Badge with k-means++.", "Sec. 5, Fig. 6", "batch-selection", _beats("Badge with updates", "Badge")),
    Claim("Margin with updates leads in early stages, when redundancy within a batch matters: more than later.", "Sec. 5, Fig. 6", "batch-selection", _early("margin with updates", "margin")),
    Claim("The optimal look-ahead consistently outperforms all competitors.", "Sec. 5, Fig. 7", "look-ahead", _beats_all("optimal", RIVALS)),
    Claim("The same if its batches are mixed and scored by log loss, as the authors' public code has it.", "public code", "look-ahead", _beats_all("optimal, mixed batches", RIVALS)),
    Claim("Typiclust is closer to the optimal look-ahead in early stages than in later ones.", "Sec. 5, Fig. 7", "look-ahead", _closer_early("Typiclust", "optimal")),
    Claim("Ours: look-ahead, told each label after its pick, outperforms all others, in mean accuracy over the curve.", "beyond", "look-ahead", _beats_all("look-ahead", (*RIVALS, *WITH_UPDATES))),
    Claim("Ours: the exact update gains more accuracy than second order, on average over the stages.", "beyond", "stages", _beats("exact", "second order")),
]  # fmt: skip
