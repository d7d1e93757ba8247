"""Probabilities from logits, over the last axis; shifted by the largest logit, so that nothing overflows.

softmax(f)_c = exp(f_c) / sum_j exp(f_j)          log_softmax(f) = f - logsumexp(f)
"""

import numpy as np
from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace


def softmax(logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """Return probabilities of the logits' own kind and precision."""
    if type(logits) is np.ndarray:  # what is asked most often: the same sums, and half of the calls
        raised = logits - np.maximum.reduce(logits, axis=-1, keepdims=True)
        np.exp(raised, out=raised)
        raised /= np.add.reduce(raised, axis=-1, keepdims=True)
        return raised
    xp = array_namespace(logits)
    grown = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return grown / xp.sum(grown, axis=-1, keepdims=True)


def log_softmax(logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """Return log probabilities, which no logits make underflow."""
    xp = array_namespace(logits)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
