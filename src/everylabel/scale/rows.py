"""The features of a project in shards, for its desk: ids are row numbers, and pools are `ShardPool`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.data.numbered import Numbered
from everylabel.labelling.rows import Rows
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.pool import ShardPool


def make_pool(features: Any, posterior: Posterior, known: Mapping[str, Any], exact: bool) -> ShardPool:
    """Return a pool over shards, which learns by one step whatever its size."""
    return ShardPool(features, posterior, step_size="auto", closed_form=True, **known)


class ShardRows(Rows):
    """Features by row number; no copy on scale is ever made."""

    make_pool = staticmethod(make_pool)
    features: Any

    def __init__(self, features: ShardedFeatures) -> None:
        super().__init__(Numbered(len(features)), features)  # type: ignore[arg-type]

    def add(self, ids: Sequence[str], features: np.ndarray) -> None:
        """Refuse: shards are what they are."""
        raise EverylabelError("shards do not grow while they are labelled; put more rows into another folder")

    def folds(self, n: int) -> bool:
        return True

    def close(self) -> None:
        """Let go of the actors."""
        self.features.close()
