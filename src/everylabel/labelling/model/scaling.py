"""The features of a project's items by id, and the scale on which the model sees them.

The scale is fitted on an evenly spaced sample of the items in the pool. Training fits it again when the pool
has grown by half. Pools above FOLDED_FROM numbers are not copied: the scale is folded into products
(`Scaled`).
"""

import mmap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.data.items import IdList, Numbered
from everylabel.labelling.state.types import Refused
from everylabel.models.scaling import Scaling, fit_pool_scaling
from everylabel.selection import Pool
from everylabel.selection.pool.features import Scaled

SAMPLE = 5000  # items that the scale is fitted on, or five times the number of features if that is more
GROWN = 1.5  # growth factor of the pool after which the scale is fitted again
BLOCK = 4096  # rows scaled at a time
FOLDED_FROM = 10**8  # n d: a scaled copy in single precision would take more than 400 MB


class Prepared(NamedTuple):
    """Features on the scale that suits the prior, and that scale."""

    features: np.ndarray  # (n, d) float32, or `Scaled`
    scaling: Scaling


def prepare(features: np.ndarray) -> Prepared:
    """Return scaled features in single precision; features stored outside this process are not copied."""
    scaling = fit_scale(features)
    seen: Any = on_scale if isinstance(features, np.ndarray) else as_folded
    return Prepared(seen(features, scaling), scaling)


def fit_scale(features: np.ndarray) -> Scaling:
    """Return the scale fitted on an evenly spaced sample of features."""
    size = sample_size(features.shape[1])
    return fit_pool_scaling(np.asarray(features[:: max(1, len(features) // size)], np.float64))


def sample_size(d: int) -> int:
    """Return the maximum number of rows with d features that the scale is fitted on."""
    return max(SAMPLE, 5 * d)


def on_scale(features: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Return scaled features (m, d) in single precision."""
    center, factor = scaling.center.astype(np.float32), np.float32(scaling.scale)
    matrix = None if scaling.matrix is None else scaling.matrix.astype(np.float32)
    scaled = np.empty(features.shape, np.float32)
    for at in range(0, len(features), BLOCK):
        part = np.subtract(features[at : at + BLOCK], center, dtype=np.float32)
        np.multiply(part if matrix is None else part @ matrix, factor, out=scaled[at : at + BLOCK])
    return scaled


def as_folded(features: np.ndarray, scaling: Scaling) -> Scaled:
    """Return scaled features without copying them."""
    matrix = np.eye(features.shape[1]) if scaling.matrix is None else scaling.matrix
    return Scaled(features, scaling.center, scaling.scale * matrix)


def _file_of(features: object) -> mmap.mmap | None:
    """Return the open file behind memory-mapped features; None if they are in memory."""
    while isinstance(features, np.ndarray):
        features = features.base
    return features if isinstance(features, mmap.mmap) else None


class Rows:
    """Features by id; rows can be added.

    ready : the features are scaled already, by `given` if that is known
    """

    make_pool: "Callable[..., Pool] | None" = None  # another kind of pool, for features in shards

    def __init__(
        self, ids: Sequence[str], features: np.ndarray, *, ready: bool = False, given: Scaling | None = None
    ) -> None:
        self.ids = ids if isinstance(ids, Numbered) else IdList(ids)
        self.features, self.ready, self.given = features, ready, given
        self._file = _file_of(features)
        self._size, self._cut = 0 if self._file is None else self._file.size(), False
        self._buffer: np.ndarray | None = None
        self._fitted: tuple[int, Scaling] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self.ids

    @property
    def position(self) -> Any:
        """The row of each id."""
        return self.ids.position

    def refusal(self) -> Refused | None:
        """Return an error if the feature file was truncated: reading it would crash the process."""
        size = 0 if self._file is None else self._file.size()  # of the open file, even if it was moved
        self._cut = self._cut or size < self._size  # permanent: a file that grew again may hold anything
        if not self._cut:
            return None
        return Refused(
            503,
            "features_gone",
            f"nothing is saved: the feature file was cut off, it had {self._size:,} bytes; stop the server, "
            "restore the file, and start again. All acknowledged answers are in the log",
        )

    def add(self, ids: Sequence[str], features: np.ndarray) -> None:
        """Append the features of new ids."""
        n, total = len(self.ids), len(self.ids) + len(ids)
        if self._buffer is None or len(self._buffer) < total:
            self._buffer = np.empty((total + total // 2, self.features.shape[1]), self.features.dtype)
            self._buffer[:n] = self.features
        self._buffer[n:total] = features
        self.features = self._buffer[:total]
        self.ids.extend(ids)

    def of(self, ids: Sequence[str]) -> np.ndarray:
        """Return the raw features of ids in their order; a view if their rows are adjacent."""
        first = self.position[ids[0]] if len(ids) else 0
        if list(self.ids[first : first + len(ids)]) == list(ids):
            return self.features[first : first + len(ids)]
        return self.features[[self.position[name] for name in ids]]

    def scaling(self, ids: Sequence[str], n: int) -> Scaling | None:
        """Return the scale fitted on the first n ids."""
        if self.ready:
            return self.given
        if self._fitted is None or self._fitted[0] != n:
            self._fitted = n, fit_scale(self.of(ids[:n]))
        return self._fitted[1]

    def is_folded(self, n: int) -> bool:
        """Return whether a model of n rows folds the scale into its products instead of copying rows."""
        return not self.ready and n * self.features.shape[1] > FOLDED_FROM

    def on_scale(
        self, ids: Sequence[str], start: int, stop: int, scaling: Scaling | None, folded: bool = False
    ) -> "np.ndarray | Scaled":
        """Return the features of ids[start:stop] on the scale that the model sees."""
        features = self.of(ids[start:stop])
        if self.ready or scaling is None:
            return features
        return as_folded(features, scaling) if folded else on_scale(features, scaling)

    def close(self) -> None:
        """Release features held outside this process; there are none here."""

    def scale_is_stale(self, fitted_on: int, n: int) -> bool:
        """Return whether a pool of n items has outgrown a scale fitted on `fitted_on` items."""
        return not self.ready and fitted_on < sample_size(self.features.shape[1]) and n >= GROWN * fitted_on
