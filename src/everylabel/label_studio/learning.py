"""What Label Studio tells, put to the desk: annotations learned and taken back, tasks that come and go."""

import logging
from collections.abc import Collection, Sequence
from concurrent.futures import Future

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import (
    Annotation,
    Book,
    Known,
    Marks,
    deletion_key,
    key_of,
    same,
)
from everylabel.label_studio.configuration import Configuration
from everylabel.labelling.desk import Finish
from everylabel.labelling.service import Service
from everylabel.labelling.state.state import State
from everylabel.log import events

logger = logging.getLogger(__name__)
AT_ONCE = 200  # annotations that one round of the desk takes
LATER = 2  # of a round: from so many on they are learned by the next training, in the background
FROM = "label studio"  # where such labels came from


class Learning:
    """A project's service, taught by annotations."""

    def __init__(self, service: Service, configuration: Configuration, marks: Marks) -> None:
        self.service, self.desk, self.configuration = service, service.desk, configuration
        self.marks, self._book = marks, Book()
        self._touched: dict[int, int] = {}  # annotation -> when it was told last, counted
        self._gone: dict[int, int] = {}  # annotations that were deleted before we knew them, likewise
        self._removing = set[int]()  # annotations that we delete ourselves
        self._count = 0

    @property
    def state(self) -> State:
        return self.desk.state

    def mark(self) -> "Future[int]":
        """Return where we are: what a later look at the API says of things told after this is out of date."""
        return self.desk.read(lambda: self._count)

    def told(self, annotation: Annotation) -> "Future[bool]":
        """Learn an annotation that a webhook has told; whether it was news."""

        def command() -> Finish:
            known = self.known().get(annotation.id)
            over = annotation.id in self._gone or (
                known is not None and known.deleted
            )  # ids are never used again
            news = not over and not self._sent(annotation) and self._learn(annotation)
            self._touch(annotation.id)
            return lambda: news

        return self.desk.submit(command)

    def deleted(self, numbers: Sequence[int]) -> "Future[int]":
        """Take annotations back that a webhook says are deleted; how many were news."""

        def command() -> Finish:
            for number in numbers:
                self._touch(number)
                self._gone[number] = self._count
            news = sum(self._take_back(number) for number in numbers if number not in self._removing)
            return lambda: news

        return self.desk.submit(command)

    def tasks_gone(self, names: Collection[str]) -> "Future[int]":
        """Have tasks leave the pool."""

        def command() -> Finish:
            gone = [name for name in names if self._is_here(name)]
            for name in gone:
                self.desk.emit("", events.Left(name))
            return lambda: len(gone)

        return self.desk.submit(command)

    def tasks_there(self, names: Collection[str]) -> "Future[int]":
        """Have tasks that left come back; how many."""

        def command() -> Finish:
            back = [name for item in self.state.left if (name := self.state.ids[item]) in names]
            for name in back:
                self.desk.emit("", events.Left(name, back=True))
            return lambda: len(back)

        return self.desk.submit(command)

    def add_classes(self) -> "Future[int]":
        """Add the classes of the configuration that are not there; how many."""

        def command() -> Finish:
            new = [name for name in self.configuration.classes if name not in self.state.names]
            for name in new:
                self.desk.emit("", events.NewClass(name))
            return lambda: len(new)

        return self.desk.submit(command)

    def compare(self, there: Sequence[Annotation], mark: int) -> int:
        """Bring all up to date with what the API had after a mark; return how many annotations were news."""
        news = 0
        for start in range(0, len(there), AT_ONCE):
            news += self._compare(there[start : start + AT_ONCE], mark).result()
        numbers = {annotation.id for annotation in there}

        def missing() -> list[int]:
            known = self.known()
            return [
                number
                for number, one in known.items()
                if not (one.deleted or number in numbers or self._later(number, mark))
            ]

        gone: list[int] = self.desk.read(missing).result()
        for start in range(0, len(gone), AT_ONCE):
            news += self._back(gone[start : start + AT_ONCE]).result()
        return news

    def _compare(self, some: Sequence[Annotation], mark: int) -> "Future[int]":
        def command() -> Finish:
            fresh = [each for each in some if not self._later(each.id, mark) and not self._sent(each)]
            fresh = [each for each in fresh if self._is_news(each)]
            news = sum(self._learn(each, later=len(fresh) >= LATER) for each in fresh)
            return lambda: news

        return self.desk.submit(command, alone=True)

    def _back(self, numbers: Sequence[int]) -> "Future[int]":
        def command() -> Finish:
            news = sum(self._take_back(number) for number in numbers)
            return lambda: news

        return self.desk.submit(command, alone=True)

    def known(self) -> dict[int, Known]:
        """Return all annotations that the log knows; for the desk's thread."""
        return self._book.of(self.state)

    def sent(self, annotation: Annotation) -> "Future[bool]":
        """Note that an answer of ours is an annotation now, unless that is known."""

        def command() -> Finish:
            news = self._sent(annotation)
            return lambda: news

        return self.desk.submit(command)

    def removed(self, number: int) -> "Future[bool]":
        """Note that an annotation of ours is no more, because the answer is none any more."""

        def command() -> Finish:
            known = self.known().get(number)
            news = known is not None and not known.deleted
            if known is not None and news:
                self.desk.emit(known.person, events.Sent(known.seq), deletion_key(number, self.state))
            return lambda: news

        return self.desk.submit(command)

    def removing(self, number: int) -> "Future[None]":
        """Expect to be told that an annotation is deleted: by us."""

        def look() -> None:
            self._touch(number)
            self._removing.add(number)

        return self.desk.read(look)

    def _sent(self, annotation: Annotation) -> bool:
        """Note an annotation that is an answer of ours, once; return whether that was news."""
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
        """Return whether a webhook has told of an annotation after a mark."""
        return self._touched.get(number, 0) > mark

    def _is_here(self, name: str) -> bool:
        item = self.state.position.get(name)
        return item is not None and item not in self.state.left

    def _is_news(self, annotation: Annotation) -> bool:
        """Return whether an annotation says something that the log does not."""
        known = self.known().get(annotation.id)
        if not self._is_here(annotation.task) or (known is not None and annotation.updated < known.updated):
            return False
        if known is None or known.deleted:
            return True
        try:
            return not same(known, annotation.person, self._body(annotation), self.state.book)
        except EverylabelError as error:
            logger.warning("annotation %s is left alone: %s", annotation.id, error)
            return False

    def _learn(self, annotation: Annotation, later: bool = False) -> bool:
        """Emit what an annotation says, in the place of what it said before; return whether that was news."""
        if not self._is_news(annotation):
            return False
        try:
            body = self._body(annotation, new=True, later=later)
        except EverylabelError as error:  # such as a name that is none: nothing was emitted
            logger.warning("annotation %s is left alone: %s", annotation.id, error)
            return False
        known = self.known().get(annotation.id)
        self.desk.emit(annotation.person, body, key_of(annotation, self.state))
        if known is not None:
            self._undo(known)
        return True

    def _body(self, annotation: Annotation, new: bool = False, later: bool = False) -> events.Answered:
        """Return an annotation as an answer; new: a class that was not there is added."""
        if annotation.skipped:
            return events.Skip(annotation.task)
        if len(annotation.choices) != 1:
            return events.CannotTell(annotation.task)
        name = self.configuration.class_of(annotation.choices[0])
        if new and name not in self.state.names:
            self.desk.emit(annotation.person, events.NewClass(name))
        number = self.state.names.get(name, -1)
        if later or not new:
            return events.Label(
                annotation.task, class_=number, imported=FROM if later else False, truth=annotation.truth
            )
        guess, sure = self.service.views.guess(self.state.position[annotation.task])
        return events.Label(annotation.task, class_=number, guess=guess, sure=sure, truth=annotation.truth)

    def _take_back(self, number: int) -> bool:
        """Emit that an annotation is no more."""
        known = self.known().get(number)
        if known is None or known.deleted:
            return False
        return self._undo(known, deletion_key(number, self.state))

    def _undo(self, known: Known, key: str | None = None) -> bool:
        seq = known.seq
        if seq in self.state.undone or seq not in self.state.history:
            return False
        self.desk.emit(known.person, events.Undo(seq), key)
        return True
