"""Margins of a pool too small for the compiled loops: class by class, each a pass over all instances.

logits (k, n), classes first. With first and second the two largest logits of an instance:
    p_first - p_second = (1 - e^(second - first)) / Z,  Z = sum_j e^(f_j - first)
"""

import numpy as np

from everylabel.selection.ranking import TIE


def margins(logits: np.ndarray) -> np.ndarray:
    """Return p_first - p_second (n,)."""
    first, second = two_largest(logits)
    total, part = np.zeros_like(first), np.empty_like(first)
    for row in logits:
        np.subtract(row, first, out=part)
        total += np.exp(part, out=part)
    return -np.expm1(second - first) / total


def narrowest(logits: np.ndarray, idx: np.ndarray) -> int:
    """Return the position in idx of the smallest margin; of ties, the lowest.

    With x = first - second, x/(1 + x)/k is a lower bound (see `loops.margins`): only where it is below the
    margin of the smallest x can another one win.
    """
    first, second = two_largest(logits)
    apart = (first - second)[idx]
    least = margins(logits[:, idx[[np.argmin(apart)]]])[0]
    near = np.flatnonzero(apart / ((1.0 + apart) * len(logits)) <= least + 2.0 * TIE)
    found = margins(logits[:, idx[near]])
    return int(near[np.argmax(found <= found.min() + TIE)])


def two_largest(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest and the second largest logit of each instance."""
    first, second = np.maximum(logits[0], logits[1]), np.minimum(logits[0], logits[1])
    low = np.empty_like(first)
    for row in logits[2:]:
        np.maximum(second, np.minimum(row, first, out=low), out=second)
        np.maximum(first, row, out=first)
    return first, second
