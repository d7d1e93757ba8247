"""The full covariance between all k*d weights (App. C, first option).

b new points, d features, k classes; weight j of class c stands at c*d + j.
    Sigma^-1 = prior_precision I + sum_x w_x (diag(p_x) - p_x p_x') (x) h_x h_x'
An instance is seen through J_x = I_k (x) h_x', k rows of k*d; its curvature has the root
    R = diag(sqrt p) - p sqrt(p)',   R R' = diag(p) - p p'.
"""

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, eye, zeros
from everylabel.core.kernel import condition_cov, inverse_of_precision, jointly
from everylabel.core.likelihoods.likelihood import Instances, Likelihood, Projection
from everylabel.core.likelihoods.shared import diagonal
from everylabel.core.posterior import Posterior


class Full(Likelihood):
    """cov (k*d, k*d): exact curvature, affordable for small heads only."""

    def fit(self, at: Instances, prior_precision: float) -> dict[str, Array]:
        xp, (features, probs, weights) = array_namespace(at.features), at
        d, k = features.shape[1], probs.shape[1]
        rows = []
        for c in range(k):
            blocks = []
            for e in range(k):
                curvature = weights * probs[:, c] * (float(c == e) - probs[:, e])
                blocks.append((features.T * curvature) @ features)
            rows.append(xp.concat(blocks, axis=1))
        return {"cov": inverse_of_precision(prior_precision * eye(k * d, features) + xp.concat(rows))}

    def project(self, posterior: Posterior, at: Instances) -> Projection:
        xp, features = array_namespace(at.features), at.features
        (d, k), b = posterior.mean.shape, features.shape[0]
        stacked = xp.reshape(posterior.cov, (k * d * k, d)) @ features.T  # ((k*d, c), b)
        cov_h = xp.permute_dims(xp.reshape(stacked, (k * d, k, b)), (0, 2, 1))
        cov_h = xp.reshape(cov_h, (k * d, b * k))
        seen = xp.reshape(xp.permute_dims(xp.reshape(cov_h, (k, d, b * k)), (1, 0, 2)), (d, -1))
        gram = xp.reshape(features @ seen, (b * k, b * k))
        return Projection(at, cov_h, gram)

    def direction(
        self, posterior: Posterior, seen: Projection, residual: Float[Array, "b k"]
    ) -> Float[Array, "d k"]:
        xp = array_namespace(residual)
        root = _root(seen.at)
        curvature = root @ xp.matrix_transpose(root)
        flat = xp.reshape(residual, (-1, 1))
        step = seen.cov_h @ jointly(seen.gram, curvature, flat)
        return xp.reshape(step, (residual.shape[1], -1)).T

    def condition(self, posterior: Posterior, seen: Projection, sign: int) -> Posterior:
        return posterior.replace(
            cov=condition_cov(posterior.cov, seen.cov_h, seen.gram, _root(seen.at), sign)
        )

    def logit_cov(self, posterior: Posterior, features: Float[Array, "n d"]) -> Float[Array, "n k k"]:
        xp = array_namespace(features)
        d, k = posterior.mean.shape
        blocks = xp.reshape(posterior.cov, (k, d, k, d))
        rows = []
        for c in range(k):  # h' Sigma_ce h, block by block
            cells = [xp.sum((features @ blocks[c, :, e, :]) * features, axis=1) for e in range(k)]
            rows.append(xp.stack(cells, axis=1))
        return xp.stack(rows, axis=1)

    def sample(self, posterior: Posterior, noise: Float[Array, "m d k"]) -> Float[Array, "m d k"]:
        xp = array_namespace(noise)
        m, d, k = noise.shape
        root = xp.astype(xp.linalg.cholesky(posterior.cov), noise.dtype)
        spread = xp.reshape(xp.reshape(noise, (m, d * k)) @ root.T, (m, k, d))
        return xp.astype(posterior.mean, noise.dtype)[None, :, :] + xp.matrix_transpose(spread)

    def extend(self, posterior: Posterior, n: int) -> dict[str, Array]:
        xp = array_namespace(posterior.cov)
        old, new = posterior.cov.shape[0], n * posterior.mean.shape[0]
        corner = zeros((old, new), posterior.cov)
        prior = eye(new, posterior.cov) / posterior.prior_precision
        top, bottom = xp.concat([posterior.cov, corner], axis=1), xp.concat([corner.T, prior], axis=1)
        return {"cov": xp.concat([top, bottom])}


def _root(at: Instances) -> Float[Array, "bk bk"]:
    """Return the block-diagonal root of all instances' curvature, one k x k block per instance."""
    xp, probs = array_namespace(at.probs), at.probs
    b, k = probs.shape
    half = xp.sqrt(probs)
    blocks = diagonal(half) - probs[:, :, None] * half[:, None, :]
    blocks = xp.sqrt(at.weights)[:, None, None] * blocks
    spaced = eye(b, probs)[:, None, :, None] * blocks[:, :, None, :]  # (b, k, b, k)
    return xp.reshape(spaced, (b * k, b * k))


full = Full()
