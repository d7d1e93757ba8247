"""The Woodbury identity: a covariance conditioned on b instances without inverting it (Eq. 7, App. D).

    cov (..., d, d);  J (b, d) the instances;  cov_h = cov J' (..., d, b);  gram = J cov J' (..., b, b)
    root (..., b, b) R with R R' the curvature of the b instances
Invariant: inv(result) == inv(cov) + sign * J' R R' J
Departure: Eq. 7 sums rank-one terms that all start from the same cov. That is exact for b = 1
only; from a few instances on it is no longer positive definite. We solve the b x b system.
"""

from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Float

from everylabel.core.arrays import Array, eye
from everylabel.core.errors import EverylabelError


def condition_cov(
    cov: Float[Array, "... d d"],
    cov_h: Float[Array, "... d b"],
    gram: Float[Array, "... b b"],
    root: Float[Array, "... b b"],
    sign: int,
) -> Float[Array, "... d d"]:
    """Return inv(inv(cov) + sign * J' R R' J); symmetric, since it is written as cov -/+ A'A."""
    xp: Any = array_namespace(cov)
    root_t = xp.matrix_transpose(root)
    system = eye(root.shape[-1], cov) + sign * (root_t @ gram @ root)
    factor = cholesky_or_none(system)
    if factor is None:
        raise _impossible(sign)
    halves = xp.linalg.solve(factor, root_t @ xp.matrix_transpose(cov_h))
    return add_outer(cov, xp.matrix_transpose(halves), -sign)


def add_outer(cov: Float[Array, "... d d"], a: Float[Array, "... d b"], sign: int) -> Float[Array, "... d d"]:
    """Return cov + sign * A A', symmetric to the last bit."""
    xp: Any = array_namespace(cov)
    product = a @ xp.matrix_transpose(a)
    result = product + xp.matrix_transpose(product)
    result *= 0.5 * sign
    result += cov
    return result


def condition_cov_one(
    cov: Float[Array, "d d"], cov_h: Float[Array, " d"], variance: float, curvature: float, sign: int
) -> Float[Array, "d d"]:
    """Return `condition_cov` for one instance (Sherman-Morrison), the hot path of labelling."""
    scale = 1.0 + sign * curvature * variance
    if not 0.0 < scale < float("inf"):
        raise _impossible(sign)
    half = cov_h * (curvature / scale) ** 0.5
    result = (-sign * half)[:, None] * half[None, :]  # half_i half_j: symmetric as it stands
    result += cov
    return result


def gauss_newton(
    cov_h: Float[Array, "... d b"],
    gram: Float[Array, "... b b"],
    curvature: Float[Array, "... b b"],
    residual: Float[Array, "... b r"],
) -> Float[Array, "... d r"]:
    """Return (cov^-1 + J' C J)^-1 J' R, written as cov J' (I + C J cov J')^-1 R (Eq. 5)."""
    xp: Any = array_namespace(cov_h)
    return cov_h @ xp.linalg.solve(eye(gram.shape[-1], gram) + curvature @ gram, residual)


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
    """Return the error for a covariance that cannot be."""
    if sign < 0:
        return not_learned()
    return EverylabelError(
        "features are too large for the posterior's covariance in double precision; "
        "scale them to a norm of about 10 first"
    )


def not_learned() -> EverylabelError:
    """Return the error for taking back what was never learned."""
    return EverylabelError(
        "features cannot be taken back: the covariance does not hold that much curvature there; expected "
        "features (and weights) that were given to laplace or update before, the latest first"
    )
