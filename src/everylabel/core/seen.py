"""The curvature of a last layer, one block a class, as n labelled instances see it; for NumPy arrays.

n points, k classes; H (n, d) their features, q_xc = w_x p_xc (1 - p_xc) the curvature of class c at point x.
    K = H H' / prior_precision                        what the prior lets them share
    M = H S H' = inv(inv(K) + diag(b))                with S of `preconditioner`, b_x its shared curvature
    M_c = H C_c H' = M - M[:, R_c] X_c M[R_c, :],     X_c = inv(diag(1 / (q_xc - b_x)) + M[R_c, R_c])
R_c holds the points at which c has much more curvature than is shared. A gradient H'e is answered by
C_c H'e = H'z / prior_precision, which moves logits by K z, and neither H nor K is needed for that:
    r = e - X_c (M e)[R_c] at R_c,        K z = M r = M_c e,        z = r - b o M r
A label adds a row to M, and a few points and classes are brought up to date with it (Woodbury): nothing is
built anew while labels come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

TOP = 3  # classes of a point that its shared curvature leaves out
NEGLIGIBLE = 0.3  # share of a class's variance at a point below which it is left out of R_c
LEAST = 1e-6  # least shared curvature of a point
MOST = 64  # points in R_c: the strongest are enough


class Seen(NamedTuple):
    """M, b, R_c and X_c of the module's head."""

    gram: Array  # (n, n) M
    shared: Array  # (n,) b
    at: Array  # (k, r) R_c, numbered from 1; 0 is none
    core: Array  # (k, r, r) X_c, 0 where there is none
    turn: tuple[int, int] = (0, 0)  # the point and the class that are brought up to date next

    def apply(self, e: Float[Array, "n k"]) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """Return z and K z of the module's head."""
        ahead = self.gram @ e
        if self.at.shape[1]:
            e = e - self._taken(ahead)
            ahead = self.gram @ e
        return e - self.shared[:, None] * ahead, ahead

    def answer(self, a: Float[Array, "b k"], least: float) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """Return `apply` of what is `a` at the last b points; classes with little take M for M_c."""
        n, b = len(self.shared), len(a)
        ahead = self.gram[:, n - b :] @ a
        z = -self.shared[:, None] * ahead
        z[n - b :] += a
        most = np.flatnonzero(np.max(np.abs(a), axis=0) > least) if self.at.shape[1] else ()
        if len(most):
            some = self._replace(at=self.at[most], core=self.core[most])
            taken = some._taken(ahead[:, most])
            through = self.gram @ taken
            ahead[:, most] -= through
            z[:, most] -= taken - self.shared[:, None] * through
        return z, ahead

    def _taken(self, ahead: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Return X_c times the rows R_c, at R_c; 0 elsewhere."""
        classes = np.arange(len(self.at))[:, None]
        values = self.core @ ahead[self.at - 1, classes][:, :, None]  # none is row -1, times 0
        spread = np.zeros((ahead.shape[0] + 1, ahead.shape[1]), dtype=ahead.dtype)
        spread[self.at, classes] = values[:, :, 0]
        return spread[1:]

    def variances(self, b: int) -> Float[Array, "b k"]:
        """Return h' C_c h of the last b points."""
        rows = self.gram[-b:]
        whole = np.diagonal(rows[:, -b:])[:, None]
        near = rows[:, self.at - 1].transpose(1, 0, 2)  # (k, b, r)
        own = np.sum((near @ self.core) * near, axis=2).T
        return np.maximum(whole - own, LEAST * whole)

    def grow(self, among: Float[Array, "n b"], own: Float[Array, "b b"]) -> Seen:
        """Return it with b points behind the others that have no curvature yet; their K is given."""
        n, b = among.shape
        bent = self.shared[:, None] * among
        through = among - self.gram @ bent  # H S h = K[:, h] - M b K[:, h]
        gram = np.empty((n + b, n + b), dtype=self.gram.dtype)
        gram[:n, :n] = self.gram
        gram[:n, n:] = through
        gram[n:, :n] = through.T
        gram[n:, n:] = own - bent.T @ through
        return self._replace(gram=gram, shared=np.concatenate([self.shared, np.zeros(b, gram.dtype)]))

    def bend(self, points: Int[Array, " m"], shared: Float[Array, " m"]) -> Seen:
        """Return it with the shared curvature of these points at these values (Woodbury)."""
        change = (shared - self.shared[points])[:, None]
        rows = self.gram[points]
        if len(points) == 1:
            scaled = rows * (change / (1.0 + change * rows[0, points[0]]))
        else:
            system = np.eye(len(points), dtype=rows.dtype) + change * rows[:, points]
            scaled = np.linalg.solve(system, change * rows)
        gram = rows.T @ scaled
        np.subtract(self.gram, gram, out=gram)
        after = self.shared.copy()
        after[points] = shared
        return self._replace(gram=gram, shared=after)

    def bend_own(self, classes: Int[Array, " t"], whole: Float[Array, "n t"]) -> Seen:
        """Return it with R_c and X_c of these classes as their curvature is now."""
        there, inverse = _strongest(self.gram, whole - self.shared[:, None])
        more = max(0, there.shape[1] - self.at.shape[1]), max(0, self.at.shape[1] - there.shape[1])
        at, core = _widened(self.at, self.core, more[0])
        at[classes], core[classes] = _widened(there, inverse, more[1])
        return self._replace(at=at, core=core)

    def follow(self, weights: Float[Array, " n"], probs: Float[Array, "n k"], b: int, share: float) -> Seen:
        """Return it with the last b points and, in turn, a share of all points and classes as of today."""
        (n, k), (point, c) = probs.shape, self.turn
        m, t = min(int(share * n), n - b), min(k, int(share * k + 1)) if share else 0
        points = np.concatenate([np.arange(point, point + m) % (n - b), np.arange(n - b, n)])
        seen = self.bend(points, shared_curvature(curvature(weights[points], probs[points])))
        if t and k > 1:
            classes = np.arange(c, c + t) % k
            seen = seen.bend_own(classes, curvature(weights, probs[:, classes]))
        return seen._replace(turn=((point + m) % n, (c + t) % k))


def build(
    features: Float[Array, "n d"], weights: Float[Array, " n"], probs: Float[Array, "n k"], prior: float
) -> Seen:
    """Return M and all X_c at these probabilities, in the precision of the features."""
    k = probs.shape[1]
    whole = curvature(weights, probs)
    shared = shared_curvature(whole)
    exactly, root = features.astype(np.float64), np.sqrt(shared.astype(np.float64))
    gram = exactly @ exactly.T / prior
    factor = np.linalg.cholesky(np.eye(len(root)) + root[:, None] * gram * root)
    half = np.linalg.solve(factor, root[:, None] * gram)
    gram = (gram - half.T @ half).astype(features.dtype)
    seen = Seen(gram, shared, np.zeros((k, 0), np.int64), np.zeros((k, 0, 0), features.dtype))
    return seen.bend_own(np.arange(k), whole) if k > 1 else seen


def shared_curvature(whole: Float[Array, "m k"]) -> Float[Array, " m"]:
    """Return b: the mean curvature of a point's classes without the TOP ones."""
    k = whole.shape[1]
    n_rest = k - min(TOP, k - 1)
    rest = np.partition(whole, n_rest - 1, axis=1)[:, :n_rest]
    return np.maximum(np.mean(rest, axis=1), LEAST)


def curvature(weights: Float[Array, " m"], probs: Float[Array, "m k"]) -> Float[Array, "m k"]:
    """Return q of the module's head."""
    return weights[:, None] * probs * (1.0 - probs)


def _strongest(
    gram: Float[Array, "n n"], extra: Float[Array, "n t"]
) -> tuple[Int[Array, "t r"], Float[Array, "t r r"]]:
    """Return R_c and X_c of t classes whose curvature beyond the shared is `extra`."""
    share = extra.T * np.diagonal(gram)
    r = min(MOST, int(np.max(np.count_nonzero(share > NEGLIGIBLE, axis=1))))
    order = np.argsort(-share, axis=1)[:, :r]
    lines = np.arange(len(order))[:, None]
    there = share[lines, order] > NEGLIGIBLE
    root = np.sqrt(np.where(there, extra.T[lines, order], 0.0))
    among = gram[order[:, :, None], order[:, None, :]]
    system = np.eye(r, dtype=gram.dtype) + root[:, :, None] * among * root[:, None, :]
    core = root[:, :, None] * np.linalg.inv(system) * root[:, None, :]  # (1/e + M)^-1 = s (1 + s M s)^-1 s
    return np.where(there, order + 1, 0), core


def _widened(at: Int[Array, "t r"], core: Float[Array, "t r r"], more: int) -> tuple[Array, Array]:
    """Return copies with room for so many points more."""
    t, r = at.shape
    wide_at, wide_core = np.zeros((t, r + more), at.dtype), np.zeros((t, r + more, r + more), core.dtype)
    wide_at[:, :r], wide_core[:, :r, :r] = at, core
    return wide_at, wide_core
