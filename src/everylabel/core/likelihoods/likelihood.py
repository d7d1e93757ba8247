"""The interface of a likelihood, on which every update, prediction and sample relies.

A likelihood defines the curvature of the loss at an instance, and with it the shape of the
covariance. It takes b instances at once, usually b = 1; residual (b, k) is w_x (p_x - e_y).
To add one: copy `per_class.py`, change its curvature, add a line to `likelihoods/__init__.py`.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from array_api_compat import device
from jaxtyping import Float, Int

from everylabel.core.arrays import Array, array_namespace, softmax
from everylabel.core.checks import check_labels
from everylabel.core.posterior import Posterior


class Instances(NamedTuple):
    """A batch of instances and the probabilities at which their curvature is taken."""

    features: Array  # (b, d) h_x
    probs: Array  # (b, k) p_x
    weights: Array  # (b,) w_x, or (b, k) where an instance counts for some classes only


class Projection(NamedTuple):
    """A posterior seen through b instances; computed once, used by both halves of an update."""

    at: Instances
    cov_h: Array  # Sigma h_x: (d, b), (k, d, b) or (k*d, b*k)
    gram: Array  # h_x' Sigma h_z for all pairs: (b, b), (k, b, b) or (b*k, b*k)


class Likelihood(ABC):
    """Base class of likelihoods: stateless, with the softmax as the default link."""

    coupled = True  # True: the probabilities of an instance sum to 1; False: each class has a sigmoid

    def check(self, labels: Any, n: int, k: int, like: Array, name: str = "labels") -> Array:
        """Check the labels of n instances and return them as an array of `like`'s library."""
        return check_labels(labels, n, k, like, name)

    def counts(self, labels: Array, weights: Float[Array, " n"]) -> Float[Array, "n ..."]:
        """Return the weight of each label: (n,), or (n, k) if each class is answered separately."""
        return weights

    def link(self, logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
        """Return the class probabilities of these logits."""
        return softmax(logits)

    def targets(self, labels: Int[Array, " n"], k: int) -> Float[Array, "n k"]:
        """Return labels as one-hot probabilities: e_y for each label y."""
        xp = array_namespace(labels)
        numbers = xp.arange(k, dtype=xp.int64, device=device(labels))
        return xp.astype(labels[:, None] == numbers[None, :], xp.float64)

    def project(self, posterior: Posterior, at: Instances) -> Projection:
        """Return the projection that both `direction` and `condition` need."""
        cov_h = posterior.cov @ at.features.T
        return Projection(at, cov_h, at.features @ cov_h)

    @abstractmethod
    def fit(self, at: Instances, prior_precision: float) -> dict[str, Array]:
        """Return the covariance fields of a posterior fitted on these instances."""

    @abstractmethod
    def direction(
        self, posterior: Posterior, seen: Projection, residual: Float[Array, "b k"]
    ) -> Float[Array, "d k"]:
        """Return H^-1 sum_x h_x residual_x', the Gauss-Newton direction of Eq. 5."""

    @abstractmethod
    def condition(self, posterior: Posterior, seen: Projection, sign: int) -> Posterior:
        """Return the posterior with the instances' curvature added (sign 1) or taken away (-1); Eq. 6."""

    @abstractmethod
    def logit_cov(self, posterior: Posterior, features: Float[Array, "n d"]) -> Float[Array, "n ..."]:
        """Return the logits' covariance (n, k, k), or variances (n, 1 or k) of independent classes."""

    @abstractmethod
    def sample(self, posterior: Posterior, noise: Float[Array, "m d k"]) -> Float[Array, "m d k"]:
        """Turn standard normal noise into weights drawn from the posterior."""

    @abstractmethod
    def extend(self, posterior: Posterior, n: int) -> dict[str, Array]:
        """Return the covariance fields with n more classes, at the prior."""


def apply_cov(
    kind: Likelihood, posterior: Posterior, features: Float[Array, "b d"], residual: Float[Array, "b k"]
) -> Float[Array, "d k"]:
    """Return Sigma sum_x h_x residual_x': the direction of Eq. 5 without the instances' own curvature."""
    flat = Instances(features, 0.0 * residual, 0.0 * residual[:, 0])
    return kind.direction(posterior, kind.project(posterior, flat), residual)


def condition_many(kind: Likelihood, posterior: Posterior, at: Instances, sign: int) -> Posterior:
    """Condition on any number of instances, d at a time, so that no n x n system is built."""
    n, at_once = at.features.shape
    for start in range(0, n, at_once):
        rows = slice(start, min(start + at_once, n))
        some = Instances(at.features[rows, :], at.probs[rows, :], at.weights[rows])
        posterior = kind.condition(posterior, kind.project(posterior, some), sign)
    return posterior
