"""The probability of each label by a model that has not seen it: the same for page, API and `export`.

The page trains that model when a queue is opened and labels have come since, beside the desk and from the
current weights, which are nearly right.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import TrainingSet
from everylabel.labelling.quality.assessment import CrossFitted, left_out
from everylabel.labelling.quality.left_out import LeftOut
from everylabel.models.names import NameRows


class Doubts(NamedTuple):
    """Copies of all that the left-out probabilities are computed from."""

    version: tuple[int, ...]  # the same while nothing has changed
    training: TrainingSet
    names: NameRows | None
    mean: np.ndarray | None  # starting point of the training
    cross_fitted: CrossFitted

    @classmethod
    def of(cls, desk: Desk) -> "Doubts":
        """Return copies of the current state; for the desk's thread."""
        training, learner = desk.training_set(), desk.learner
        mean = np.array(learner.pool.posterior.mean)
        names, rows = id(learner.names), id(desk.rows)
        version = desk.state.n_changes, names, rows, len(learner.pool), training.n_classes
        start = mean if mean.shape[1] == training.n_classes else None
        return cls(version, training, learner.names, start, desk.cross_fitted())

    def found(self, features: np.ndarray) -> Mapping[int, LeftOut]:
        """Return the model's verdict on each label without it."""
        training = self.training
        known = training.labels(), training.columns, self.names, training.ruled_out()
        return left_out(features, *known, self.mean, self.cross_fitted)
