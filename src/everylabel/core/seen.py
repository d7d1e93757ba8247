"""The curvature of a last layer, one block a class, as n labelled instances see it; for NumPy arrays.

n points, k classes; H (n, d) their features, q_cx = w_x p_cx (1 - p_cx) the curvature of class c at point x.
    K = H H' / prior_precision                        what the prior lets them share
    M = H S H' = inv(inv(K) + diag(b))                with S of `preconditioner`, b_x its shared curvature
    M_c = H C_c H' = M - M[:, R_c] X_c M[R_c, :],     X_c = inv(diag(1 / (q_cx - b_x)) + M[R_c, R_c])
R_c holds the points at which c has much more curvature than is shared. A gradient H'e is answered by
C_c H'e = H'z / prior_precision, which moves logits by K z, and neither H nor K is needed for that:
    r = e - X_c (M e)[R_c] at R_c,        K z = M r = M_c e,        z = r - b o M r
A label adds a row to M, and its point to R_c of the classes that it is uncertain about. With every few labels
their points get their b (Woodbury) and all R_c are found again: nothing is built anew while labels come.
Classes come first in all arrays. `seen_loops` has compiled twins of what is asked most.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from everylabel.core.kernel import cholesky_or_none

TOP = 3  # classes of a point that its shared curvature leaves out
NEGLIGIBLE = 0.3  # share of a class's variance at a point below which it is left out of R_c
LEAST = 1e-6  # least shared curvature of a point
MOST = 64  # points in R_c: the strongest are enough
EVERY, AHEAD = 24, 20  # labels after which b is brought up to date, and of how many points besides theirs


class Seen(NamedTuple):
    """M, b, R_c and X_c of the module's head."""

    gram: Array  # (n, n) M
    shared: Array  # (n,) b
    at: Array  # (k, r) R_c, numbered from 1; 0 is none, and comes last
    core: Array  # (k, r, r) X_c, 0 where there is none
    joined: int = 0  # points behind the others that have no b yet
    turn: int = 0  # the point whose b is brought up to date next

    def apply(self, e: Float[Array, "k n"]) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
        """Return z and K z of the module's head."""
        ahead = e @ self.gram
        if self.at.shape[1]:
            e = e - self._taken(ahead)
            ahead = e @ self.gram
        return e - self.shared * ahead, ahead

    def answer(
        self, points: Int[Array, " b"], a: Float[Array, "k b"], least: float
    ) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
        """Return `apply` of what is `a` at these points, 0 elsewhere; classes with little take M for M_c."""
        ahead = a @ self.gram[points]
        z = -self.shared * ahead
        z[:, points] += a
        most = np.flatnonzero(np.max(np.abs(a), axis=1) > least) if self.at.shape[1] else ()
        if len(most):
            some = self._replace(at=self.at[most], core=self.core[most])
            taken = some._taken(ahead[most])
            through = taken @ self.gram
            ahead[most] -= through
            z[most] -= taken - self.shared * through
        return z, ahead

    def _taken(self, ahead: Float[Array, "k n"]) -> Float[Array, "k n"]:
        """Return X_c times what is at R_c, at R_c; 0 elsewhere."""
        classes = np.arange(len(self.at))[:, None]
        values = self.core @ ahead[classes, self.at - 1][:, :, None]  # none is point -1, times 0
        spread = np.zeros((len(ahead), ahead.shape[1] + 1), dtype=ahead.dtype)
        spread[classes, self.at] = values[:, :, 0]
        return spread[:, 1:]

    def variances(self, points: Int[Array, " b"]) -> tuple[Float[Array, "k b"], Float[Array, "k b"]]:
        """Return h' C_c h of these points, and what it would be without their own curvature.

        Without point x in R_c, X_c is less by its column u over u_x; without b_x, s becomes s / (1 - b_x s).
        """
        rows = self.gram[points]
        whole = rows[np.arange(len(points)), points]
        near = rows[:, self.at - 1].transpose(1, 0, 2)  # (k, b, r)
        through = near @ self.core
        own = np.sum(through * near, axis=2)
        here = self.at[:, None, :] == points[None, :, None] + 1
        pivots = np.diagonal(self.core, axis1=1, axis2=2)[:, None, :]
        pivots = np.where(here, pivots, 1.0)
        without = own - np.sum(np.where(here, through * through / pivots, 0.0), axis=2)
        alone = np.maximum(whole - without, LEAST * whole)
        alone = alone / np.maximum(1.0 - self.shared[points] * alone, LEAST)
        return np.maximum(whole - own, LEAST * whole), alone

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
        shared = np.concatenate([self.shared, np.zeros(b, gram.dtype)])
        return self._replace(gram=gram, shared=shared, joined=self.joined + b)

    def join(self, points: Int[Array, " b"], whole: Float[Array, "k b"]) -> Seen:
        """Return it with points that have no b yet in R_c of the classes in which their curvature is much.

        X_c gets a row: it is [[X_c, 0], [0, 0]] + v v' / s,  v = (X_c M[R_c, x], -1),  s = 1/q_cx + h' C_c h.
        """
        seen = self.widened(len(points))
        for x, q in zip(points, whole.T, strict=True):
            variance = seen.gram[x, x]
            for c in np.flatnonzero(q * variance > NEGLIGIBLE):
                size = np.count_nonzero(seen.at[c])
                near = seen.gram[x, seen.at[c, :size] - 1]
                through = seen.core[c, :size, :size] @ near
                v = np.append(through, near.dtype.type(-1.0))
                scaled = v / (1.0 / q[c] + variance - near @ through)
                seen.core[c, : size + 1, : size + 1] += v[:, None] * scaled
                seen.at[c, size] = x + 1
        return seen

    def widened(self, more: int) -> Seen:
        """Return a copy with room for so many points more in every R_c."""
        room = self.at.shape[1] - int((self.at > 0).sum(axis=1).max())
        at, core = _widened(self.at, self.core, max(0, more - room))
        return self._replace(at=at, core=core)

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

    def bend_own(self, whole: Float[Array, "k n"], compiled: bool = False) -> Seen:
        """Return it with R_c and X_c as all curvature is now."""
        if len(whole) == 1:
            return self
        extra = whole - self.shared
        share = extra * np.diagonal(self.gram)
        r = int(np.max(np.count_nonzero(share > NEGLIGIBLE, axis=1)))
        least = np.full(len(share), NEGLIGIBLE, share.dtype)
        if r > MOST:
            least = np.maximum(least, np.partition(share, -MOST - 1, axis=1)[:, -MOST - 1])
        at = np.zeros((len(share), min(r, MOST)), np.int64)
        core = np.zeros((*at.shape, at.shape[1]), self.gram.dtype)
        (loops().own if compiled else own)(self.gram, extra, share, least, at, core)
        return self._replace(at=at, core=core)

    def renew(self, weights: Float[Array, " n"], probs: Float[Array, "k n"], compiled: bool = False) -> Seen:
        """Return it with b of the points that have joined and of others, in turn, and all R_c as of today."""
        n = len(weights)
        older = n - self.joined
        m = min(AHEAD, older)
        points = np.concatenate([np.arange(self.turn, self.turn + m) % max(older, 1), np.arange(older, n)])
        seen = self.bend(points, shared_curvature(curvature(weights[points], probs[:, points])))
        seen = seen.bend_own(curvature(weights, probs), compiled)
        return seen._replace(joined=0, turn=(self.turn + m) % n)


def build(
    features: Float[Array, "n d"], weights: Float[Array, " n"], probs: Float[Array, "k n"], prior: float
) -> Seen | None:
    """Return M and all X_c at these probabilities, in the precision of the features.

    None where K is so large that its rounding is more than the 1 that b^1/2 K b^1/2 + 1 is about.
    """
    k = len(probs)
    whole = curvature(weights, probs)
    shared = shared_curvature(whole)
    exactly, root = features.astype(np.float64), np.sqrt(shared.astype(np.float64))
    gram = exactly @ exactly.T / prior
    factor = cholesky_or_none(np.eye(len(root)) + root[:, None] * gram * root)
    if factor is None:
        return None
    half = np.linalg.solve(factor, root[:, None] * gram)
    gram = (gram - half.T @ half).astype(features.dtype)
    seen = Seen(gram, shared, np.zeros((k, 0), np.int64), np.zeros((k, 0, 0), features.dtype))
    return seen.bend_own(whole)


def shared_curvature(whole: Float[Array, "k m"]) -> Float[Array, " m"]:
    """Return b: the mean curvature of a point's classes without the TOP ones."""
    k = len(whole)
    n_rest = k - min(TOP, k - 1)
    rest = np.partition(whole, n_rest - 1, axis=0)[:n_rest]
    return np.maximum(np.mean(rest, axis=0), LEAST)


def curvature(weights: Float[Array, " m"], probs: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """Return q of the module's head."""
    return weights * probs * (1.0 - probs)


def own(gram: Array, extra: Array, share: Array, least: Array, at: Array, core: Array) -> None:
    """Write R_c (k, r), the points whose share is above the least (k,), and X_c of their extra curvature.

    X_c = (1/e + M)^-1 = s (1 + s M s)^-1 s,  s^2 = e.
    """
    for c in range(len(at)):
        there = np.flatnonzero(share[c] > least[c])
        size = len(there)
        root = np.sqrt(extra[c, there])
        system = np.eye(size, dtype=gram.dtype) + root[:, None] * gram[there[:, None], there] * root
        at[c, :size] = there + 1
        core[c, :size, :size] = root[:, None] * np.linalg.inv(system) * root


@cache
def loops() -> ModuleType:
    """Return the compiled loops, which are loaded when they are first asked for."""
    from everylabel.core import seen_loops

    return seen_loops


def _widened(at: Int[Array, "k r"], core: Float[Array, "k r r"], more: int) -> tuple[Array, Array]:
    """Return copies with room for so many points more."""
    k, r = at.shape
    wide_at, wide_core = np.zeros((k, r + more), at.dtype), np.zeros((k, r + more, r + more), core.dtype)
    wide_at[:, :r], wide_core[:, :r, :r] = at, core
    return wide_at, wide_core
