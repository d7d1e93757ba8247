"""Steps of a pool's posterior by which classes are ruled out for an instance, and taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from everylabel.core.arrays import Array, array_namespace, from_numpy, zeros
from everylabel.core.posterior import Posterior
from everylabel.core.updates import default_step
from everylabel.core.updates.partial import expected_shares, learn_shares, step_back

Ruled = frozenset[int]  # classes that an instance is not of


@dataclass(frozen=True, eq=False, slots=True)
class RuledOut:
    """Some classes were ruled out for an instance: those left are its soft label."""

    idx: int
    features: Array
    shares: Array  # (1, k) of the classes there were
    method: str | None
    step_size: float | None

    def after(self, posterior: Posterior) -> Posterior:
        shares = wide(self.shares, posterior)
        return learn_shares(posterior, self.features, shares, self.method, self.length(posterior))

    def length(self, posterior: Posterior) -> float:
        """Return the length of the step."""
        own = self.step_size
        return default_step(self.method or "second_order", posterior.likelihood) if own is None else own


@dataclass(frozen=True, eq=False, slots=True)
class RuledIn:
    """What was ruled out is taken back in closed form."""

    idx: int
    features: Array
    residual: Array  # (1, k) p - q times the length of the steps by which it was learned

    def after(self, posterior: Posterior) -> Posterior:
        return step_back(posterior, self.features, wide(self.residual, posterior))


def shares_without(posterior: Posterior, features: Array, ruled_out: Ruled) -> Array:
    """Return the shares (1, k) of the classes that are left for an instance."""
    left = [[c not in ruled_out for c in range(posterior.n_classes)]]
    return expected_shares(posterior, features, from_numpy(np.array(left), posterior.mean))


def wide(shares: Array, posterior: Posterior) -> Array:
    """Return a copy of numbers of the classes there were as those of all there are: 0 for later ones."""
    xp: Any = array_namespace(shares)
    room = zeros((shares.shape[0], posterior.n_classes - shares.shape[1]), shares)
    return xp.concat([shares, room], axis=1)
