"""The Gauss-Newton and Woodbury steps (Eqs. 5-7, App. D), in the space of b new instances.

X (b, d) holds the instances, one per row. Of a posterior with one covariance only these parts are needed:
    gram G = X cov X' (..., b, b);  logits F = X mean (..., b, k);  cov_h = cov X' (..., d, b)
g_i is column i of G. A label y at instance i has the curvature q and the residual r = p_i - e_y. It changes
    F -= step/(1 + q g_ii) g_i r'        G -= q/(1 + q g_ii) g_i g_i'        cov_h the same, column i for g_i
One by one this is repeated, with q and r at the mean after the previous labels. Jointly, with Q = diag(q) and
the residuals R (b, k), it is
    F -= step G (I + Q G)^-1 R           inv(cov) += X' Q X
No step touches a d x d matrix. Everything is batched over leading axes; sign = -1 takes instances back.
Departure: Eq. 7 sums rank-one terms that all start from the same cov. That is exact for b = 1 only; from two
instances on the result need not be positive definite. We solve the b x b system.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, eye
from everylabel.core.errors import EverylabelError

LEAST = 1e-12  # lower bound of 1 - q g_ii, for an instance that holds nearly all information in its direction


class Learned(NamedTuple):
    """The effect of b labels: mean -= cov_h weights, cov -= (cov_h root)(cov_h root)'."""

    weights: Array  # (..., b, k)
    root: Array  # (..., b, b)


def one_by_one(
    gram: Float[Array, "*n b b"],
    logits: Float[Array, "*n b k"],
    targets: Float[Array, "*n b k"],
    weights: Float[Array, "b ..."],
    step_size: float,
    link: Callable[[Array], Array],
    curvature: Callable[[Array, Array], Array],
) -> Learned:
    """Learn labels one by one under a shared covariance and return their joint effect.

    `link` and `curvature` are those of the likelihood. `seen` holds the rows of G of labels to learn, and
    the rows of T (b, b) of learned labels. T starts as the identity and takes the same steps as G, so that
    column i of cov_h T is cov h_i just before label i.
    """
    xp: Any = array_namespace(gram)
    b, seen, units = gram.shape[-1], xp.asarray(gram, copy=True), eye(gram.shape[-1], gram)
    steps, taken = xp.zeros_like(logits), xp.zeros_like(gram[..., 0])
    for i in range(b):
        variance, weight = seen[..., i, i], weights[i]
        f = logits[..., i, :] - (seen[..., i : i + 1, :i] @ steps[..., :i, :])[..., 0, :]
        probs = link(f)
        gain = step_size / (1.0 + curvature(probs, weight) * variance)
        steps[..., i, :] = gain[..., None] * (weight * (probs - targets[..., i, :]))  # Eq. 5
        after = link(f - variance[..., None] * steps[..., i, :])
        taken[..., i] = shrinkage(variance, curvature(after, weight))  # Eq. 6: at the new mean
        row = taken[..., i, None] * seen[..., i, i + 1 :]
        seen[..., i, :] = units[i, :]
        seen[..., i + 1 :] -= seen[..., i, None] * row[..., None, :]  # Eq. 7
    return Learned(seen @ steps, seen * xp.sqrt(taken)[..., None, :])


def jointly(
    gram: Float[Array, "... b b"], curvature: Float[Array, "... b b"], residual: Float[Array, "... b r"]
) -> Float[Array, "... b r"]:
    """Return (I + Q G)^-1 R: cov_h times it is (cov^-1 + X' Q X)^-1 X' R, the direction of Eq. 5."""
    xp: Any = array_namespace(gram)
    return xp.linalg.solve(eye(gram.shape[-1], gram) + curvature @ gram, residual)


def shrinkage(
    variance: Float[Array, "*n"], curvature: Float[Array, "*n"], sign: int = 1
) -> Float[Array, "*n"]:
    """Return sign q / (1 + sign q g_ii): the multiple of g_i g_i' that instance i takes off G (Eq. 7)."""
    scale = 1.0 + sign * curvature * variance
    return sign * curvature / (scale if sign > 0 else array_namespace(scale).clip(scale, LEAST, None))


def condition_seen(
    seen: Float[Array, "*n r b"], i: int, column: Float[Array, "*n b"], taken: Float[Array, "*n"]
) -> Float[Array, "*n r b"]:
    """Return Z = A cov X', for any A, after instance i was learned: Z - taken z_i g_i' (Eq. 7).

    taken : `shrinkage` of instance i; column : g_i
    """
    return seen - (taken[..., None] * seen[..., i])[..., None] * column[..., None, :]


def condition_cov(
    cov: Float[Array, "... d d"],
    cov_h: Float[Array, "... d b"],
    gram: Float[Array, "... b b"],
    root: Float[Array, "... b b"],
    sign: int,
) -> Float[Array, "... d d"]:
    """Return inv(inv(cov) + sign X' Q X) with Q = root root'; symmetric, since it is cov -/+ A'A."""
    xp: Any = array_namespace(cov)
    root_t = xp.matrix_transpose(root)
    system = eye(root.shape[-1], cov) + sign * (root_t @ gram @ root)
    factor = cholesky_or_none(system)
    if factor is None:
        raise _impossible(sign)
    halves = xp.linalg.solve(factor, root_t @ xp.matrix_transpose(cov_h))
    return add_outer(cov, xp.matrix_transpose(halves), -sign)


def condition_cov_one(
    cov: Float[Array, "d d"], cov_h: Float[Array, " d"], variance: float, curvature: float, sign: int
) -> Float[Array, "d d"]:
    """Return `condition_cov` for one instance (Sherman-Morrison), the hot path of labelling."""
    scale = 1.0 + sign * curvature * variance
    if not 0.0 < scale < float("inf"):
        raise _impossible(sign)
    half = cov_h * (curvature / scale) ** 0.5
    result = (-sign * half)[:, None] * half[None, :]  # half_i half_j: exactly symmetric
    result += cov
    return result


def add_outer(cov: Float[Array, "... d d"], a: Float[Array, "... d b"], sign: int) -> Float[Array, "... d d"]:
    """Return cov + sign * A A', symmetric to the last bit."""
    xp: Any = array_namespace(cov)
    product = a @ xp.matrix_transpose(a)
    if type(product) is np.ndarray and product.ndim == 2:  # BLAS computes one half and mirrors it
        return np.add(cov, product, out=product) if sign > 0 else np.subtract(cov, product, out=product)
    result = product + xp.matrix_transpose(product)
    result *= 0.5 * sign
    result += cov
    return result


def inverse_of_precision(precision: Float[Array, "... d d"]) -> Float[Array, "... d d"]:
    """Return the exactly symmetric inverse of a precision matrix (or of a stack of them)."""
    xp: Any = array_namespace(precision)
    try:
        inverse = xp.linalg.inv(precision)
    except Exception as error:  # every library has a LinAlgError of its own
        if "LinAlgError" not in type(error).__name__:
            raise
        inverse = float("nan") * precision
    if not bool(xp.all(xp.isfinite(inverse))):
        raise EverylabelError(
            "features and prior_precision give a precision matrix that has no inverse in double precision; "
            "scale the features to a norm of about 10, or raise prior_precision"
        )
    return 0.5 * (inverse + xp.matrix_transpose(inverse))


def cholesky_or_none(matrix: Float[Array, "... d d"]) -> Array | None:
    """Return the lower Cholesky factor, or None if the matrix is not positive definite."""
    xp: Any = array_namespace(matrix)
    try:
        factor = xp.linalg.cholesky(matrix)
    except Exception as error:  # every library has a LinAlgError of its own
        if "LinAlgError" in type(error).__name__:
            return None
        raise
    return factor if bool(xp.all(xp.isfinite(factor))) else None


def _impossible(sign: int) -> EverylabelError:
    """Return the error for a covariance that is not positive definite."""
    if sign < 0:
        return not_learned()
    return EverylabelError(
        "features are too large for the posterior's covariance in double precision; "
        "scale them to a norm of about 10 first"
    )


def not_learned() -> EverylabelError:
    """Return the error for taking back an instance that was never learned."""
    return EverylabelError(
        "features cannot be taken back: the covariance does not hold that much curvature there; expected "
        "features (and weights) that were given to laplace or update before, the latest first"
    )
