"""The curvature of a last layer, one block a class, cheap to build, to apply and to extend.

n points, d features, k classes; q_xc = w_x p_xc (1 - p_xc) the curvature of class c at point x.
    C_c = inv(prior_precision I + sum_x b_x h_x h_x' + sum_{x in R_c} (q_xc - b_x) h_x h_x')
        = S - B_c' B_c
An instance is uncertain about a few classes and alike about all the others: R_c holds the points
with c among their TOP largest q, b_x is the mean of the others. So S (d, d) is shared and B_c has
|R_c| rows. Points whose share is negligible are left out; C_c is positive definite whatever is.
A new point adds a row to B_c of its TOP classes (Sherman-Morrison).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import device
from jaxtyping import Float, Int

from everylabel.core.arrays import Array, array_namespace, as_columns, eye, float64
from everylabel.core.kernel import cholesky_or_none, inverse_of_precision

TOP = 3  # classes of a point that get its curvature in full
NEGLIGIBLE = 0.05  # share of a class's variance at a point below which it is left out of B_c
LEAST = 1e-6  # least shared curvature of a point


class Preconditioner(NamedTuple):
    """S and B_c of the module's head."""

    shared: Array  # (d, d) S
    own: tuple[Array | None, ...]  # k times (r_c, d) B_c
    n_points: int  # when it was built

    def apply(self, matrix: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """Return C_c times column c, for all columns."""
        result = matrix.T @ self.shared
        for c, rows in enumerate(self.own):
            if rows is not None:
                result[c, :] -= (rows @ matrix[:, c]) @ rows
        return result.T

    def times(
        self, point: Float[Array, " d"], classes: list[int]
    ) -> tuple[Float[Array, " d"], list[Array], list[float]]:
        """Return S h; then C_c h - S h and h' C_c h of the classes asked for."""
        shared = self.shared @ point
        variance = float(point @ shared)
        changes, variances = [], []
        for c in classes:
            rows = self.own[c]
            if rows is None:
                changes.append(0.0 * point)
                variances.append(variance)
                continue
            seen = rows @ point
            changes.append(-(seen @ rows))
            variances.append(max(variance - float(seen @ seen), LEAST * variance))
        return shared, changes, variances

    def extend(self, point: Float[Array, " d"], curvature: Float[Array, " k"]) -> Preconditioner:
        """Return the preconditioner with one point more: C_c -= C_c h h' C_c q / (1 + q h' C_c h)."""
        xp: Any = array_namespace(curvature)
        n_top = min(TOP, len(self.own))
        top = [int(c) for c in xp.argsort(curvature, descending=True)[:n_top]]
        shared, changes, variances = self.times(point, top)
        own = list(self.own)
        for c, change, variance in zip(top, changes, variances, strict=True):
            q = float(curvature[c])
            rows = own[c]
            room = rows is None or rows.shape[0] < point.shape[0]
            if room and q * variance > 0.2 * NEGLIGIBLE:
                row = ((shared + change) * (q / (1.0 + q * variance)) ** 0.5)[None, :]
                own[c] = row if rows is None else xp.concat([rows, row])
        return self._replace(own=tuple(own))


def build(
    features: Float[Array, "n d"],
    weights: Float[Array, "n ..."],
    probs: Float[Array, "n k"],
    prior_precision: float,
    n_top: int = TOP,
) -> Preconditioner:
    """Return the preconditioner at these probabilities, in the precision of the features.

    n_top=0 leaves out all B_c: one covariance for all classes, with their mean curvature.
    """
    xp: Any = array_namespace(features)
    n, k = probs.shape
    n_top = min(n_top, k - 1)
    curvature = as_columns(weights) * probs * (1.0 - probs)
    left, top, highest = curvature, [], []
    classes = xp.arange(k, dtype=xp.int64, device=device(features))[None, :]
    for _ in range(n_top):
        top.append(xp.argmax(left, axis=1, keepdims=True))
        highest.append(xp.max(left, axis=1, keepdims=True))
        left = xp.where(classes == top[-1], -xp.ones_like(left), left)
    full = xp.concat(highest, axis=1) if n_top else curvature[:, :0]
    others = (xp.sum(curvature, axis=1) - xp.sum(full, axis=1)) / (k - n_top)
    others = xp.clip(others, LEAST, None)
    shared = xp.astype(_shared(float64(features), float64(others), prior_precision), features.dtype)
    if n_top == 0:
        return Preconditioner(shared, (None,) * k, n)
    seen, at, extra = features @ shared, xp.concat(top, axis=1), full - others[:, None]
    share = extra * xp.sum(seen * features, axis=1)[:, None]
    own = tuple(_own_rows(features, seen, at, extra, share, c) for c in range(k))
    return Preconditioner(shared, own, n)


def _shared(
    features: Float[Array, "n d"], curvature: Float[Array, " n"], prior_precision: float
) -> Float[Array, "d d"]:
    """Return S; with fewer points than features as (I - H' (H H' + prior_precision / b)^-1 H) / prior."""
    xp: Any = array_namespace(features)
    n, d = features.shape
    if n >= d:
        return inverse_of_precision(prior_precision * eye(d, features) + (features.T * curvature) @ features)
    gram = features @ features.T + eye(n, features) * (prior_precision / curvature)
    inverse = (eye(d, features) - features.T @ xp.linalg.solve(gram, features)) / prior_precision
    return 0.5 * (inverse + inverse.T)


def _own_rows(
    features: Float[Array, "n d"],
    seen: Float[Array, "n d"],
    top: Int[Array, "n t"],
    extra: Float[Array, "n t"],
    share: Float[Array, "n t"],
    c: int,
) -> Float[Array, "r d"] | None:
    """Return B_c: S - B_c'B_c = inv(S^-1 + sum_x extra_x h_x h_x') over R_c, by Woodbury."""
    xp: Any = array_namespace(features)
    at, place = xp.nonzero((top == c) & (share > NEGLIGIBLE))
    if at.shape[0] == 0:
        return None
    n_most = max(1, features.shape[1] // 2)
    if at.shape[0] > n_most:  # the strongest are enough, and keep B_c smaller than S
        flat = xp.take(xp.reshape(share, (-1,)), at * share.shape[1] + place)
        kept = xp.argsort(flat, descending=True)[:n_most]
        at, place = xp.take(at, kept), xp.take(place, kept)
    added = xp.take(xp.reshape(extra, (-1,)), at * extra.shape[1] + place)
    through = xp.take(seen, at, axis=0)  # (r, d) rows of H S
    gram = float64(through @ xp.take(features, at, axis=0).T)
    system = 0.5 * (gram + gram.T) + eye(at.shape[0], gram) / float64(added)[:, None]
    factor = cholesky_or_none(system)
    if factor is None:  # features so large that rounding is all there is: S alone will do
        return None
    return xp.astype(xp.linalg.solve(factor, float64(through)), features.dtype)
