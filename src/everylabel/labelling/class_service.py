"""Requests that change classes: add, change, order, remove, merge; each change can be undone."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import MOST_CLASSES, clean_name
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Refused
from everylabel.labelling.views import Reply, Views
from everylabel.log import events

logger = logging.getLogger(__name__)


class ClassService:
    """Requests as futures of replies, which hold the classes, the removed ones, and the undoable change."""

    def __init__(self, desk: Desk, views: Views) -> None:
        self.desk, self.views = desk, views
        self._closed = False
        self._naming = ThreadPoolExecutor(1, "naming")  # an encoder may take seconds; no label waits for it

    def close(self) -> None:
        """Leave class names that are not embedded yet to the next start."""
        self._closed = True
        self._naming.shutdown(wait=False, cancel_futures=True)

    @property
    def state(self) -> State:
        return self.desk.state

    def add(self, person: str, name: str, key: str | None = None, *, sure: bool = False) -> Future[Reply]:
        """Add a class; its number is the count of all classes that ever existed.

        sure : add it even if another class has almost the same name
        """

        def command() -> Finish:
            new = events.NewClass(_clean(name))
            if self.state.sent_before(person, key, lambda sent: sent == new) is None:
                self._check_new(new.name, sure)
                if len(self.state.book.order) >= MOST_CLASSES:
                    raise Refused(409, "too_many_classes", f"there are {MOST_CLASSES} classes already")
                self.desk.emit(person, new, key)
            number = self.state.names[new.name]
            return lambda: {**self._reply_and_embed([number]), "class": number}

        return self.desk.submit(command)

    def change(
        self,
        person: str,
        number: int,
        *,
        name: str | None = None,
        description: str | None = None,
        own_key: str | None = None,
        colour: str | None = None,
        sure: bool = False,
    ) -> Future[Reply]:
        """Change the name, description, key or colour of a class; its labels stay."""

        def command() -> Finish:
            self.state.book.number(number)
            book = self.state.book
            clean = book.names[number] if name is None else _clean(name)
            text = None if description is None else " ".join(description.split())
            key = None if own_key == book.keys.get(number, "") else own_key
            shade = None if colour == book.colours.get(number, "") else colour
            if clean != book.names[number]:
                self._check_new(clean, sure, number)
            others = {book.keys.get(c): c for c in book.order if c != number}
            if key and key in others:
                other = book.names[others[key]]
                raise Refused(409, "key_taken", f"the key {key!r} is that of {other!r}; choose another")
            change = events.ClassChanged(
                number,
                name=None if clean == book.names[number] else clean,
                description=None if text == book.descriptions.get(number, "") else text,
                key=key,
                colour=shade,
            )
            if change != events.ClassChanged(number):
                self.desk.emit(person, change)
            return lambda: self._reply_and_embed([number])

        return self.desk.submit(command)

    def remove(self, person: str, number: int, into: int | None = None) -> Future[Reply]:
        """Remove a class: its labels move to another class, or its items are free again."""

        def body() -> events.Remove:
            self.state.book.number(number)
            if into is not None and self.state.book.number(into) == number:
                raise Refused(422, "same_class", f"into is {into}, the class itself; expected another")
            return events.Remove(number, into)

        return self._changed(person, body)

    def restore(self, person: str, number: int) -> Future[Reply]:
        """Restore a removed class with its labels."""

        def body() -> events.Restore:
            book = self.state.book
            if number not in book.removed:
                raise Refused(422, "not_removed", f"class is {number}; expected one that was removed")
            self._check_new(book.names[number], sure=True)
            return events.Restore(number)

        return self._changed(person, body)

    def arrange(self, person: str, order: Sequence[int]) -> Future[Reply]:
        """Change the order in which classes are shown; `order` must name each class once."""

        def body() -> events.Arrange:
            if sorted(order) != list(self.state.book.present):
                there = ", ".join(map(str, self.state.book.order))
                raise Refused(
                    409, "other_classes", f"order is {list(order)!r:.200}; expected each of {there} once"
                )
            return events.Arrange(list(order))

        return self._changed(person, body)

    def undo(self, person: str, saved: int) -> Future[Reply]:
        """Undo the last change of classes, whoever made it."""

        def body() -> events.Undo:
            changes = self.state.class_changes
            if not changes or changes[-1].seq != saved:
                what = f"saved is {saved}, which is not the last change of classes"
                raise Refused(409, "stale_undo", f"{what}: look at them again")
            return events.Undo(saved)

        return self._changed(person, body)

    def embed_all(self) -> None:
        """Embed the names of all classes that have no vectors yet."""
        self._reply_and_embed(self.state.book.present)

    def _changed(self, person: str, body: Callable[[], events.OfClasses | events.Undo]) -> Future[Reply]:
        def command() -> Finish:
            self.desk.emit(person, body())
            return lambda: self._reply_and_embed(self.state.book.present)

        return self.desk.submit(command, alone=True)  # the model may need retraining

    def _reply_and_embed(self, numbers: Iterable[int]) -> Reply:
        """Embed names without vectors in the background, and return the classes."""
        missing = self.desk.names.missing(self.state, [c for c in numbers if c in self.state.book.order])
        if missing:
            with suppress(RuntimeError):  # closed: the next start embeds them
                self._naming.submit(self._embed, missing)
        return self.views.classes()

    def _embed(self, phrases: list[str]) -> None:
        try:
            self.desk.names.learn(phrases)
            self.desk.submit(lambda: None).result()  # this round learns the new vectors
        except Exception as error:  # the model works without them
            if not self._closed:
                logger.warning("names of classes could not be embedded: %s", error)

    def _check_new(self, name: str, sure: bool, but: int | None = None) -> None:
        """Refuse a name in use; unless `sure`, also refuse one that hardly differs from another."""
        book = self.state.book
        if book.named(name) is not None:
            raise Refused(409, "class_exists", f"there is a class {name!r} already; choose another name")
        like = None if sure else book.like(name, but)
        if like is not None:
            raise Refused(
                409, "class_alike", f"there is a class {like!r} already; is {name!r} another? Then pass sure"
            )


def _clean(name: str) -> str:
    """Return a class name without stray spaces, or refuse it."""
    try:
        return clean_name(name, hint="")
    except EverylabelError as error:
        raise Refused(422, "bad_name", str(error)) from error
