"""Annotations of Label Studio, and the annotations that the log contains.

An annotation is identified by its id and the time of its last change. Webhooks may arrive twice, late or in
any order, and readings of the API repeat them: the latest state of an annotation counts. The keys of events
hold id and time, so the log shows after a restart what was learned.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from everylabel.core.errors import EverylabelError
from everylabel.formats.label_studio import choices_in
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Entry, Value, classes_of
from everylabel.log import events
from everylabel.log.events import Event

START, DELETED = "annotation", "deleted"  # first part of an event's key
KEY = re.compile(rf"{START} (\d+) ({DELETED}|\d+\.\d+) \d+")


class Annotation(NamedTuple):
    """One annotation of a task."""

    id: int
    task: str
    person: str
    updated: float  # seconds since 1970
    choices: tuple[str, ...]  # empty: none of the classes, or in a single-label project no answer
    skipped: bool = False
    truth: bool = False
    unique_id: str = ""


def read_annotation(stored: Any, control: str, task: Any = None) -> Annotation:
    """Return an annotation of a webhook or an export, or raise if it is malformed.

    control : the name of the Choices; task : its id, where the annotation does not name it
    """
    try:
        number, about = int(stored["id"]), int(stored.get("task", task))
        updated = datetime.fromisoformat(stored.get("updated_at") or stored["created_at"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EverylabelError(f"annotation is {stored!r:.80}; expected its id, task and time") from error
    by = stored.get("completed_by")
    return Annotation(
        number,
        str(about),
        f"annotator {(by.get('id') if isinstance(by, Mapping) else by) or 0}",
        updated.timestamp(),
        choices_of(stored.get("result"), control),
        stored.get("was_cancelled") is True,
        stored.get("ground_truth") is True,
        str(stored.get("unique_id") or ""),
    )


def choices_of(result: Any, control: str) -> tuple[str, ...]:
    """Return the choices of an annotation's or prediction's result."""
    named = choices_in({"result": result})
    return tuple(str(choice) for name, choices in named if name == control for choice in choices)


class LoggedAnnotation(NamedTuple):
    """An annotation in the log: its last change, and its answer."""

    updated: float
    seq: int  # number of the answer's event
    person: str
    body: events.Answered
    own: bool = False  # given on everylabel's page, and sent to Label Studio
    deleted: bool = False


class LoggedAnnotations:
    """The annotations of a state, read from the keys of its events as they come."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._known: dict[int, LoggedAnnotation] = {}
        self._read = 0

    def of(self, state: State) -> dict[int, LoggedAnnotation]:
        """Return the annotations by id; for the desk's thread."""
        if state is not self._state:
            self._state, self._known, self._read = state, {}, 0
        for key, event in islice(state.requests.items(), self._read, None):
            self._take(key, event, state)
        self._read = len(state.requests)
        return self._known

    def _take(self, key: str, event: Event, state: State) -> None:
        found = KEY.fullmatch(key)
        if found is None:
            return
        number, stamp = found.groups()
        before = self._known.get(int(number))
        body = event.body
        if stamp == DELETED:
            if before is not None:
                self._known[int(number)] = before._replace(deleted=True)
        elif isinstance(body, events.Sent):
            entry = state.history.get(body.saved)
            if entry is not None:  # else of an item that was removed
                self._known[int(number)] = LoggedAnnotation(
                    float(stamp), entry.seq, entry.person, entry.body, own=True
                )
        elif isinstance(body, events.Answered):
            self._known[int(number)] = LoggedAnnotation(float(stamp), event.seq, event.person, body)


def key_of(annotation: Annotation, state: State) -> str:
    """Return the key of an annotation's event; no other event has it."""
    return f"{START} {annotation.id} {annotation.updated!r} {state.seq + 1}"


def deletion_key(number: int, state: State) -> str:
    """Return the key of the event that deletes an annotation."""
    return f"{START} {number} {DELETED} {state.seq + 1}"


def same(known: LoggedAnnotation, person: str, body: events.Answered, state: State) -> bool:
    """Return whether an annotation in the log has this meaning, with today's classes.

    Our own answers are sent by one user, and answers without a class as skipped. An annotation does not say
    which classes existed at the time, so only the classes that it gives are compared.
    """
    learned = known.body
    if isinstance(learned, events.Classified) or isinstance(body, events.Classified):
        if not (isinstance(learned, events.Classified) and isinstance(body, events.Classified)):
            return False
        before = answer_at(state, state.history.get(known.seq)) if known.own else state.value_of(learned)
        if learned.truth != body.truth or given(before) != given(state.value_of(body)):
            return False
    elif not known.own and type(learned) is not type(body):
        return False
    return not known.deleted and (known.own or known.person == person)


def given(value: Value | None) -> tuple[int, ...]:
    """Return the classes of an answer; empty for one without any."""
    return () if value is None else classes_of(value)


def answer_at(state: State, entry: Entry | None) -> Value | None:
    """Return a person's answer to an item as it stood at an entry; it may add to their earlier ones."""
    if entry is None or not state.multi_label:
        return None if entry is None else state.value_of(entry.body)
    earlier = (e for e in state.by_item[entry.item] if e.person == entry.person and e.seq <= entry.seq)
    return next((answer.value for answer in state.standing(earlier)), None)


class AnswerIds:
    """The unique ids of our own answers in Label Studio; each holds the number of its event."""

    def __init__(self, project: str) -> None:
        self._start = hashlib.sha256(project.encode()).digest()[:8]

    def of(self, seq: int) -> str:
        """Return the unique id of the answer with this event number."""
        return str(UUID(bytes=self._start + seq.to_bytes(8, "big")))

    def seq(self, unique_id: str) -> int | None:
        """Return the event number of a unique id; None if it is not ours."""
        try:
            raw = UUID(unique_id).bytes
        except ValueError:
            return None
        return int.from_bytes(raw[8:], "big") if raw[:8] == self._start else None
