"""The test set as a table: what people said of each item, and what the model that never saw that says."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from everylabel.formats.item_columns import ItemColumns
from everylabel.formats.records import named, predicted
from everylabel.formats.tables import Records
from everylabel.labelling.state.types import Value

COLUMNS: dict[str, type] = {"label": str, "predicted": str, "probability": float}


def held_out_records(
    about: ItemColumns,
    test: Mapping[int, Value],
    probabilities: Callable[[np.ndarray], np.ndarray],
    classes: Sequence[str],
    thresholds: np.ndarray | None = None,
) -> Records:
    """Return a row for each test item that has a label, in the order of the source."""
    items = np.array(sorted(test), dtype=np.int64)
    probs = probabilities(items)
    pairs = zip(items.tolist(), probs, strict=True)
    rows = ((i, (named(test[i], classes), *predicted(row, classes, thresholds))) for i, row in pairs)
    return about.records(COLUMNS, rows)
