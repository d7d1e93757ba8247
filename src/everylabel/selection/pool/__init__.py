"""The pool that strategies choose from."""

from everylabel.selection.pool.local import Pool
from everylabel.selection.pool.state import Where
from everylabel.selection.pool.view import PoolView

__all__ = ["Pool", "PoolView", "Where"]
