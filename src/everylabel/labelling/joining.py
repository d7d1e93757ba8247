"""Items that arrive while people label: their features join the pool, and their labels are learned."""

from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from everylabel.data.classes import (
    MOST_CLASSES,
    OPTIONS,
    check_class_count,
    class_names_in,
    clean_name,
    names_in,
)
from everylabel.data.digests import features_digest
from everylabel.data.items import stored_ids
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import GIVEN, IMPORT, Refused, Suggestion
from everylabel.log import events

CHANGED = "network_changed"  # code of the refusal if features come from an encoder that is no longer in use


@dataclass
class Arriving:
    """The progress of arriving items, for display."""

    coming: int = 0  # known items that are not in the pool yet
    joined: int = 0  # items that have joined since the start
    problem: str = ""  # the problem with the source, if any


def join(
    desk: Desk,
    ids: Sequence[str],
    features: np.ndarray,
    labels: Mapping[str, str] | None = None,
    test: Container[str] = (),
    sent: Mapping[str, Mapping[str, Any]] | None = None,
    content: Sequence[Any] = (),
) -> "Future[int]":
    """Add items to the pool, in this order; the future holds the number of new ones.

    Their labels (id -> class name) are learned by the next training in the background, so that nobody waits.
    Items in `test` are held out as test items. `sent` holds items sent through the API, by id, which are
    written to the log.
    """
    labels, generation = labels or {}, desk.generation
    tuned = features if generation is None else generation.embed(content)

    def command() -> Finish:
        if desk.generation is not generation:
            raise Refused(409, CHANGED, "the network has learned meanwhile; send the items again")
        fresh = [i for i, name in enumerate(ids) if name not in desk.state.position]
        brought = {ids[i]: labels[ids[i]] for i in fresh if ids[i] in labels}
        named = new_classes(desk.state, brought.values())
        n_classes = len(desk.state.book.order) + len(named)
        if named and n_classes > MOST_CLASSES:
            message = f"classes would be {n_classes:,}; expected {MOST_CLASSES:,} at most{OPTIONS}"
            raise Refused(409, "too_many_classes", message)
        for rows, values in {desk.frozen_rows: features, desk.rows: tuned}.items():
            unknown = [i for i, name in enumerate(ids) if name not in rows]
            if unknown:
                rows.add([ids[i] for i in unknown], values[unknown])
        if fresh:
            digest = features_digest(np.asarray(features[fresh]))
            written = None if sent is None else [dict(sent[ids[i]]) for i in fresh]
            desk.emit("", events.Extended(stored_ids([ids[i] for i in fresh]), digest, written))
        for name in (ids[i] for i in fresh if ids[i] in test):
            desk.emit("", events.HeldOut(name))
        for name in named:
            class_number(desk, name)
        if brought and GIVEN in desk.state.suggestions:  # people review the source's labels
            given = {item: Suggestion(class_number(desk, name)) for item, name in brought.items()}
            write_suggestions(desk, IMPORT, GIVEN, given)
        else:
            for name, text in brought.items():
                desk.emit(IMPORT, imported_label(desk.state, name, text, "source"))
        return lambda: len(fresh)

    return desk.submit(command, alone=True)


def new_classes(state: State, labels: Iterable[str]) -> list[str]:
    """Return the names of classes in these labels that the project has never had."""
    named = class_names_in(labels) if state.multi_label else labels
    return list(dict.fromkeys(clean for name in named if (clean := clean_name(name)) not in state.names))


def imported_label(state: State, item: str, text: str, origin: str) -> events.Label | events.MultiLabel:
    """Return the event of a label from the source or a file; its classes must exist."""
    if not state.multi_label:
        return events.Label(item, class_=state.names[clean_name(text)], imported=origin)
    named = names_in(text)
    present = [state.names[clean_name(name)] for name in named.present]
    absent = (
        [*state.book.present] if named.absent is None else [state.names[clean_name(c)] for c in named.absent]
    )
    return events.MultiLabel(item, sorted({*present}), sorted({*absent} - {*present}), imported=origin)


class Writer(Protocol):
    """Writes events: the desk while people label, or the start of a project."""

    @property
    def state(self) -> State:
        """Return the state after the events so far."""

    def emit(self, person: str, body: events.Body) -> object:
        """Apply an event to the state, and write it later."""


def class_number(writer: Writer, name: str) -> int:
    """Return a class's number; add the class if its name is new."""
    clean, state = clean_name(name), writer.state
    if clean not in state.names:
        check_class_count([*(state.classes[c] for c in state.book.order), clean])
        writer.emit(IMPORT, events.NewClass(clean))
    return state.names[clean]


def write_suggestions(
    writer: Writer, person: str, source: str, said: Mapping[str, Suggestion], columns: Sequence[str] = ()
) -> int:
    """Write those of a source's suggestions (by item) that it has not made before; return their number."""
    before = writer.state.suggestions.get(source, {})
    new = {name: one for name, one in said.items() if before.get(name) != one}
    if not new:
        return 0
    scores = [one.score for one in new.values()]
    over = sorted({number for one in new.values() for number in one.probs})
    rows = [[one.probs.get(number, 0.0) for number in over] if one.probs else None for one in new.values()]
    body = events.Suggested(
        source,
        items=list(new),
        classes=[one.class_ for one in new.values()],
        scores=scores if any(score is not None for score in scores) else None,
        columns=list(columns),
        over=over,
        probabilities=rows if over else None,
    )
    writer.emit(person, body)
    return len(new)
