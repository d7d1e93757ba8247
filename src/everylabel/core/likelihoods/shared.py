"""One covariance shared by all classes: "gaussian", "categorical" (App. C) and "binary" (Sec. 3.2).

b new points, d features, k classes.
    Sigma^-1 = prior_precision I + sum_x w_x c_x h_x h_x'         with c_x the curvature:
    gaussian     c = 1               App. C, the paper's default
    categorical  c = p*(1 - p*)      App. C, the upper bound of Liu et al. (2022); p* = max_y p_y
    binary       c = p(1 - p)        Sec. 3.2, sigmoid instead of softmax
"""

from collections.abc import Callable

from jaxtyping import Float, Int

from everylabel.core.arrays import Array, array_namespace, eye
from everylabel.core.kernel import (
    condition_cov,
    condition_cov_one,
    inverse_of_precision,
    jointly,
)
from everylabel.core.likelihoods.likelihood import Instances, Likelihood, Projection
from everylabel.core.posterior import Posterior


class SharedCovariance(Likelihood):
    """A likelihood whose curvature is one number an instance, whatever the class."""

    def __init__(self, curvature: Callable[[Array], Array]) -> None:
        self.curvature = curvature

    def fit(self, at: Instances, prior_precision: float) -> dict[str, Array]:
        added = (at.features.T * (at.weights * self.curvature(at.probs))) @ at.features
        return {"cov": inverse_of_precision(prior_precision * eye(added.shape[0], added) + added)}

    def direction(
        self, posterior: Posterior, seen: Projection, residual: Float[Array, "b k"]
    ) -> Float[Array, "d k"]:
        curvature = seen.at.weights * self.curvature(seen.at.probs)
        if residual.shape[0] == 1:
            # Sigma_upd h = Sigma h / (1 + c h' Sigma h), App. D
            return seen.cov_h * (residual / (1.0 + curvature[0] * seen.gram[0, 0]))
        return seen.cov_h @ jointly(seen.gram, diagonal(curvature), residual)

    def condition(self, posterior: Posterior, seen: Projection, sign: int) -> Posterior:
        curvature = seen.at.weights * self.curvature(seen.at.probs)
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
        return {"cov": posterior.cov}  # shared, so a new class has it already


class Binary(SharedCovariance):
    """Two classes with one weight vector and the sigmoid (Sec. 3.2)."""

    def link(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        xp = array_namespace(logits)
        small = xp.exp(-xp.abs(logits))  # never above 1, so nothing overflows
        return xp.where(logits >= 0, 1.0 / (1.0 + small), small / (1.0 + small))

    def targets(self, labels: Int[Array, " n"], k: int) -> Float[Array, "n k"]:
        xp = array_namespace(labels)
        return xp.astype(labels, xp.float64)[:, None]


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


def _bernoulli(probs: Float[Array, "*b 1"]) -> Float[Array, "*b"]:
    return probs[..., 0] * (1.0 - probs[..., 0])


gaussian = SharedCovariance(_constant)
categorical = SharedCovariance(_upper_bound)
binary = Binary(_bernoulli)
