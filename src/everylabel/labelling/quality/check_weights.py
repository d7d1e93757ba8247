"""Weights of random checks, which undo that some class was tested more than others.

n checks drawn from all that is free, and n_c more among what was predicted as c, which is a share s_c of it.
Together they are as many of c as n s_c + n_c draws would give, where chance alone gives n s_c; so each of
them, whichever way it was drawn, has the weight (the balance heuristic, Veach & Guibas 1995)
    m = n s_c / (n s_c + n_c)
and 1 if no more were drawn of its class.
"""

from collections import defaultdict
from collections.abc import Sequence

from everylabel.labelling.state.types import Check


def check_weights(checks: Sequence[Check]) -> dict[int, float]:
    """Return a weight for the item of each check."""
    n = sum(check.among is None for check in checks)
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for check in checks:
        if check.among is not None:
            shares[check.among].append(check.share)
    weight = {c: _weight(n * sum(some) / len(some), len(some)) for c, some in shares.items()}
    said = ((check, check.guess if check.among is None else check.among) for check in checks)
    return {check.item: weight.get(guess, 1.0) for check, guess in said}


def _weight(by_chance: float, more: int) -> float:
    return by_chance / (by_chance + more)
