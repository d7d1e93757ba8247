"""One covariance shared by all classes: "gaussian", "categorical" (App. C), "binary" (Sec. 3.2), "bernoulli".

b new points, d features, k classes.
    Sigma^-1 = prior_precision I + sum_x w_x q_x h_x h_x'         with q_x the curvature:
    gaussian     q = 1               App. C, the paper's default
    categorical  q = p*(1 - p*)      App. C, the upper bound of Liu et al. (2022); p* = max_y p_y
    binary       q = p(1 - p)        Sec. 3.2, sigmoid instead of softmax
    bernoulli    w q = max_y w_y p_y (1 - p_y)     several classes per item: the bound of "categorical" for k
                                     sigmoids; w_y = 0 for a class that was not answered
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float, Int

from everylabel.core.arrays import Array, array_namespace, eye
from everylabel.core.kernel import (
    condition_cov,
    condition_cov_one,
    inverse_of_precision,
    jointly,
)
from everylabel.core.likelihoods.likelihood import Instances, Likelihood, Projection
from everylabel.core.likelihoods.sigmoid import Answers, Sigmoid
from everylabel.core.posterior import Posterior


class SharedCovariance(Likelihood):
    """A likelihood whose curvature is one number per instance, the same for all classes."""

    def __init__(self, bound: Callable[[Array], Array]) -> None:
        self.bound = bound

    def curvature(self, probs: Float[Array, "*b k"], weights: Any = 1.0) -> Float[Array, "*b"]:
        """Return w_x q_x."""
        return weights * self.bound(probs)

    def fit(self, at: Instances, prior_precision: float) -> dict[str, Array]:
        added = (at.features.T * self.curvature(at.probs, at.weights)) @ at.features
        return {"cov": inverse_of_precision(prior_precision * eye(added.shape[0], added) + added)}

    def direction(
        self, posterior: Posterior, seen: Projection, residual: Float[Array, "b k"]
    ) -> Float[Array, "d k"]:
        curvature = self.curvature(seen.at.probs, seen.at.weights)
        if residual.shape[0] == 1:
            # Sigma_upd h = Sigma h / (1 + q h' Sigma h), App. D
            return seen.cov_h * (residual / (1.0 + curvature[0] * seen.gram[0, 0]))
        return seen.cov_h @ jointly(seen.gram, diagonal(curvature), residual)

    def condition(self, posterior: Posterior, seen: Projection, sign: int) -> Posterior:
        curvature = self.curvature(seen.at.probs, seen.at.weights)
        if curvature.shape[0] == 1:
            variance, at = float(seen.gram[0, 0]), float(curvature[0])
            cov = condition_cov_one(posterior.cov, seen.cov_h[:, 0], variance, at, sign)
        else:
            root = diagonal(array_namespace(curvature).sqrt(curvature))
            cov = condition_cov(posterior.cov, seen.cov_h, seen.gram, root, sign)
        return posterior.replace(cov=cov)

    def logit_cov(self, posterior: Posterior, features: Float[Array, "n d"]) -> Float[Array, "n 1"]:
        xp = array_namespace(features)
        return xp.sum((features @ posterior.cov) * features, axis=1, keepdims=True)

    def sample(self, posterior: Posterior, noise: Float[Array, "m d k"]) -> Float[Array, "m d k"]:
        xp = array_namespace(noise)
        m, d, k = noise.shape
        root = xp.astype(xp.linalg.cholesky(posterior.cov), noise.dtype)
        flat = root @ xp.reshape(xp.permute_dims(noise, (1, 0, 2)), (d, m * k))
        spread = xp.reshape(flat, (d, m, k))
        spread += xp.astype(posterior.mean, noise.dtype)[:, None, :]
        return xp.permute_dims(spread, (1, 0, 2))

    def extend(self, posterior: Posterior, n: int) -> dict[str, Array]:
        return {"cov": posterior.cov}  # shared, so it also holds for a new class


class Binary(Sigmoid, SharedCovariance):
    """Two classes with one weight vector and the sigmoid (Sec. 3.2)."""

    def targets(self, labels: Int[Array, " n"], k: int) -> Float[Array, "n k"]:
        xp = array_namespace(labels)
        return xp.astype(labels, xp.float64)[:, None]


class Bernoulli(Answers, SharedCovariance):
    """k sigmoids with one covariance, whose curvature is that of the class with the largest."""

    def curvature(self, probs: Float[Array, "*b k"], weights: Any = 1.0) -> Float[Array, "*b"]:
        if len(getattr(weights, "shape", ())) < len(probs.shape):  # one weight for all classes
            return weights * self.bound(probs)
        return array_namespace(probs).max(weights * probs * (1.0 - probs), axis=-1)


def diagonal(values: Float[Array, "*k b"]) -> Float[Array, "*k b b"]:
    """Return the diagonal matrix (or a stack of them) with these values."""
    return values[..., None] * eye(values.shape[-1], values)


def _constant(probs: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    xp = array_namespace(probs)
    return xp.ones_like(probs[..., 0])


def _upper_bound(probs: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    xp = array_namespace(probs)
    top = xp.max(probs, axis=-1)
    return top * (1.0 - top)


def _largest(probs: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    xp = array_namespace(probs)
    return xp.max(probs * (1.0 - probs), axis=-1)


gaussian = SharedCovariance(_constant)
categorical = SharedCovariance(_upper_bound)
binary = Binary(_largest)  # the largest curvature of one column
bernoulli = Bernoulli(_largest)
