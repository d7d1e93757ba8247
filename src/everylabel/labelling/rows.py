"""The features behind a project's items, by id, and the scale that the model sees them on.

Items join the pool in the order in which the log says they came, and their features are brought to scale
then. The map that does so is fitted on the first r that came (r is in the log): on the first 200, say, of a
random order, and again at a training whenever the pool has grown by half, until SAMPLE rows have told it. A
row's numbers on the scale depend on its place in that order and on nothing else, to the bit: blocks of one
shape are multiplied, whatever came together, since a product's rounding depends on its shape.

More than FOLDED_FROM numbers are not copied: a pool of them multiplies the features as they came, in a file
maybe, by what the map has been folded into (`Scaled`). How many there are where a model starts decides that,
and nothing else.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.data.id_list import IdList
from everylabel.data.mapped import MappedFile
from everylabel.labelling.refused import Refused
from everylabel.models.scaling import Scaling, fit_pool_scaling
from everylabel.selection import Pool
from everylabel.selection.pool.scaled import Scaled

SAMPLE = 5000  # instances that tell the scaling, or five times as many as features
GROWN = 1.5  # times as many as told the scaling: they tell it anew
BLOCK = 256  # rows that are brought to scale at a time
FOLDED_FROM = 10**8  # n d: a copy on scale, in single precision, would be larger than 400 MB


class Prepared(NamedTuple):
    """Features brought to the scale that the prior suits, and how."""

    features: np.ndarray  # (n, d) float32; `Scaled`, which has rows as an array does, of what lies elsewhere
    scaling: Scaling


def prepare(features: np.ndarray) -> Prepared:
    """Return the features in single precision, scaled as an even sample of them tells.

    Of those that are in no array of this process no copy is made.
    """
    scaling = scale_of(features)
    seen: Any = on_scale if isinstance(features, np.ndarray) else as_folded
    return Prepared(seen(features, scaling), scaling)


def scale_of(features: np.ndarray) -> Scaling:
    """Return the scaling that an even sample of features tells."""
    size = enough(features.shape[1])
    return fit_pool_scaling(np.asarray(features[:: max(1, len(features) // size)], np.float64))


def enough(d: int) -> int:
    """Return how many rows of d features tell the scaling; more are not asked."""
    return max(SAMPLE, 5 * d)


def on_scale(features: np.ndarray, scaling: Scaling, at: int = 0) -> np.ndarray:
    """Return features (m, d) of the rows from `at` on, scaled in single precision."""
    center, factor = scaling.center.astype(np.float32), np.float32(scaling.scale)
    matrix = None if scaling.matrix is None else scaling.matrix.astype(np.float32)
    scaled = np.empty(features.shape, np.float32)
    block = np.zeros((BLOCK, features.shape[1]), np.float32)
    for start in range(at - at % BLOCK, at + len(features), BLOCK):
        low, high = max(start, at), min(start + BLOCK, at + len(features))
        part = block[low - start : high - start]
        np.subtract(features[low - at : high - at], center, out=part, dtype=np.float32)
        turned = block if matrix is None else block @ matrix
        np.multiply(turned[low - start : high - start], factor, out=scaled[low - at : high - at])
    return scaled


def as_folded(features: np.ndarray, scaling: Scaling) -> Scaled:
    """Return features on scale, of which no copy is made."""
    matrix = np.eye(features.shape[1]) if scaling.matrix is None else scaling.matrix
    return Scaled(features, scaling.center, scaling.scale * matrix)


class Rows:
    """Features by id; what has come stays.

    ready : they are on scale already, by `given` if that is known; else one is fitted (see the module's head)
    """

    make_pool: "Callable[..., Pool] | None" = None  # another kind of pool than the one of this machine

    def __init__(
        self, ids: Sequence[str], features: np.ndarray, *, ready: bool = False, given: Scaling | None = None
    ) -> None:
        self.ids, self.features, self.ready, self.given = IdList(ids), features, ready, given
        self.position = self.ids.position
        self._file = MappedFile.of(features) if len(features) else None
        self._room: np.ndarray | None = None
        self._fitted: dict[tuple[int, str, str], Scaling] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.position

    def refusal(self) -> Refused | None:
        """Return why the features cannot be read now: to try it would end the process."""
        wrong = "" if self._file is None else self._file.wrong()
        if not wrong:
            return None
        return Refused(
            503,
            "features_gone",
            f"nothing is saved: the file of the features {wrong}; put it back as it was to go on here, or "
            "stop and start again. All that was acknowledged is in the log",
        )

    def add(self, ids: Sequence[str], features: np.ndarray) -> None:
        """Take features of ids that were not there."""
        n, total = len(self.ids), len(self.ids) + len(ids)
        if self._room is None or len(self._room) < total:
            self._room = np.empty((total + total // 2, self.features.shape[1]), self.features.dtype)
            self._room[:n] = self.features
        self._room[n:total] = features
        self.features = self._room[:total]
        self.ids.extend(ids)

    def of(self, ids: Sequence[str]) -> np.ndarray:
        """Return features as they came, in the order of ids; not copied where they lie so."""
        first = self.position[ids[0]] if len(ids) else 0
        if self.ids[first : first + len(ids)] == ids:
            return self.features[first : first + len(ids)]
        return self.features[[self.position[name] for name in ids]]

    def scaling(self, ids: Sequence[str], told_by: int) -> Scaling | None:
        """Return the map that the first `told_by` ids tell; fitted once."""
        if self.ready:
            return self.given
        key = told_by, ids[0], ids[told_by - 1]
        if key not in self._fitted:
            self._fitted = {key: scale_of(self.of(ids[:told_by]))}  # the last one only
        return self._fitted[key]

    def folds(self, n: int) -> bool:
        """Return whether a model that starts with n rows sees them as they came, through a map."""
        return not self.ready and n * self.features.shape[1] > FOLDED_FROM

    def on_scale(
        self, ids: Sequence[str], start: int, stop: int, scaling: Scaling | None, folded: bool = False
    ) -> "np.ndarray | Scaled":
        """Return the features of ids[start:stop] on the scale that the model sees."""
        features = self.of(ids[start:stop])
        if self.ready or scaling is None:
            return features
        return as_folded(features, scaling) if folded else on_scale(features, scaling, start)

    def close(self) -> None:
        """Let go of what is held elsewhere: here, nothing."""

    def told_anew(self, told_by: int, n: int) -> bool:
        """Return whether n rows should tell the scaling that `told_by` have told."""
        return not self.ready and told_by < enough(self.features.shape[1]) and n >= GROWN * told_by
