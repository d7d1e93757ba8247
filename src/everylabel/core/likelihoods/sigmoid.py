"""The sigmoid in place of the softmax: each class is present or absent independently of the others.

n instances, k classes; p = 1 / (1 + e^-f), the loss of an answer t is -t log p - (1 - t) log(1 - p).
Answers (n, k) are 1, 0 or NaN. NaN means no answer and has weight 0.
The curvature and the covariance are those of `shared` or `per_class`.
"""

from typing import Any

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, float64
from everylabel.core.checks import check_answers
from everylabel.core.likelihoods.likelihood import Likelihood


class Sigmoid(Likelihood):
    """A likelihood whose classes do not compete."""

    coupled = False

    def link(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        xp = array_namespace(logits)
        small = xp.exp(-xp.abs(logits))  # never above 1, so nothing overflows
        return xp.where(logits >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


class Answers(Sigmoid):
    """Several classes per instance: labels are answers (n, k)."""

    def check(self, labels: Any, n: int, k: int, like: Array, name: str = "labels") -> Float[Array, "n k"]:
        return check_answers(labels, n, k, like, name)

    def counts(self, labels: Float[Array, "n k"], weights: Float[Array, " n"]) -> Float[Array, "n k"]:
        xp = array_namespace(labels)
        return xp.where(xp.isnan(labels), 0.0 * weights[:, None], weights[:, None])

    def targets(self, labels: Float[Array, "n k"], k: int) -> Float[Array, "n k"]:
        """Return the answers, with 0 (of weight 0) where there is none."""
        return float64(labels > 0.0)
