"""Features of a shard that the model sees through a linear map, without a copy of them.

x (n, p) as they lie in a file, h = [x 1] T the design (n, d):
    H w = X (T w)[:-1] + (T w)[-1]          diag(H S H') = diag([X 1] (T S T') [X 1]')
"""

from typing import Any, NamedTuple

import numpy as np

from everylabel.selection.pool.features import Features


class Map(NamedTuple):
    """How the model sees features: with a bias column or not, through T (p + 1, d) if there is one."""

    bias: bool
    matrix: np.ndarray | None = None


class Mapped(Features):
    """Products with the design of a shard."""

    def __init__(self, array: np.ndarray, how: Map) -> None:
        self._hold(array, how.bias or how.matrix is not None)
        self.matrix = how.matrix

    def rows(self, idx: Any, dtype: Any = np.float64) -> np.ndarray:
        if self.matrix is None:
            return super().rows(idx, dtype)
        return (super().rows(idx, np.float64) @ self.matrix).astype(dtype)

    def product(self, weights: np.ndarray) -> np.ndarray:
        return super().product(weights if self.matrix is None else self.matrix @ weights)

    def quadratic(self, cov: np.ndarray) -> np.ndarray:
        return super().quadratic(cov if self.matrix is None else self.matrix @ cov @ self.matrix.T)

    def norms(self) -> np.ndarray:
        if self.matrix is None:
            return super().norms()
        return super().quadratic(self.matrix @ self.matrix.T)
