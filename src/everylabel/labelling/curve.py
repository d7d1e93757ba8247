"""What the model expected of itself as labels came, the last for each number of them."""

from array import array
from typing import Any

import numpy as np

from everylabel.labelling.columns import as_array, as_column


class Curve:
    """The mean largest probability, by the number of labels."""

    def __init__(self) -> None:
        self._expected: array[Any] = array("d")  # NaN: nobody has looked

    def add(self, labels: int, expected: float) -> None:
        """Note what is expected after so many labels, in the place of what was."""
        self._expected.extend([np.nan] * (labels + 1 - len(self._expected)))
        self._expected[labels] = expected

    def points(self) -> dict[int, float]:
        """Return all by the number of labels."""
        values = self.packed()
        known = np.flatnonzero(~np.isnan(values))
        return dict(zip(known.tolist(), values[known].tolist(), strict=True))

    def packed(self) -> np.ndarray:
        """Return a copy as an array."""
        return as_array(self._expected)

    @classmethod
    def unpacked(cls, values: np.ndarray) -> "Curve":
        """Return what has been packed."""
        made = cls()
        made._expected = as_column("d", values)
        return made
