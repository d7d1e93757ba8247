"""The paper's sentences, each beside how it is checked and the datasets it speaks of.

A claim is judged over the datasets that its sentence or figure shows; where none of them is at hand it is
not tested. All others are shown after them and do not count.
"""

from typing import NamedTuple

from everylabel.experiments.reporting.checks import (
    UNMEASURED,
    Check,
    beats,
    beats_all,
    both,
    closer,
    falls_behind,
    grows,
    leads_early,
    no_worse,
    nothing_helps,
    slowest,
    smaller_share,
    speed,
    tally,
    within,
)
from everylabel.experiments.results import Row

Rows = dict[str, list[Row]]  # by experiment


class Claim(NamedTuple):
    """A sentence of the paper, how to look it up, and what it speaks of."""

    text: str
    where: str
    experiment: str
    check: Check
    spoken_of: tuple[str, ...] | None  # datasets; None: all
    can: bool = False  # only says that something can happen
    also: str = ""  # an experiment whose rows are needed, too


class Verdict(NamedTuple):
    """What we found of one claim."""

    number: str
    claim: str
    where: str
    verdict: str  # "holds", "does not hold", "mixed", "undecided", "not tested"
    found: str


def judge(rows: Rows) -> list[Verdict]:
    """Return a verdict for every claim."""
    verdicts = []
    for i, claim in enumerate(CLAIMS, start=1):
        found = rows.get(claim.experiment, []) + rows.get(claim.also, [])
        verdict, text = (
            tally(claim.check(found), claim.spoken_of, claim.can) if found else ("not tested", UNMEASURED)
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
    Claim("The same if its batches are mixed and scored by log loss, as the authors' public code has it.", "public code", "look-ahead", beats_all("optimal, mixed batches", RIVALS), ALL),
    Claim("Typiclust is closer to the optimal look-ahead in early stages and falls behind in later ones.", "Sec. 5, Fig. 7", "look-ahead", falls_behind("Typiclust", "optimal"), ALL),
    Claim("Ours: look-ahead, told each label after its pick, outperforms all others, in mean accuracy over the curve.", "beyond", "look-ahead", beats_all("look-ahead", (*RIVALS, *WITH_UPDATES)), EVERYWHERE, also="batch-selection"),
    Claim("Ours: the exact update gains more accuracy than second order, on average over the stages.", "beyond", "stages", beats("exact", "second order"), EVERYWHERE),
    Claim("Ours: the exact update is closer to retraining in accuracy than second order.", "beyond", "stages", closer("exact", "second order", "retraining"), EVERYWHERE),
    Claim("Ours: the exact update, too, is faster than training to the optimum at |D| = 1,000.", "beyond", "speed-up", speed(FAST, "exact", None, within(1.0)), EVERYWHERE),
]  # fmt: skip
