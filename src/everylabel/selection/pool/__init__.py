"""The pool that strategies choose from."""

from everylabel.selection.pool.pool import Pool
from everylabel.selection.pool.view import PoolView, Where

__all__ = ["Pool", "PoolView", "Where"]
