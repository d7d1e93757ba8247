"""A matrix normal: one covariance between features, one between classes (App. C, second option).

d features, k classes; Cov[vec W] = Gamma (x) Sigma, with Gamma (k, k) and Sigma (d, d).
The exact precision after an instance, Gamma^-1 (x) Sigma^-1 + Lambda (x) h h' with
Lambda = w (diag(p) - p p'), is not a Kronecker product. We take the closest one, the minimum of
KL(N(Gamma_upd (x) Sigma_upd) || exact). The two matrices depend on each other and are found
together, as the paper says (after Spiegelhalter & Lauritzen, 1990):
    Sigma_upd^-1 = Sigma^-1 + beta h h'              beta = tr(Lambda Gamma_upd) / k
    Gamma_upd^-1 = (1 - beta eps) Gamma^-1 + eps Lambda     eps = h' Sigma_upd h / d
Gamma (x) Sigma leaves a scalar free between its two factors. Fixing Sigma^-1's own coefficient at one
makes the equations this short, and makes taking an instance back their exact inverse.
"""

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, eye, zeros
from everylabel.core.kernel import condition_cov_one, inverse_of_precision, not_learned
from everylabel.core.likelihoods.likelihood import Instances, Likelihood, Projection
from everylabel.core.likelihoods.shared import diagonal
from everylabel.core.posterior import Posterior

_TOLERANCE = 1e-13  # relative change of beta or of Gamma at which the iteration stops
_MAX_ITER = 500


class MatrixNormal(Likelihood):
    """cov (d, d) and class_cov (k, k), both updated."""

    def fit(self, at: Instances, prior_precision: float) -> dict[str, Array]:
        # Stationary points of KL(Gamma (x) Sigma || exact), found in turn:
        #   Sigma^-1 = (prior tr(Gamma) I + sum_x tr(Lambda_x Gamma) h_x h_x') / k
        #   Gamma^-1 = (prior tr(Sigma) I + sum_x (h_x' Sigma h_x) Lambda_x) / d
        xp, (features, probs, weights) = array_namespace(at.features), at
        d, k = features.shape[1], probs.shape[1]
        gamma, sigma = eye(k, features), eye(d, features) / prior_precision
        for _ in range(_MAX_ITER):
            # tr(Lambda Gamma) = sum_c p_c Gamma_cc - p' Gamma p
            traces = weights * (probs @ xp.linalg.diagonal(gamma) - xp.sum((probs @ gamma) * probs, axis=1))
            scale = prior_precision * xp.linalg.trace(gamma)
            precision = scale * eye(d, features) + (features.T * traces) @ features
            sigma = inverse_of_precision(precision / k)
            weighted = weights * xp.sum((features @ sigma) * features, axis=1)
            between = diagonal(weighted @ probs) - (probs.T * weighted) @ probs
            precision = prior_precision * xp.linalg.trace(sigma) * eye(k, features) + between
            previous, gamma = gamma, inverse_of_precision(precision / d)
            if float(xp.max(xp.abs(gamma - previous))) <= _TOLERANCE * float(xp.max(xp.abs(gamma))):
                break
        scale = xp.linalg.trace(gamma) / k  # the free scalar: Sigma^-1 starts from prior_precision I
        return {"cov": sigma * scale, "class_cov": gamma / scale}

    def direction(
        self, posterior: Posterior, seen: Projection, residual: Float[Array, "b k"]
    ) -> Float[Array, "d k"]:
        after = self.condition(posterior, seen, 1)
        return after.cov @ (seen.at.features.T @ residual) @ after.class_cov

    def condition(self, posterior: Posterior, seen: Projection, sign: int) -> Posterior:
        features, probs, weights = seen.at
        for i in range(probs.shape[0])[::sign]:  # the closest Kronecker product is found one by one
            curvature = weights[i] * (diagonal(probs[i, :]) - probs[i, :, None] * probs[i, None, :])
            cov_h = seen.cov_h[:, i] if probs.shape[0] == 1 else posterior.cov @ features[i, :]
            posterior = _moved(posterior, cov_h, features[i, :], curvature, sign)
        return posterior

    def logit_cov(self, posterior: Posterior, features: Float[Array, "n d"]) -> Float[Array, "n k k"]:
        xp = array_namespace(features)
        variance = xp.sum((features @ posterior.cov) * features, axis=1)
        return variance[:, None, None] * posterior.class_cov[None, :, :]

    def sample(self, posterior: Posterior, noise: Float[Array, "m d k"]) -> Float[Array, "m d k"]:
        xp = array_namespace(noise)
        root = xp.astype(xp.linalg.cholesky(posterior.cov), noise.dtype)
        class_root = xp.astype(xp.linalg.cholesky(posterior.class_cov), noise.dtype)
        return xp.astype(posterior.mean, noise.dtype)[None, :, :] + root @ noise @ class_root.T

    def extend(self, posterior: Posterior, n: int) -> dict[str, Array]:
        xp = array_namespace(posterior.cov)
        gamma = posterior.class_cov
        corner = zeros((gamma.shape[0], n), gamma)
        top = xp.concat([gamma, corner], axis=1)
        bottom = xp.concat([corner.T, eye(n, gamma)], axis=1)  # the prior is I (x) I / prior_precision
        return {"cov": posterior.cov, "class_cov": xp.concat([top, bottom])}


def _moved(
    posterior: Posterior,
    cov_h: Float[Array, " d"],
    feature: Float[Array, " d"],
    curvature: Float[Array, "k k"],
    sign: int,
) -> Posterior:
    """Return the posterior after one instance, or before it.

    Forward, beta is found by fixed-point iteration; backward, beta and eps are already known.
    """
    sigma, gamma = posterior.cov, posterior.class_cov
    xp, d, k = array_namespace(sigma), sigma.shape[0], gamma.shape[0]
    variance, precision = float(feature @ cov_h), inverse_of_precision(gamma)
    beta = max(0.0, float(xp.sum(curvature * gamma)) / k)  # rounding must not make it negative
    if sign < 0:
        eps = variance / d
        if beta * eps >= 1.0:
            raise not_learned()
        before = inverse_of_precision((precision - eps * curvature) / (1.0 - beta * eps))
        return posterior.replace(cov=condition_cov_one(sigma, cov_h, variance, beta, -1), class_cov=before)
    for _ in range(_MAX_ITER):
        eps = variance / (1.0 + beta * variance) / d
        updated = inverse_of_precision((1.0 - beta * eps) * precision + eps * curvature)
        previous, beta = beta, max(0.0, float(xp.sum(curvature * updated)) / k)
        if abs(beta - previous) <= _TOLERANCE * abs(beta):
            break
    return posterior.replace(cov=condition_cov_one(sigma, cov_h, variance, beta, 1), class_cov=updated)


matrix_normal = MatrixNormal()
