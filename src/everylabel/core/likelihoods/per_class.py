"""One covariance per class with the curvature of that class: "per_class" (softmax), "bernoulli_per_class".

b new points, d features, k classes.
    Sigma_c^-1 = prior_precision I + sum_x w_x p_xc (1 - p_xc) h_x h_x'
This is the block diagonal of the full Hessian, without the terms between classes. With sigmoids there are
none, and it is the full Hessian. w_xc = 0 where class c was not answered. Beyond the paper, which stops at
one covariance for all classes.
"""

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, as_columns, eye
from everylabel.core.kernel import condition_cov, inverse_of_precision, jointly
from everylabel.core.likelihoods.likelihood import Instances, Likelihood, Projection
from everylabel.core.likelihoods.shared import diagonal
from everylabel.core.likelihoods.sigmoid import Answers
from everylabel.core.posterior import Posterior


class PerClass(Likelihood):
    """cov (k, d, d): each class has its own curvature p_c (1 - p_c)."""

    def fit(self, at: Instances, prior_precision: float) -> dict[str, Array]:
        xp, features = array_namespace(at.features), at.features
        prior, curvature = prior_precision * eye(features.shape[1], features), _curvature(at)
        rows = [curvature[c, :] for c in range(curvature.shape[0])]
        return {"cov": xp.stack([inverse_of_precision(prior + (features.T * c) @ features) for c in rows])}

    def direction(
        self, posterior: Posterior, seen: Projection, residual: Float[Array, "b k"]
    ) -> Float[Array, "d k"]:
        curvature = diagonal(_curvature(seen.at))
        return (seen.cov_h @ jointly(seen.gram, curvature, residual.T[..., None]))[..., 0].T

    def condition(self, posterior: Posterior, seen: Projection, sign: int) -> Posterior:
        root = diagonal(array_namespace(seen.gram).sqrt(_curvature(seen.at)))
        return posterior.replace(cov=condition_cov(posterior.cov, seen.cov_h, seen.gram, root, sign))

    def logit_cov(self, posterior: Posterior, features: Float[Array, "n d"]) -> Float[Array, "n k"]:
        xp = array_namespace(features)
        variance = [
            xp.sum((features @ posterior.cov[c, :, :]) * features, axis=1)
            for c in range(posterior.cov.shape[0])
        ]
        return xp.stack(variance, axis=1)

    def sample(self, posterior: Posterior, noise: Float[Array, "m d k"]) -> Float[Array, "m d k"]:
        xp = array_namespace(noise)
        root = xp.astype(xp.linalg.cholesky(posterior.cov), noise.dtype)
        spread = [noise[:, :, c] @ root[c, :, :].T for c in range(root.shape[0])]
        return xp.astype(posterior.mean, noise.dtype)[None, :, :] + xp.stack(spread, axis=2)

    def extend(self, posterior: Posterior, n: int) -> dict[str, Array]:
        xp = array_namespace(posterior.cov)
        prior = eye(posterior.cov.shape[1], posterior.cov) / posterior.prior_precision
        return {"cov": xp.concat([posterior.cov, xp.stack([prior] * n)])}


class BernoulliPerClass(Answers, PerClass):
    """k sigmoids, each with its own covariance."""


def _curvature(at: Instances) -> Float[Array, "k b"]:
    return (as_columns(at.weights) * at.probs * (1.0 - at.probs)).T


per_class = PerClass()
bernoulli_per_class = BernoulliPerClass()
