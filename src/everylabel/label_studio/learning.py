"""Annotations and tasks of Label Studio as events of a project's log."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import (
    Annotation,
    AnswerIds,
    LoggedAnnotation,
    LoggedAnnotations,
    choices_of,
    deletion_key,
    key_of,
    same,
)
from everylabel.label_studio.api import Json
from everylabel.label_studio.configuration import Configuration
from everylabel.labelling.desk import Finish
from everylabel.labelling.service import SentSuggestion, Service, suggest
from everylabel.labelling.state.state import State
from everylabel.log import events
from everylabel.projects.log import LONGEST_PERSON

logger = logging.getLogger(__name__)
AT_ONCE = 200  # annotations per round of the desk
LATER = 2  # annotations in a round from which on the next training learns them, not an update
FROM = "label studio"  # the origin of such labels
UNNAMED = "predictions"  # source of predictions without a model version


class Learning:
    """Annotations of Label Studio as answers of a project."""

    def __init__(self, service: Service, configuration: Configuration, marks: AnswerIds) -> None:
        self.service, self.desk, self.configuration = service, service.desk, configuration
        self.marks, self._book = marks, LoggedAnnotations()
        self._touched: dict[int, int] = {}  # annotation -> the count at its last webhook
        self._removing = set[int]()  # annotations that we delete
        self._count = 0

    @property
    def state(self) -> State:
        return self.desk.state

    def mark(self) -> "Future[int]":
        """Return a mark: a reading of the API after it is out of date for annotations received later."""
        return self.desk.read(lambda: self._count)

    def receive(self, annotation: Annotation) -> "Future[int]":
        """Learn an annotation from a webhook; return whether it was news."""

        def learn() -> int:
            known = self.known().get(annotation.id)
            is_deleted = known is not None and known.deleted
            news = 0 if is_deleted else self._take_in([annotation])
            self._touch(annotation.id)
            return news

        return self._submit(learn)

    def deleted(self, numbers: Sequence[int]) -> "Future[int]":
        """Take back annotations that a webhook reports as deleted; return how many were news."""

        def take_back() -> int:
            for number in numbers:
                self._touch(number)
            return sum(self._take_back(number) for number in numbers if number not in self._removing)

        return self._submit(take_back)

    def tasks_gone(self, names: Collection[str]) -> "Future[int]":
        """Remove tasks from the pool; return how many were in it."""
        return self._emit(lambda: [events.Missing(name) for name in names if self._in_pool(name)])

    def tasks_there(self, names: Collection[str]) -> "Future[int]":
        """Bring tasks back into the pool; return how many had left it."""

        def back() -> list[events.Body]:
            gone = [self.state.ids[item] for item in self.state.missing]
            return [events.Missing(name, back=True) for name in gone if name in names]

        return self._emit(back)

    def add_classes(self) -> "Future[int]":
        """Add the classes of the configuration that are missing; return how many."""
        names = self.configuration.classes
        return self._emit(lambda: [events.NewClass(name) for name in names if name not in self.state.names])

    def suggest(self, predictions: Iterable[Json]) -> int:
        """Save stored predictions as suggestions of their model version; return how many are new.

        Those without one choice of the configuration, or about a task outside the pool, are left out.
        """
        if self.state.multi_label:
            return 0
        known, control = self.configuration.classes, self.configuration.control
        found: dict[str, list[SentSuggestion]] = {}
        for one in predictions:
            task, score = str(one.get("task")), one.get("score")
            choices = choices_of(one.get("result"), control)
            name = self.configuration.class_of(choices[0]) if len(choices) == 1 else ""
            if name in known and self.state.book.named(name) is not None and task in self.state.position:
                sure = score if isinstance(score, int | float) and 0 <= score <= 1 else None
                version = str(one.get("model_version") or UNNAMED)[:LONGEST_PERSON]
                found.setdefault(version, []).append(SentSuggestion(task, name, sure))
        saved = [suggest(self.service, "", source, said) for source, said in found.items()]
        return sum(each.result()["new"] for each in saved)

    def compare(self, there: Sequence[Annotation], mark: int) -> int:
        """Bring the log up to date with a reading of the API after `mark`; return the number of changes."""
        numbers, news = {annotation.id for annotation in there}, 0

        def learn(some: Sequence[Annotation]) -> int:
            return self._take_in([each for each in some if not self._later(each.id, mark)])

        def take_back() -> int:
            gone = [
                number
                for number, one in self.known().items()
                if not (one.deleted or number in numbers or self._later(number, mark))
            ]
            return sum(self._take_back(number) for number in gone)

        for start in range(0, len(there), AT_ONCE):
            news += self._submit(partial(learn, there[start : start + AT_ONCE]), alone=True).result()
        return news + self._submit(take_back, alone=True).result()

    def known(self) -> dict[int, LoggedAnnotation]:
        """Return all annotations in the log, by id; for the desk's thread."""
        return self._book.of(self.state)

    def sent(self, annotation: Annotation) -> "Future[int]":
        """Record that an answer of ours is an annotation now; return whether that was news."""
        return self._submit(lambda: self._sent(annotation))

    def removed(self, number: int) -> "Future[int]":
        """Record that an annotation of ours was deleted since its answer no longer stands."""

        def record() -> int:
            known = self.known().get(number)
            if known is None or known.deleted:
                return False
            self.desk.emit(known.person, events.Sent(known.seq), deletion_key(number, self.state))
            return True

        return self._submit(record)

    def removing(self, number: int) -> "Future[None]":
        """Announce that we delete an annotation, so that its webhook is ignored."""

        def look() -> None:
            self._touch(number)
            self._removing.add(number)

        return self.desk.read(look)

    def _emit(self, found: Callable[[], list[events.Body]]) -> "Future[int]":
        """Emit events that are found in the desk's thread; return their number once they are saved."""

        def emit() -> int:
            bodies = found()
            for body in bodies:
                self.desk.emit("", body)
            return len(bodies)

        return self._submit(emit)

    def _submit(self, work: Callable[[], int], alone: bool = False) -> "Future[int]":
        """Do work that emits events in the desk's thread; return its result once they are saved."""

        def command() -> Finish:
            result = work()
            return lambda: result

        return self.desk.submit(command, alone=alone)

    def _sent(self, annotation: Annotation) -> bool:
        """Record an annotation that is an answer of ours, once; return whether that was news."""
        seq = self.marks.seq(annotation.unique_id)
        entry = None if seq is None or annotation.id in self.known() else self.state.history.get(seq)
        if entry is None or entry.body.item != annotation.task:
            return False
        self.desk.emit(entry.person, events.Sent(entry.seq), key_of(annotation, self.state))
        return True

    def _touch(self, number: int) -> None:
        self._count += 1
        self._touched[number] = self._count

    def _later(self, number: int, mark: int) -> bool:
        """Return whether an annotation had a webhook after a mark."""
        return self._touched.get(number, 0) > mark

    def _in_pool(self, name: str) -> bool:
        item = self.state.position.get(name)
        return item is not None and item not in self.state.missing

    def _take_in(self, annotations: Sequence[Annotation]) -> int:
        """Learn the annotations that differ from the log; return how many."""
        news = [each for each in annotations if not self._sent(each) and self._is_news(each)]
        return sum(self._learn(each, later=len(news) >= LATER) for each in news)

    def _is_news(self, annotation: Annotation) -> bool:
        """Return whether an annotation differs from the log."""
        known = self.known().get(annotation.id)
        if not self._in_pool(annotation.task) or (known is not None and annotation.updated < known.updated):
            return False
        if known is None or known.deleted:
            return True
        try:
            return not same(known, annotation.person, self._body(annotation), self.state)
        except EverylabelError as error:
            logger.warning("annotation %s is ignored: %s", annotation.id, error)
            return False

    def _learn(self, annotation: Annotation, later: bool = False) -> bool:
        """Emit an annotation as an answer, in place of its earlier one; return whether it is valid."""
        try:
            body = self._body(annotation, new=True, later=later)
        except EverylabelError as error:  # such as an invalid class name: nothing was emitted
            logger.warning("annotation %s is ignored: %s", annotation.id, error)
            return False
        known = self.known().get(annotation.id)
        self.desk.emit(annotation.person, body, key_of(annotation, self.state))
        if known is not None:
            self._undo(known)
        return True

    def _body(self, annotation: Annotation, new: bool = False, later: bool = False) -> events.Answered:
        """Return an annotation as an answer; new: a class that is missing is added."""
        if annotation.skipped:
            return events.Skip(annotation.task)
        several, names = self.state.multi_label, list(map(self.configuration.class_of, annotation.choices))
        if len(names) != 1 and not several:
            return events.CannotTell(annotation.task)
        for name in dict.fromkeys(names) if new else ():
            if name not in self.state.names:
                self.desk.emit(annotation.person, events.NewClass(name))
        numbers = sorted({self.state.names.get(name, -1) for name in names})
        how: dict[str, Any] = {"imported": FROM if later else False, "truth": annotation.truth}
        if new and not later:
            how |= self.service.views.guess_fields(self.state.position[annotation.task])
        if not several:
            return events.Label(annotation.task, class_=numbers[0], **how)
        others = [number for number in self.state.book.present if number not in numbers]
        return events.MultiLabel(annotation.task, numbers, others, **how)

    def _take_back(self, number: int) -> bool:
        """Emit that an annotation was deleted; return whether that was news."""
        known = self.known().get(number)
        if known is None or known.deleted:
            return False
        return self._undo(known, deletion_key(number, self.state))

    def _undo(self, known: LoggedAnnotation, key: str | None = None) -> bool:
        seq = known.seq
        if seq in self.state.undone or seq not in self.state.history:
            return False
        self.desk.emit(known.person, events.Undo(seq), key)
        return True
