"""Selection: the pool, strategies that choose the next instance from it, and look-ahead."""

from everylabel.selection.lookahead.optimal import optimal_batch
from everylabel.selection.pool import Pool
from everylabel.selection.select import select, select_question
from everylabel.selection.strategies import strategies

__all__ = ["Pool", "optimal_batch", "select", "select_question", "strategies"]
