"""The paper's claims, each with its check and the datasets it is about.

A check computes a number in every repetition, for every dataset; it is positive if the claim is right. A
dataset supports the claim if the 95% confidence interval of the mean (Student's t) lies above zero, and
contradicts it if below; `tally` makes a verdict of them. A claim is judged over the datasets that its sentence or figure shows;
if none of them is available it is not tested. Other datasets are shown after them and do not count.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from everylabel.experiments.reporting.summary import (
    Curves,
    Estimate,
    Runs,
    datasets_of,
    estimate,
    mean_of,
    over_repetitions,
    points,
    runs_of,
    times,
    title_of,
)
from everylabel.experiments.results import Row

CONFIDENCE = 0.95
LEAST = 0.001  # a tenth of a point of accuracy: less counts for nothing
UNMEASURED = "not measured"
Rows = dict[str, list[Row]]  # by experiment


class Finding(NamedTuple):
    """The result of one dataset for a claim; positive supports the claim."""

    dataset: str
    estimate: Estimate
    text: str  # the figure as people read it
    least: float = 0.0  # the smallest mean that counts
    partly: bool = False  # some measurements that could refute the claim are missing

    @property
    def side(self) -> int:
        """The sign of the confidence interval; 0 if it contains zero."""
        mean, error, n = self.estimate
        if n < 2 or abs(mean) < self.least:
            return 0
        width = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * error
        side = int(mean > width) - int(mean < -width)
        return min(side, 0) if self.partly else side


Check = Callable[[list[Row]], list[Finding]]
Statistic = Callable[[Curves], float]


def tally(
    found: Sequence[Finding], datasets: Iterable[str] | None = None, can: bool = False
) -> tuple[str, str]:
    """Return the verdict over the datasets of a claim (None: all), and the figures of all.

    It holds if no dataset contradicts it and at least half support it. For a claim that something *can* happen,
    one dataset is enough.
    """
    found = [one for one in found if one.estimate.n]
    counted = [one for one in found if datasets is None or one.dataset in datasets]
    others = [one for one in found if one not in counted]
    parts = ["; ".join(one.text for one in counted)] if counted else []
    parts += [f"others: {'; '.join(one.text for one in others)}"] if others else []
    text = " | ".join(parts)
    sides = [one.side for one in counted if one.estimate.n > 1]
    if not sides:
        return "not tested", (f"{text}: one repetition decides nothing" if counted else text or UNMEASURED)
    supporting, against = sides.count(1), sides.count(-1)
    if not supporting:
        return ("does not hold" if against else "undecided"), text
    return ("holds" if can or (not against and 2 * supporting >= len(sides)) else "mixed"), text


def _accuracy(dataset: str, found: Estimate, label: str = "", partly: bool = False) -> Finding:
    """Return a difference of accuracies as a finding."""
    text = f"{title_of(dataset)}{label} {points(found)}"
    return Finding(dataset, found, text, LEAST, partly)


def by_dataset(look: Callable[[Runs, str], Finding], metric: str = "accuracy") -> Check:
    """Return a check that looks at the runs on each dataset."""
    return lambda rows: [look(runs_of(rows, metric, dataset), dataset) for dataset in datasets_of(rows)]


def each(statistic: Statistic) -> Check:
    """Return a check by a statistic of each repetition's accuracies."""
    return by_dataset(lambda runs, dataset: _accuracy(dataset, over_repetitions(runs, statistic)))


def gap(found: Curves, better: str, worse: str, low: float = 0, high: float = np.inf) -> float:
    """Return the mean difference of two curves between two x."""
    over, under = ({x: v for x, v in found[name].items() if low <= x < high} for name in (better, worse))
    if not over or over.keys() != under.keys():
        raise KeyError(better)
    return mean_of(over) - mean_of(under)


def beats(better: str, worse: str, low: float = 0, high: float = np.inf) -> Check:
    """Claim: one variant's curve lies above another's."""
    return each(partial(gap, better=better, worse=worse, low=low, high=high))


def no_worse(variant: str, other: str, tolerance: float) -> Check:
    """Claim: one variant's curve lies at most `tolerance` below another's."""
    slack = partial(gap, better=variant, worse=other)

    def shifted(one: Finding) -> Finding:
        return one._replace(estimate=one.estimate._replace(mean=one.estimate.mean + tolerance), least=0.0)

    return lambda rows: [shifted(one) for one in each(slack)(rows)]


def leads_early(better: str, worse: str) -> Check:
    """Claim: one curve lies above another in the first half of the cycles."""
    return each(lambda found: float(np.mean(_halves(found, better, worse)[0])))


def falls_behind(slower: str, faster: str) -> Check:
    """Claim: one curve lies farther below another in the second half of the cycles than in the first."""

    def statistic(found: Curves) -> float:
        early, late = _halves(found, faster, slower)
        return float(np.mean(late) - np.mean(early))

    return each(statistic)


def _halves(found: Curves, better: str, worse: str) -> tuple[list[float], list[float]]:
    """Return the mean difference of two curves in the first and second half of the cycles."""
    gaps = [found[better][x] - found[worse][x] for x in sorted(found[better])][1:]
    half = len(gaps) // 2
    if not half:
        raise KeyError("a curve of one cycle has no halves")
    return gaps[:half], gaps[half:]


def closer(near: str, far: str, goal: str) -> Check:
    """Claim: one variant's mean curve is closer to the goal's than another's."""

    def look(runs: Runs, dataset: str) -> Finding:
        whole = [run for run in runs.values() if {near, far, goal} <= run.keys()]
        closest, farther = (_dissimilar(whole, name, goal) for name in (near, far))
        return _accuracy(dataset, estimate(b - a for a, b in zip(closest, farther, strict=True)))

    return by_dataset(look)


def _dissimilar(runs: list[Curves], name: str, goal: str) -> list[float]:
    """Return each repetition's contribution to the distance |mean curve - mean goal|, averaged over x.

    The distance of each repetition's own curves would be larger the more they scatter.
    """
    if not runs:
        return []
    at = sorted(runs[0][goal])
    gaps = np.array([[run[name][x] - run[goal][x] for x in at] for run in runs])
    sides: np.ndarray = np.sign(gaps.mean(axis=0))
    return [float(part) for part in (sides * gaps).mean(axis=1)]


def grows(variant: str) -> Check:
    """Claim: accuracy grows with x; the last third of the curve against the first."""

    def statistic(found: Curves) -> float:
        values = [found[variant][x] for x in sorted(found[variant])]
        third = max(1, len(values) // 3)
        return float(np.mean(values[-third:]) - np.mean(values[:third]))

    return each(statistic)


def beats_all(better: str, others: Sequence[str]) -> Check:
    """Claim: one variant beats the best of the others; confirmed only if all were measured."""

    def look(runs: Runs, dataset: str) -> Finding:
        gaps = {name: over_repetitions(runs, partial(gap, better=better, worse=name)) for name in others}
        fair = [name for name in others if gaps[name].n > 1] or [n for n in others if gaps[n].n]
        if not fair:
            return _accuracy(dataset, estimate([]))
        name = min(fair, key=lambda n: gaps[n].mean)
        label = f" (over {name}"
        for what, n in (("not tested", 0), ("one repetition", 1)):
            some = [other for other in others if gaps[other].n == n and other != name]
            label += f"; {what}: {', '.join(some)}" if some else ""
        partly = any(gaps[other].n < 2 for other in others)
        return _accuracy(dataset, gaps[name], f"{label})", partly)

    return by_dataset(look)


def nothing_helps(variants: Sequence[str]) -> Check:
    """Claim: no variant improves on the baseline; the value is minus the gain of the best on average.

    The best of each repetition would gain by chance alone.
    """

    def look(runs: Runs, dataset: str) -> Finding:
        losses = [over_repetitions(runs, partial(gap, better="baseline", worse=name)) for name in variants]
        return _accuracy(dataset, min(losses, key=lambda loss: loss.mean))

    return by_dataset(look)


def smaller_share(variant: str, than_on: str) -> Check:
    """Claim: an update gains a smaller share of retraining's gain than on another dataset."""

    def check(rows: list[Row]) -> list[Finding]:
        goal = share(runs_of(rows, "accuracy", than_on), variant)

        def look(runs: Runs, dataset: str) -> Finding:
            mine = share(runs, variant)
            n = 0 if dataset == than_on else min(goal.n, mine.n)
            apart = Estimate(goal.mean - mine.mean, float(np.hypot(goal.error, mine.error)), n)
            text = f"{title_of(dataset)} {mine} of retraining's gain ({title_of(than_on)} {goal})"
            return Finding(dataset, apart, text)

        return by_dataset(look)(rows)

    return check


def share(runs: Runs, variant: str) -> Estimate:
    """Return an update's gain divided by retraining's, with the error of a ratio of means."""
    gains = [
        [gap(run, name, "baseline") for name in (variant, "retraining")]
        for run in runs.values()
        if {variant, "retraining", "baseline"} <= run.keys()
    ]
    if not gains:
        return estimate([])
    mine, whole = np.array(gains).T
    if whole.mean() <= 0:
        return estimate([])
    ratio = float(mine.mean() / whole.mean())
    return estimate(ratio + (mine - ratio * whole) / whole.mean())  # the first terms of a Taylor series


def within(least: float, most: float = np.inf) -> Callable[[float], float]:
    """Return the distance of a ratio to the nearer bound; positive between the bounds."""
    return lambda ratio: float(min(np.log(ratio / least), np.log(most / ratio)))


def speed(way: str, faster: str, slower: str | None, bounds: Callable[[float], float]) -> Check:
    """Claim: at |D| = 1,000 an update's speed-up, or its ratio to another's, lies within bounds."""

    def ratio(found: Curves) -> float:
        return found[faster][1000] / (1.0 if slower is None else found[slower][1000])

    label = "" if slower is not None else f" over {way}"
    return _ratios(way, ratio, bounds, label)


def slowest(way: str, variants: Sequence[str]) -> Check:
    """Claim: every update at every |D| is faster than retraining, by the smallest ratio."""

    def ratio(found: Curves) -> float:
        return min(value for name in variants for value in found[name].values())

    return _ratios(way, ratio, within(1.0), f" over {way}, at the least")


def _ratios(way: str, ratio: Statistic, bounds: Callable[[float], float], label: str) -> Check:
    def look(runs: Runs, dataset: str) -> Finding:
        shown = over_repetitions(runs, ratio)
        judged = over_repetitions(runs, lambda curves: bounds(ratio(curves)))
        return Finding(dataset, judged, f"{title_of(dataset)} {times(shown)}{label}")

    return by_dataset(look, f"speed-up over {way}")


def both(*checks: Check) -> Check:
    """Claim: several claims at once."""
    return lambda rows: [one for check in checks for one in check(rows)]


class Claim(NamedTuple):
    """A sentence of the paper, its check, and its datasets."""

    text: str
    where: str
    experiment: str
    check: Check
    datasets: tuple[str, ...] | None  # None: all
    can: bool = False  # only says that something can happen
    also: str = ""  # an experiment whose rows are needed, too


class Verdict(NamedTuple):
    """The verdict on one claim."""

    number: str
    claim: str
    where: str
    verdict: str  # "holds", "does not hold", "mixed", "undecided", "not tested"
    found: str


def judge(rows: Rows) -> list[Verdict]:
    """Return the verdict on every claim, in the order of CLAIMS."""
    verdicts = []
    for i, claim in enumerate(CLAIMS, start=1):
        found = rows.get(claim.experiment, []) + rows.get(claim.also, [])
        verdict, text = (
            tally(claim.check(found), claim.datasets, claim.can) if found else ("not tested", UNMEASURED)
        )
        verdicts.append(Verdict(str(i), claim.text, claim.where, verdict, text))
    return verdicts


CIFAR10, FIG2 = ("cifar10",), ("cifar10", "dbpedia")
FIG4 = ("dtd", "banking77", "clinc150")
ALL = ("cifar10", "snacks", "dtd", "dbpedia", "banking77", "clinc150")
EVERYWHERE = None  # our own claims
MONTE_CARLO = [f"monte carlo, {step}" for step in ("0.001", "0.005", "0.01", "0.1", "1")]
FIRST_ORDER = [f"first order, {step}" for step in ("0.0001", "0.001", "0.01", "0.1")]
UPDATES = ("second order", "first order", "Monte Carlo")
RIVALS = ("random", "margin", "Badge", "Typiclust")
WITH_UPDATES = ("margin with updates", "Badge with updates")
RECIPE, TORCH, FAST = "recipe", "recipe in torch's parts", "fast"
CLAIMS = [
    Claim("The update (step 10) consistently achieves better accuracy than the baseline (|D| = 50).", "Sec. 4.2, Fig. 2", "step-size", beats("second order, 10", "baseline"), FIG2),
    Claim("Step 1 is too weak; with step 10 accuracies are much closer to retraining.", "Sec. 4.2, Fig. 2", "step-size", closer("second order, 10", "second order, 1", "retraining"), FIG2),
    Claim("A very high step, 30, can lead to worse accuracy than 10 on CIFAR-10.", "Sec. 4.2, Fig. 2", "step-size", beats("second order, 10", "second order, 30"), CIFAR10, can=True),
    Claim("First order: a high step (0.1) can make accuracy collapse below the baseline.", "App. B", "step-size", beats("baseline", "first order, 0.1"), FIG2, can=True),
    Claim("First order: 0.001 is the best step on CIFAR-10.", "App. B", "step-size", beats_all("first order, 0.001", [s for s in FIRST_ORDER if s != "first order, 0.001"]), CIFAR10),
    Claim("First order: 0.001 is not worse than the baseline on DBpedia (by half a point at most).", "App. B", "step-size", no_worse("first order, 0.001", "baseline", 0.005), ("dbpedia",)),
    Claim("Monte Carlo: no step improves accuracy on CIFAR-10.", "App. B", "step-size", nothing_helps(MONTE_CARLO), CIFAR10),
    Claim("Monte Carlo: on DBpedia 0.1 improves accuracy the most.", "App. B", "step-size", beats_all("monte carlo, 0.1", ["baseline", *(s for s in MONTE_CARLO if s != "monte carlo, 0.1")]), ("dbpedia",)),
    Claim("The update improves on the baseline at all learning stages (tested: on average over them).", "Sec. 4.2, Fig. 3", "stages", beats("second order", "baseline"), ALL),
    Claim("... also in later stages (|D| of 100 and more).", "Sec. 4.2, Fig. 3", "stages", beats("second order", "baseline", low=100), ALL),
    Claim("Over all stages its accuracy improvement is higher than first order's.", "Sec. 4.2, Fig. 3", "stages", beats("second order", "first order"), ALL),
    Claim("Over all stages its accuracy improvement is higher than Monte Carlo's.", "Sec. 4.2, Fig. 3", "stages", beats("second order", "Monte Carlo"), ALL),
    Claim("The update closely approximates retraining: closer to it in accuracy than the baseline is.", "abstract, Fig. 3", "stages", closer("second order", "baseline", "retraining"), ALL),
    Claim("... closer than first order.", "Sec. 1, Fig. 3", "stages", closer("second order", "first order", "retraining"), ALL),
    Claim("... closer than Monte Carlo.", "Sec. 1, Fig. 3", "stages", closer("second order", "Monte Carlo", "retraining"), ALL),
    Claim("First order is effective in early stages (|D| < 50).", "Sec. 4.2, Fig. 3", "stages", beats("first order", "baseline", high=50), ALL),
    Claim("Monte Carlo is effective in early stages (|D| < 50).", "Sec. 4.2, Fig. 3", "stages", beats("Monte Carlo", "baseline", high=50), ALL),
    Claim("First order deteriorates accuracy in later stages (|D| of 100 and more).", "Sec. 4.2, Fig. 3", "stages", beats("baseline", "first order", low=100), ALL),
    Claim("Monte Carlo deteriorates accuracy in later stages (|D| of 100 and more).", "Sec. 4.2, Fig. 3", "stages", beats("baseline", "Monte Carlo", low=100), ALL),
    Claim("As D+ grows, the update's accuracy keeps improving.", "Sec. 4.2, Fig. 4", "new-sizes", grows("second order"), FIG4),
    Claim("As D+ grows, first order's accuracy keeps improving.", "Sec. 4.2, Fig. 4", "new-sizes", grows("first order"), FIG4),
    Claim("As D+ grows, Monte Carlo is worse than the baseline.", "Sec. 4.2, Fig. 4", "new-sizes", beats("baseline", "Monte Carlo"), FIG4),
    Claim("The update is better than first order whatever the dataset.", "Sec. 4.2, Fig. 4", "new-sizes", beats("second order", "first order"), FIG4),
    Claim("The update is better than Monte Carlo whatever the dataset.", "Sec. 4.2, Fig. 4", "new-sizes", beats("second order", "Monte Carlo"), FIG4),
    Claim("First order is less effective on datasets of many classes (than on DTD).", "Sec. 4.2, Fig. 4", "new-sizes", smaller_share("first order", "dtd"), ("banking77", "clinc150")),
    Claim("All updates are faster than retraining, at |D| = 10, 100 and 1,000.", "Sec. 4.2, Fig. 5", "speed-up", both(slowest(RECIPE, UPDATES), slowest(TORCH, UPDATES)), CIFAR10),
    Claim("First order is the fastest: faster than second order.", "Sec. 4.2, Fig. 5", "speed-up", speed(FAST, "first order", "second order", within(1.0)), CIFAR10),
    Claim("At |D| = 1,000 the fastest update, first order, is about 1,700 times faster than retraining (850 to 3,400).", "Sec. 4.2, Fig. 5", "speed-up", both(speed(TORCH, "first order", None, within(850.0, 3400.0)), speed(RECIPE, "first order", None, within(850.0, 3400.0))), CIFAR10),
    Claim("Second order's speed-up is similar to first order's (within a factor of two).", "Sec. 4.2, Fig. 5", "speed-up", speed(FAST, "second order", "first order", within(0.5, 2.0)), CIFAR10),
    Claim("Second order is significantly faster than Monte Carlo (twice at least).", "Sec. 4.2, Fig. 5", "speed-up", speed(FAST, "second order", "Monte Carlo", within(2.0)), CIFAR10),
    Claim("First order is significantly faster than Monte Carlo (twice at least).", "Sec. 4.2, Fig. 5", "speed-up", speed(FAST, "first order", "Monte Carlo", within(2.0)), CIFAR10),
    Claim("Margin with updates outperforms margin's top b.", "Sec. 5, Fig. 6", "batch-selection", beats("margin with updates", "margin"), ALL),
    Claim("Badge with updates outperforms Badge with k-means++.", "Sec. 5, Fig. 6", "batch-selection", beats("Badge with updates", "Badge"), ALL),
    Claim("Margin with updates improves on top b in early stages (the first half of the cycles).", "Sec. 5, Fig. 6", "batch-selection", leads_early("margin with updates", "margin"), ALL),
    Claim("Badge with updates improves on k-means++ in early stages (the first half of the cycles).", "Sec. 5, Fig. 6", "batch-selection", leads_early("Badge with updates", "Badge"), ALL),
    Claim("The optimal look-ahead consistently outperforms all competitors.", "Sec. 5, Fig. 7", "look-ahead", beats_all("optimal", RIVALS), ALL),
    Claim("The same with mixed batches scored by log loss, as in the authors' public code.", "public code", "look-ahead", beats_all("optimal, mixed batches", RIVALS), ALL),
    Claim("Typiclust is closer to the optimal look-ahead in early stages and falls behind in later ones.", "Sec. 5, Fig. 7", "look-ahead", falls_behind("Typiclust", "optimal"), ALL),
    Claim("Ours: look-ahead, given each label after its pick, outperforms all others, in mean accuracy over the curve.", "beyond", "look-ahead", beats_all("look-ahead", (*RIVALS, *WITH_UPDATES)), EVERYWHERE, also="batch-selection"),
    Claim("Ours: the exact update gains more accuracy than second order, on average over the stages.", "beyond", "stages", beats("exact", "second order"), EVERYWHERE),
    Claim("Ours: the exact update is closer to retraining in accuracy than second order.", "beyond", "stages", closer("exact", "second order", "retraining"), EVERYWHERE),
    Claim("Ours: the exact update, too, is faster than training to the optimum at |D| = 1,000.", "beyond", "speed-up", speed(FAST, "exact", None, within(1.0)), EVERYWHERE),
]  # fmt: skip
