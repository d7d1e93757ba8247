"""The paper's update: one Gauss-Newton step, then the covariance at the new mean (Eqs. 5-7, App. C).

D+ the b new labels, d features, k classes; h_x features, e_y one-hot labels, w_x weights.
    p_x = link(h_x' mu),  H(mu) = Sigma^-1 + sum_x w_x q_x h_x h_x',  q_x the curvature at mu
    mu_upd    = mu - step_size H(mu)^-1 sum_x w_x h_x (p_x - e_y)'        Eq. 5
    Sigma_upd = H(mu_upd)^-1                                             Eq. 6
One by one, each label's residual is taken at the mean after the previous label; jointly, all residuals are
taken at the old mean. The covariances are equal if the curvature is constant (Gaussian likelihood).
Departure: the printed multi-class residual has p* = max_c p_c for every class. The gradient of the log
likelihood needs each class's own probability.
"""

from typing import NamedTuple

from everylabel.core.arrays import Array, as_columns, eye
from everylabel.core.kernel import add_outer, one_by_one
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances, apply_cov, condition_many
from everylabel.core.likelihoods.shared import SharedCovariance
from everylabel.core.posterior import Labelled, Posterior

DEFAULT_STEP = 10.0  # Sec. 4.2: "we will be using gamma = 10 in all subsequent experiments"
NEWTON_STEP = 1.0  # with curvatures below the Gaussian's 1, a step of 10 overshoots (docs/maths.md, 11)
SWEEP = 64  # labels that are learned with one pass over the covariance


class _Targets(NamedTuple):
    """New instances with their labels as target probabilities, and weights."""

    features: Array  # (b, d)
    targets: Array  # (b, k) e_y
    weights: Array  # (b,), or (b, k) where an instance counts for some classes only


def second_order(posterior: Posterior, new: Labelled, step_size: float, joint: bool) -> Posterior:
    """Return the posterior after new labels, one step for each or (`joint`) one step for all."""
    n, d = new.features.shape
    kind = LIKELIHOODS[posterior.likelihood]
    targets = kind.targets(new.labels, posterior.mean.shape[1])
    whole = _Targets(new.features, targets, kind.counts(new.labels, new.weights))
    if joint and n > d:
        return _joint(posterior, whole, step_size)
    if joint or n == 1:
        return _step(posterior, whole, step_size)
    shared = isinstance(kind, SharedCovariance)
    at_once = SWEEP if shared else 1
    for start in range(0, n, at_once):
        some = _Targets(*(part[start : min(start + at_once, n), ...] for part in whole))
        posterior = _sweep(posterior, some, step_size) if shared else _step(posterior, some, step_size)
    return posterior


def _step(posterior: Posterior, new: _Targets, step_size: float) -> Posterior:
    kind = LIKELIHOODS[posterior.likelihood]
    at = Instances(new.features, kind.link(new.features @ posterior.mean), new.weights)
    seen = kind.project(posterior, at)
    residual = as_columns(new.weights) * (at.probs - new.targets)
    mean = posterior.mean - step_size * kind.direction(posterior, seen, residual)
    at = at._replace(probs=kind.link(new.features @ mean))  # Eq. 6 takes the curvature at the new mean
    return kind.condition(posterior.replace(mean=mean), seen._replace(at=at), 1)


def _joint(posterior: Posterior, new: _Targets, step_size: float) -> Posterior:
    """Return the result of `_step` for more labels than features, without a b x b system."""
    kind = LIKELIHOODS[posterior.likelihood]
    at = Instances(new.features, kind.link(new.features @ posterior.mean), new.weights)
    gradient = new.features.T @ (as_columns(new.weights) * (at.probs - new.targets))
    here = condition_many(kind, posterior, at, 1)
    units = eye(gradient.shape[0], gradient)  # the gradient as d unit rows, in place of b instances
    mean = posterior.mean - step_size * apply_cov(kind, here, units, gradient)
    at = at._replace(probs=kind.link(new.features @ mean))
    return condition_many(kind, posterior.replace(mean=mean), at, 1)


def _sweep(posterior: Posterior, new: _Targets, step_size: float) -> Posterior:
    """Return the result of `_step` label by label, with one pass over a shared covariance."""
    kind = LIKELIHOODS[posterior.likelihood]
    assert isinstance(kind, SharedCovariance)
    cov_h = posterior.cov @ new.features.T
    gram, logits = new.features @ cov_h, new.features @ posterior.mean
    learned = one_by_one(gram, logits, new.targets, new.weights, step_size, kind.link, kind.curvature)
    return posterior.replace(
        mean=posterior.mean - cov_h @ learned.weights, cov=add_outer(posterior.cov, cov_h @ learned.root, -1)
    )
