"""Items that come while people label: their features join the pool, and labels they bring are learned."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np

from everylabel.data.classes import clean_name
from everylabel.data.digests import features_digest
from everylabel.labelling import events
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.ledger import IMPORT


def join(
    desk: Desk, ids: Sequence[str], features: np.ndarray, labels: Mapping[str, str] | None = None
) -> "Future[int]":
    """Have items join the pool, in this order; the future holds how many of them were not there before.

    Their labels, names of classes by id, are learned by the next training in the background: a thousand of
    them keep nobody waiting.
    """
    labels = labels or {}

    def command() -> Finish:
        unknown = [i for i, name in enumerate(ids) if name not in desk.rows]
        if unknown:
            desk.rows.add([ids[i] for i in unknown], features[unknown])
        fresh = [i for i, name in enumerate(ids) if name not in desk.ledger.position]
        if fresh:
            digest = features_digest(np.asarray(features[fresh]))
            desk.emit("", events.Extended([ids[i] for i in fresh], digest))
        for name in (ids[i] for i in fresh if ids[i] in labels):
            desk.emit(IMPORT, events.Label(name, _number(desk, labels[name]), imported="source"))
        return lambda: len(fresh)

    return desk.submit(command, alone=True)


def _number(desk: Desk, name: str) -> int:
    """Return a class's number; one never seen before is added."""
    clean = clean_name(name)
    if clean not in desk.ledger.names:
        desk.emit(IMPORT, events.NewClass(clean))
    return desk.ledger.names[clean]
