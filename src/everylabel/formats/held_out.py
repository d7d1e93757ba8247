"""The test set as a table: what people said of each item, and what the model that never saw that says."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from everylabel.formats.beside import Beside
from everylabel.formats.tables import Records

COLUMNS: dict[str, type] = {"label": str, "predicted": str, "probability": float}


def held_out_records(
    beside: Beside,
    test: Mapping[int, int],
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
) -> Records:
    """Return a row for each test item that has a label, in the order of the source."""
    items = np.array(sorted(test), dtype=np.int64)
    probs = probabilities(items)
    pairs = zip(items.tolist(), probs.argmax(axis=1).tolist(), probs.max(axis=1).tolist(), strict=True)
    rows = ((i, (classes[test[i]], classes[top], round(sure, 6))) for i, top, sure in pairs)
    return beside.records(COLUMNS, rows)
