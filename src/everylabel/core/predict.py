"""Predictive distributions (Eq. 1): at the mean, mean-field, probit, Monte Carlo.

n points, k classes; f (n, k) logits at the mean, s their variance.
    mean         link(f)
    mean_field   link(f / sqrt(1 + factor s)), factor = pi/8 (Lu et al., 2020); with sigmoid: probit
    monte_carlo  the average of link(f + noise)
A shared covariance gives one variance per instance, so mean-field changes the confidence of a prediction,
never which class wins.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from everylabel.core.arrays import CHUNK, Array, array_namespace, from_numpy, zeros
from everylabel.core.checks import (
    check_choice,
    check_count,
    check_features,
    check_positive,
    check_posterior,
    check_rng,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior
from everylabel.core.updates.monte_carlo import Samples, predict_samples

METHODS = ("mean_field", "mean", "probit", "monte_carlo")


def predict_proba(
    posterior: Posterior | Samples,
    features: Any,
    method: str | None = None,
    *,
    factor: float = math.pi / 8,
    n_samples: int = 1000,
    rng: np.random.Generator | None = None,
) -> Float[Array, "n k"]:
    """Return class probabilities (n, k); two columns for a binary posterior.

    Probabilities of a multi-label posterior need not sum to 1: each class has its own sigmoid.

    Parameters
    ----------
    posterior : Posterior or Samples
        Samples are always averaged.
    features : array (n, d)
        The instances, without a bias column.
    method : {"mean_field", "mean", "monte_carlo", "probit"}, optional
        How to average over the posterior. None is "mean_field"; "mean" ignores the uncertainty; "monte_carlo"
        averages draws of the logits; "probit" is mean-field with sigmoids.
    factor : float
        The constant of mean-field.
    n_samples, rng : int, numpy.random.Generator
        Number of draws of "monte_carlo", and their generator, which it needs.

    Examples
    --------
    >>> probs = el.predict_proba(post, x[1001:1004])
    >>> probs.argmax(axis=1), y[1001:1004]
    (array([4, 0, 5]), array([4, 0, 5]))
    """
    if isinstance(posterior, Samples):
        if method not in (None, "monte_carlo"):
            raise EverylabelError(f"method is {method!r}; samples are averaged: expected 'monte_carlo'")
        return predict_samples(
            posterior, check_features(features, posterior.members[0, :, :], posterior.bias)
        )
    posterior = check_posterior(posterior)
    method = check_choice("mean_field" if method is None else method, "method", METHODS)
    if method == "probit" and LIKELIHOODS[posterior.likelihood].coupled:
        raise EverylabelError(
            f"method is 'probit', which is for the sigmoids of 'binary' and 'bernoulli'; this posterior is "
            f"{posterior.likelihood!r}: expected 'mean_field'"
        )
    factor = check_positive(factor, "factor", zero=True)
    design = check_features(features, posterior.mean, posterior.bias)
    f = design @ posterior.mean
    kind = LIKELIHOODS[posterior.likelihood]
    if method == "mean":
        probs = kind.link(f)
    elif method == "monte_carlo":
        n_samples, rng = check_count(n_samples, "n_samples"), check_rng(rng)
        probs = _monte_carlo(posterior, design, f, n_samples, rng)
    else:
        xp = array_namespace(f)
        probs = kind.link(f / xp.sqrt(1.0 + factor * _variance(posterior, design)))
    if posterior.likelihood == "binary":
        return array_namespace(probs).concat([1.0 - probs, probs], axis=1)
    return probs


def logits(posterior: Posterior, features: Any) -> Float[Array, "n k"]:
    """Return the logits at the mean; for a binary posterior one column, that of the positive class.

    Examples
    --------
    >>> el.logits(post, x[1000:1003]).shape
    (3, 10)
    """
    posterior = check_posterior(posterior)
    return check_features(features, posterior.mean, posterior.bias) @ posterior.mean


def logit_variance(posterior: Posterior, features: Any) -> Float[Array, "n k"]:
    """Return the variance of each logit; a single column if all classes share it.

    Examples
    --------
    >>> el.logit_variance(post, x[1000:1003]).shape  # one for all classes: they share the covariance
    (3, 1)
    """
    posterior = check_posterior(posterior)
    return _variance(posterior, check_features(features, posterior.mean, posterior.bias))


def _variance(posterior: Posterior, design: Float[Array, "n d"]) -> Float[Array, "n k"]:
    xp = array_namespace(design)
    cov = LIKELIHOODS[posterior.likelihood].logit_cov(posterior, design)
    return xp.clip(cov if len(cov.shape) == 2 else xp.linalg.diagonal(cov), 0.0, None)


def _monte_carlo(
    posterior: Posterior,
    design: Float[Array, "n d"],
    f: Float[Array, "n k"],
    m: int,
    rng: np.random.Generator,
) -> Float[Array, "n k"]:
    xp = array_namespace(f)
    kind = LIKELIHOODS[posterior.likelihood]
    n, k = f.shape
    parts = []
    size = max(1, CHUNK // (m * k))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        root = _root(kind.logit_cov(posterior, design[rows, :]))
        noise = from_numpy(rng.standard_normal((root.shape[0], m, k)), f)
        spread = noise * root[:, None, :] if len(root.shape) == 2 else noise @ xp.matrix_transpose(root)
        drawn = f[rows, None, :] + spread
        probs = kind.link(xp.reshape(drawn, (-1, k)))
        parts.append(xp.mean(xp.reshape(probs, drawn.shape), axis=1))
    return xp.concat(parts) if parts else zeros((0, k), f)


def _root(cov: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Return standard deviations of variances (n, k), symmetric roots of covariances (n, k, k)."""
    xp = array_namespace(cov)
    if len(cov.shape) == 2:
        return xp.sqrt(xp.clip(cov, 0.0, None))
    values, vectors = xp.linalg.eigh(cov)
    half = vectors * xp.sqrt(xp.clip(values, 0.0, None))[:, None, :]
    return half @ xp.matrix_transpose(vectors)
