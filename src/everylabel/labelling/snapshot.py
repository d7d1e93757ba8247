"""What people said, at one moment, in copies: all that an export or a training needs, on any thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everylabel.labelling.ledger import Answer, Ledger


class Snapshot(NamedTuple):
    """Class names, the class of each labelled item, every answer that stands, and when each was given.

    aside : items whose labels were set aside, because their content changed
    """

    classes: list[str]
    labels: dict[int, int]
    answers: dict[int, list[Answer]]
    times: dict[int, float]  # of an answer, by its number
    names: dict[int, np.ndarray]  # vectors of class names that teach
    aside: list[int]

    @classmethod
    def of(cls, ledger: Ledger, names: bool | None = None) -> Snapshot:
        """Return what a ledger says now; names=True or False: whether class names teach, whatever it says."""
        answers = {item: list(given) for item, given in ledger.answers.items()}
        taught = ledger.teaching() if names is None else dict(ledger.vectors) if names else {}
        times = {entry.seq: entry.at for entry in ledger.history}
        labels, aside = dict(ledger.labels), ledger.set_aside()
        return cls(list(ledger.classes), labels, answers, times, taught, aside)
