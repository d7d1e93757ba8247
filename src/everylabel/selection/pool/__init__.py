"""The pool that strategies choose from."""

from everylabel.selection.pool.local import Pool
from everylabel.selection.pool.state import Where

FREE, LABELLED, OUT, ASIDE = Where

__all__ = ["ASIDE", "FREE", "LABELLED", "OUT", "Pool", "Where"]
