"""The pool that strategies choose from."""

from everylabel.selection.pool.local import ASIDE, FREE, LABELLED, OUT, Pool

__all__ = ["ASIDE", "FREE", "LABELLED", "OUT", "Pool"]
