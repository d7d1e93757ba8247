"""A page of class probabilities: logits that the desk has copied, made into numbers beside it, in blocks."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.softmax import softmax

MOST_NUMBERS = 10**6  # probabilities of a page; where classes are many it has fewer rows
BLOCK = 20_000  # probabilities that are made at a time


class Page(NamedTuple):
    """Instances that have no label, and what the model makes of them."""

    ids: list[str]
    classes: list[str]
    logits: np.ndarray  # (m, columns of the model), a copy
    shown: list[int]  # the column of each class
    total: int  # how many there are, on all pages
    after: int | None  # what the next page is asked for by; None: this is the last

    def blocks(self) -> Iterator[list[list[float]]]:
        """Yield the probabilities, some rows at a time."""
        at_once = max(1, BLOCK // max(1, self.logits.shape[1]))
        for start in range(0, len(self.logits), at_once):
            probs = np.asarray(softmax(self.logits[start : start + at_once]))
            yield probs[:, self.shown].round(6).tolist()

    def about(self) -> dict[str, Any]:
        """Return all but the probabilities."""
        return {"ids": self.ids, "classes": self.classes, "total": self.total, "after": self.after}


def rows_of_page(limit: int, n_columns: int) -> int:
    """Return how many instances a page has, of those that are asked for."""
    return max(1, min(limit, MOST_NUMBERS // max(1, n_columns)))
