"""What the model that all labels make says of each label without it: the same for page, API and `export`.

The page trains it when a queue is looked at and labels have come since, beside the desk and from the weights
that it has, which are nearly there.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from everylabel.labelling.assessing import left_out
from everylabel.labelling.learner import Learner, ruled_out
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.left_out import LeftOut
from everylabel.labelling.replay import Start, start_of
from everylabel.models.names import NameRows


class Doubts(NamedTuple):
    """Copies of what doubts are found from."""

    of_what: tuple[int, ...]  # the same while nothing has changed
    start: Start
    names: NameRows | None
    mean: np.ndarray | None  # to begin with

    @classmethod
    def of(cls, ledger: Ledger, learner: Learner) -> "Doubts":
        """Return them as they are now; for the desk's thread."""
        start, mean = start_of(ledger), np.array(learner.pool.posterior.mean)
        names = learner.rows_of(start.names)
        here = ledger.n_changes, ledger.n_names, len(learner.pool), int(start.names_hold), start.n_classes
        return cls(here, start, names, mean if mean.shape[1] == start.n_classes else None)

    def found(self, features: np.ndarray) -> Mapping[int, LeftOut]:
        """Return what the model says of each label without it."""
        start = self.start
        return left_out(features, start.labels, start.columns, self.names, ruled_out(start.places), self.mean)
