"""The paper's claims, each beside what we measured: holds, does not hold, or not tested and why.

A claim about an average holds if the mean over datasets is on its side by more than one standard
error in most datasets; each check says which datasets disagree.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from everylabel.experiments.results import Row
from everylabel.experiments.summary import curve_mean, curves, datasets_of, estimate, paired

Rows = dict[str, list[Row]]  # by experiment


class Verdict(NamedTuple):
    """What we found of one claim."""

    claim: str
    where: str
    verdict: str  # "holds", "does not hold", "mixed", "not tested"
    found: str


class Claim(NamedTuple):
    """A sentence of the paper and how to look it up in the results."""

    text: str
    where: str
    experiment: str
    check: Callable[[list[Row]], tuple[str, str]]


def judge(rows: Rows) -> list[Verdict]:
    """Return a verdict for every claim."""
    verdicts = []
    for claim in CLAIMS:
        found = rows.get(claim.experiment, [])
        verdict, text = claim.check(found) if found else ("not tested", f"no results of {claim.experiment}")
        verdicts.append(Verdict(claim.text, claim.where, verdict, text))
    return verdicts


def _tally(differences: dict[str, tuple[float, float]], unit: float = 100.0) -> tuple[str, str]:
    """Return a verdict from one difference (mean, error) a dataset: positive is the claim's side."""
    for_it = [d for d, (mean, error) in differences.items() if mean > max(error, 0.0)]
    against = [d for d, (mean, error) in differences.items() if mean < -max(error, 0.0)]
    text = "; ".join(f"{d} {unit * m:+.1f} ± {unit * e:.1f}" for d, (m, e) in differences.items())
    if any(error != error for _, error in differences.values()):
        return "not tested", f"{text}: one repetition decides nothing"
    if for_it and not against:
        undecided = len(differences) - len(for_it)
        return ("holds" if undecided <= len(for_it) else "mixed"), text
    return ("does not hold" if not for_it else "mixed"), text


def _beats(better: str, worse: str) -> Callable[[list[Row]], tuple[str, str]]:
    """Claim: one variant's curve lies above another's, in points of accuracy."""

    def check(rows: list[Row]) -> tuple[str, str]:
        differences = {}
        for dataset in datasets_of(rows):
            gap = curve_mean(rows, "accuracy", dataset, better, worse)
            if gap.n:
                differences[dataset] = (gap.mean, gap.error)
        return _tally(differences) if differences else ("not tested", f"no results of {better} or {worse}")

    return check


def _early(better: str, worse: str) -> Callable[[list[Row]], tuple[str, str]]:
    """Claim: the lead is larger in the first half of the curve than in the second."""

    def check(rows: list[Row]) -> tuple[str, str]:
        differences = {}
        for dataset in datasets_of(rows):
            gaps = [e.mean for e in paired(rows, "accuracy", dataset, better, worse).values()][1:]
            half = len(gaps) // 2
            if half:
                lead = float(np.mean(gaps[:half]) - np.mean(gaps[half:]))
                differences[dataset] = (lead, 0.0)
        return _tally(differences)

    return check


def _beats_all(better: str, others: tuple[str, ...]) -> Callable[[list[Row]], tuple[str, str]]:
    """Claim: one variant beats the best of the others everywhere."""

    def check(rows: list[Row]) -> tuple[str, str]:
        differences = {}
        for dataset in datasets_of(rows):
            rivals = {o: curve_mean(rows, "accuracy", dataset, better, o) for o in others}
            rivals = {o: gap for o, gap in rivals.items() if gap.n}
            if rivals:
                name, gap = min(rivals.items(), key=lambda item: item[1].mean)
                differences[f"{dataset} (over {name})"] = (gap.mean, gap.error)
        return _tally(differences) if differences else ("not tested", f"no results of {better}")

    return check


def _close_step(rows: list[Row]) -> tuple[str, str]:
    """Claim: step 10 comes closer to retraining than step 1."""
    differences = {}
    for dataset in datasets_of(rows):
        gap = curve_mean(rows, "accuracy", dataset, "second order, 10", "second order, 1")
        differences[dataset] = (gap.mean, gap.error)
    return _tally(differences)


def _late_harm(variant: str) -> Callable[[list[Row]], tuple[str, str]]:
    """Claim: an update makes the model worse than the baseline from |D| = 100 on."""

    def check(rows: list[Row]) -> tuple[str, str]:
        differences = {}
        for dataset in datasets_of(rows):
            gaps = [e for x, e in paired(rows, "accuracy", dataset, variant, "baseline").items() if x >= 100]
            if gaps:
                pooled = estimate(e.mean for e in gaps)
                differences[dataset] = (-pooled.mean, max(e.error for e in gaps))
        return _tally(differences)

    return check


def _faster(rows: list[Row]) -> tuple[str, str]:
    """Claim: about 1,700 times faster than retraining at |D| = 1000."""
    found, best = [], 0.0
    for dataset in datasets_of(rows):
        for metric in ("speed-up over recipe", "speed-up over fast"):
            at = curves(rows, metric, dataset).get("second order", {}).get(1000.0)
            if at is not None:
                found.append(f"{dataset}, {metric}: {at.mean:,.0f}x")
                best = max(best, at.mean)
    return ("holds" if best >= 1700 else "does not hold"), "; ".join(found)


CLAIMS = [
    Claim("The update consistently achieves better performance than the baseline (|D| = 50).", "Sec. 4.2", "step-size", _beats("second order, 10", "baseline")),
    Claim("Updating with step 1 is too weak; with 10, accuracies are much closer to retraining.", "Sec. 4.2", "step-size", _close_step),
    Claim("A very high step, 30, can lead to worse performance than 10.", "Sec. 4.2", "step-size", _beats("second order, 10", "second order, 30")),
    Claim("Second order gives higher accuracy improvements than first order at all learning stages.", "Sec. 4.2", "stages", _beats("second order", "first order")),
    Claim("Second order gives higher accuracy improvements than Monte Carlo at all learning stages.", "Sec. 4.2", "stages", _beats("second order", "Monte Carlo")),
    Claim("First-order updates deteriorate accuracy in later stages.", "Sec. 4.2", "stages", _late_harm("first order")),
    Claim("Monte Carlo updates deteriorate accuracy in later stages.", "Sec. 4.2", "stages", _late_harm("Monte Carlo")),
    Claim("As D+ grows, second order stays better than first order.", "Sec. 4.2", "new-sizes", _beats("second order", "first order")),
    Claim("As D+ grows, Monte Carlo is worse than the baseline.", "Sec. 4.2", "new-sizes", _beats("baseline", "Monte Carlo")),
    Claim("At |D| = 1000 an update is about 1,700 times faster than retraining.", "Sec. 4.2", "speed-up", _faster),
    Claim("Margin with updates outperforms margin top-b.", "Sec. 5", "batch-selection", _beats("margin with updates", "margin")),
    Claim("Badge with updates outperforms Badge.", "Sec. 5", "batch-selection", _beats("Badge with updates", "Badge")),
    Claim("The improvement shows in early stages, when redundancy within a batch matters.", "Sec. 5", "batch-selection", _early("margin with updates", "margin")),
    Claim("The optimal look-ahead consistently outperforms all competitors.", "Sec. 5", "look-ahead", _beats_all("optimal", ("random", "margin", "Badge", "Typiclust"))),
    Claim("Typiclust declines in later stages against the optimal look-ahead.", "Sec. 5", "look-ahead", _early("Typiclust", "optimal")),
    Claim("Ours: look-ahead without an oracle outperforms random, margin, Badge and Typiclust.", "beyond", "look-ahead", _beats_all("look-ahead", ("random", "margin", "Badge", "Typiclust"))),
    Claim("Ours: the exact update is closer to retraining than second order in accuracy.", "beyond", "stages", _beats("exact", "second order")),
]  # fmt: skip
