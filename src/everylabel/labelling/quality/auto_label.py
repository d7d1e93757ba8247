"""Let the model finish: the probability above which at most so many of its labels are wrong.

Random checks tell. n of them, each left out in turn: g its largest probability, whether that class is wrong.
Of the surest checks, for a share of SHARES of all, n_s with w_s wrong: the share that is wrong among all
instances as sure as these is, by Clopper and Pearson (1934), at most
    u_s = the p at which P(Binomial(n_s, p) <= w_s) = (1 - confidence) / len(SHARES)
The largest s with u_s at most the rate that is asked for tells the threshold, the least g among its checks.
Each share is a test of its own, hence the division (Bonferroni): the promise holds whichever is taken. Checks
were drawn while more was free, hard ones that were chosen since among them: for what is left this is careful.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.labelling.quality.left_out import LeftOut
from everylabel.labelling.state.state import State

SHARES = (0.25, 0.5, 0.75, 1.0)


class Promise(NamedTuple):
    """What can be promised."""

    threshold: float | None  # probability from which on the model may label; None: nothing can be promised
    checks: int  # random checks as sure as that, or all there are
    wrong: int  # and how many of them the model would get wrong
    bound: float  # at most this share is wrong
    needed: int  # checks without an error that the least promise takes
    least: float = 1.0  # the smallest rate that can be promised by now; all shares' bounds hold together


def upper_bound(wrong: int, n: int, confidence: float) -> float:
    """Return the largest share that `wrong` of n speak not against, with a confidence (Clopper-Pearson)."""
    from scipy.special import betaincinv  # a tenth of a second that no start waits for

    return 1.0 if wrong >= n else float(betaincinv(wrong + 1, n - wrong, confidence))


def promise(checks: Sequence[LeftOut], rate: float, confidence: float) -> Promise:
    """Return from which probability on at most `rate` of the model's labels are wrong."""
    each = 1.0 - (1.0 - confidence) / len(SHARES)
    needed = int(np.ceil(np.log(1.0 - each) / np.log(1.0 - rate)))
    ranked = sorted(checks, key=lambda check: -check.sure)
    errors = np.cumsum([check.guess != check.label for check in ranked])
    sizes = [int(share * len(ranked)) for share in reversed(SHARES)]
    bounds = [upper_bound(int(errors[n - 1]), n, each) if n else 1.0 for n in sizes]
    least = min(bounds)
    for n, bound in zip(sizes, bounds, strict=True):
        if bound <= rate:
            return Promise(ranked[n - 1].sure, n, int(errors[n - 1]), bound, needed, least)
    wrong = int(errors[-1]) if ranked else 0
    return Promise(None, len(ranked), wrong, bounds[0], needed, least)


def standing(state: State, left_out: Mapping[int, LeftOut]) -> list[LeftOut]:
    """Return what the model says of each random check without its label, where it has looked."""
    drawn = (check.item for check in state.standing_checks() if check.among is None)
    known = (left_out.get(item) for item in drawn)
    return [each for each in known if each is not None]


def audit(state: State, confidence: float = 0.95) -> dict[str, Any] | None:
    """Return how many the model has labelled, and what people who looked at a sample of them found."""
    if not state.finished:
        return None
    seen = [item for item in state.audits if item in state.labels]
    wrong = sum(state.labels[item] != state.finished[item] for item in seen)
    bound = upper_bound(wrong, len(seen), confidence) if seen else None
    told = {"audit": len(state.audits), "audited": len(seen), "wrong": wrong, "bound": bound}
    return {"items": len(state.finished), **told}
