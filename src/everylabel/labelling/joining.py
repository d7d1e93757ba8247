"""Items that come while people label: their features join the pool, and labels they bring are learned."""

from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from everylabel.data.classes import clean_name
from everylabel.data.digests import features_digest
from everylabel.data.items import stored_ids
from everylabel.data.label_lists import class_names_in, names_in
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import GIVEN, IMPORT, Refused
from everylabel.log import events

CHANGED = "network_changed"  # code of the refusal of features by an encoder that is not in use any more


@dataclass
class Arriving:
    """How far what comes has come, for those who look on."""

    coming: int = 0  # items that are known and not in the pool yet
    joined: int = 0  # items that have joined since the start
    told: str = ""  # what is wrong with the source


def join(
    desk: Desk,
    ids: Sequence[str],
    features: np.ndarray,
    labels: Mapping[str, str] | None = None,
    test: Container[str] = (),
    sent: Mapping[str, Mapping[str, Any]] | None = None,
    content: Sequence[Any] = (),
) -> "Future[int]":
    """Have items join the pool, in this order; the future holds how many of them were not there before.

    Their labels, names of classes by id, are learned by the next training in the background: a thousand of
    them keep nobody waiting. Those that are for `test` are never learned from. What is `sent` by itself is
    written in the log, by id.
    """
    labels, generation = labels or {}, desk.generation
    tuned = features if generation is None else generation.embed(content)

    def command() -> Finish:
        if desk.generation is not generation:
            raise Refused(409, CHANGED, "the network has learned meanwhile; send the items again")
        for rows, values in {desk.frozen_rows: features, desk.rows: tuned}.items():
            unknown = [i for i, name in enumerate(ids) if name not in rows]
            if unknown:
                rows.add([ids[i] for i in unknown], values[unknown])
        fresh = [i for i, name in enumerate(ids) if name not in desk.state.position]
        if fresh:
            digest = features_digest(np.asarray(features[fresh]))
            written = None if sent is None else [dict(sent[ids[i]]) for i in fresh]
            desk.emit("", events.Extended(stored_ids([ids[i] for i in fresh]), digest, written))
        for name in (ids[i] for i in fresh if ids[i] in test):
            desk.emit("", events.HeldOut(name))
        brought = {ids[i]: labels[ids[i]] for i in fresh if ids[i] in labels}
        for one in class_names_in(brought.values()) if desk.state.multi_label else brought.values():
            _number(desk, one)
        if brought and GIVEN in desk.state.suggestions:  # people review the labels of the source
            numbers = [_number(desk, one) for one in brought.values()]
            desk.emit(IMPORT, events.Suggested(GIVEN, list(brought), numbers))
        else:
            for name, text in brought.items():
                desk.emit(IMPORT, imported_label(desk.state, name, text, "source"))
        return lambda: len(fresh)

    return desk.submit(command, alone=True)


def imported_label(state: State, item: str, text: str, origin: str) -> events.Label | events.MultiLabel:
    """Return a label that came with the source or a file; its classes are known."""
    if not state.multi_label:
        return events.Label(item, class_=state.names[clean_name(text)], imported=origin)
    named = names_in(text)
    present = [state.names[clean_name(name)] for name in named.present]
    absent = (
        [*state.book.present] if named.absent is None else [state.names[clean_name(c)] for c in named.absent]
    )
    return events.MultiLabel(item, sorted({*present}), sorted({*absent} - {*present}), imported=origin)


def _number(desk: Desk, name: str) -> int:
    """Return a class's number; one never seen before is added."""
    clean = clean_name(name)
    if clean not in desk.state.names:
        desk.emit(IMPORT, events.NewClass(clean))
    return desk.state.names[clean]
