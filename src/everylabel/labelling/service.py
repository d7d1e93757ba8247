"""What people and scripts can do in a project: each request checked first, then put to the desk."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import MOST_CLASSES, clean_name
from everylabel.labelling import events, progress
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.events import Body, Event
from everylabel.labelling.ledger import Ledger, bulk_of
from everylabel.labelling.naming import Encoder, packed, phrases_of
from everylabel.labelling.refused import Refused
from everylabel.labelling.views import STRATEGIES, Reply, ShowItem, Views

logger = logging.getLogger(__name__)


class Service:
    """The requests, as futures of replies; `views` are those that change nothing.

    A request that comes again with its key is answered as the first time and counts once.
    """

    def __init__(self, desk: Desk, show: ShowItem, encoder: Encoder | None = None) -> None:
        self.desk, self.views, self._encoder = desk, Views(desk, show, encoder is not None), encoder
        self._closed = False
        self._naming = ThreadPoolExecutor(1, "naming")  # an encoder may take seconds: not at the desk

    def close(self) -> None:
        """Leave names that are not taught yet for the next start."""
        self._closed = True
        self._naming.shutdown(wait=False, cancel_futures=True)

    @property
    def ledger(self) -> Ledger:
        return self.desk.ledger

    def next(self, person: str) -> Future[Reply]:
        """Return the person's instance: the one they have, or a new one."""

        def command() -> Finish:
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command)

    def label(self, person: str, item: str, value: int | str, key: str | None = None) -> Future[Reply]:
        """Learn the class of an instance."""

        def same(sent: Body) -> bool:
            number = self.ledger.names.get(" ".join(value.split())) if isinstance(value, str) else value
            return isinstance(sent, events.Label) and (sent.item, sent.class_) == (item, number)

        def answer(i: int) -> events.Label:
            number = self.class_number(value)
            probs = self.desk.learner.probabilities(i)
            return events.Label(
                item, number, int(probs.argmax()), float(probs.max()), self._checked(person, i)
            )

        return self._answer(person, item, key, same, answer)

    def cannot_tell(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Note that the person cannot tell; the instance is not asked again."""
        return self._plain(events.CannotTell, person, item, key)

    def skip(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Leave an instance for later."""
        return self._plain(events.Skip, person, item, key)

    def undo(self, person: str, saved: int | None = None, key: str | None = None) -> Future[Reply]:
        """Take back the person's last answer or skip, and show that instance again."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.Undo) and saved in (None, sent.saved)

        def command() -> Finish:
            event = self.sent_before(person, key, same) or self._take_back(person, saved, key)
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, event.seq)

        return self.desk.submit(command)

    def jump(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Give this instance to the person, whatever they had before."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.Out) and sent.item == item

        def command() -> Finish:
            if self.sent_before(person, key, same) is None:
                self._check_holder(self.views.position(item), person)
                self._hand_over(person, events.Out(item, "asked"), key)
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command)

    def add_class(self, person: str, name: str, key: str | None = None) -> Future[Reply]:
        """Add a class; its number is how many there were."""

        def command() -> Finish:
            new = events.NewClass(_clean(name))
            if self.sent_before(person, key, lambda sent: sent == new) is None:
                self._check_new(new.name)
                if len(self.ledger.classes) >= MOST_CLASSES:
                    raise Refused(409, "too_many_classes", f"there are {MOST_CLASSES} classes already")
                self.desk.emit(person, new, key)
            number = self.ledger.names[new.name]
            return lambda: {"classes": self._taught([number]), "class": number}

        return self.desk.submit(command)

    def change_class(
        self, person: str, number: int, name: str | None, description: str | None = None
    ) -> Future[Reply]:
        """Give a class another name or description; its labels stay."""

        def command() -> Finish:
            self.class_number(number)
            clean = self.ledger.classes[number] if name is None else _clean(name)
            if clean != self.ledger.classes[number]:
                self._check_new(clean)
                self.desk.emit(person, events.Rename(number, clean))
            told = None if description is None else " ".join(description.split())
            if told is not None and told != self.ledger.descriptions.get(number, ""):
                self.desk.emit(person, events.Describe(number, told))
            return lambda: {"classes": self._taught([number])}

        return self.desk.submit(command)

    def change_settings(self, person: str, changes: dict[str, Any]) -> Future[Reply]:
        """Change the strategy, how often a random check comes, or whether class names teach."""

        def command() -> Finish:
            strategy = changes.get("strategy")
            if strategy is not None and strategy not in STRATEGIES:
                expected = ", ".join(STRATEGIES)
                raise Refused(
                    422, "unknown_strategy", f"strategy is {strategy!r}; expected one of {expected}"
                )
            if changes:
                self.desk.emit(person, events.Settings(**changes))
            if changes.get("names"):
                self._taught(range(len(self.ledger.classes)))
            return lambda: {"settings": dict(self.ledger.settings)}

        return self.desk.submit(command)

    def _taught(self, numbers: Iterable[int]) -> list[Reply]:
        """Have what these classes' names mean learned, beside the desk; return the classes."""
        if self._encoder is not None:
            with suppress(RuntimeError):  # closed: the next start teaches them
                self._naming.submit(self._name, list(numbers), self._encoder)
        return progress.classes(self.ledger)

    def _name(self, numbers: list[int], encoder: Encoder) -> None:
        try:
            asked = self.desk.read(lambda: {c: self._phrases(c) for c in numbers}).result()
            wanted = {c: phrases for c, phrases in asked.items() if phrases}
            found = {c: (phrases, packed(encoder.encode(phrases))) for c, phrases in wanted.items()}

            def command() -> Finish:
                for number, (phrases, vectors) in found.items():
                    if self._phrases(number) == phrases:  # not changed again meanwhile
                        self.desk.emit("", events.Named(number, phrases, vectors, encoder.name))
                return lambda: None

            if found:
                self.desk.submit(command).result()
        except Exception as error:  # the model goes without them; an import fails while the process ends
            if not self._closed:
                logger.warning("names of classes could not be taught: %s", error)

    def _phrases(self, number: int) -> tuple[str, ...] | None:
        """Return what a class is called and described as, or None if the model knows that."""
        wanted = phrases_of(self.ledger.classes[number], self.ledger.descriptions.get(number))
        return None if self.ledger.phrases.get(number) == wanted else wanted

    def _plain(
        self, kind: type[events.CannotTell | events.Skip], person: str, item: str, key: str | None
    ) -> Future[Reply]:
        def same(sent: Body) -> bool:
            return isinstance(sent, kind) and sent.item == item

        return self._answer(person, item, key, same, lambda i: kind(item, self._checked(person, i)))

    def _answer(
        self,
        person: str,
        item: str,
        key: str | None,
        same: Callable[[Body], bool],
        answer: Callable[[int], events.Answered],
    ) -> Future[Reply]:
        def command() -> Finish:
            event = self.sent_before(person, key, same)
            if event is None:
                i = self.views.position(item)
                self._check_holder(i, person)
                event = self.desk.emit(person, answer(i), key)
            self.desk.ask_for(person)
            return lambda: self.views.reply_to(event)

        return self.desk.submit(command)

    def sent_before(self, person: str, key: str | None, same: Callable[[Body], bool]) -> Event | None:
        """Return the event of this very request if it has come before; refuse another one with its key."""
        event = None if key is None else self.ledger.keys.get(key)
        if event is not None and not (event.person == person and same(event.body)):
            raise Refused(
                409, "key_used", f"key is {key!r}, which another request has used; expected a new one"
            )
        return event

    def _take_back(self, person: str, saved: int | None, key: str | None) -> Event:
        last = self.ledger.last(person)
        if last is None:
            raise Refused(409, "nothing_to_undo", f"{person} has given no answer that can be taken back")
        if saved is not None and saved != last.seq:
            what = f"saved is {saved}, but the last answer of {person} is {last.seq}"
            raise Refused(409, "stale_undo", f"{what}: take that one back first")
        together = self.ledger.given_with(last)
        event = self.desk.emit(person, events.Undo(last.seq), key)
        if bulk_of(last) is not None:  # all that were given at once; the person's own item stays
            for seq in reversed(together[:-1]):
                self.desk.emit(person, events.Undo(seq))
            return event
        reason = "check" if last.body.check else "again"  # a check stays a check
        self._hand_over(person, events.Out(last.body.item, reason, again=True))
        return event

    def _checked(self, person: str, i: int) -> bool:
        """Return whether an answer is a random check's: noted, so that it stays one after an undo."""
        lease = self.ledger.leases.get(person)
        drawn = lease is not None and lease.item == i and lease.reason == "check"
        return drawn and bool(self.ledger.labels)

    def _hand_over(self, person: str, out: events.Out, key: str | None = None) -> None:
        """Take back what the person has and give them this, unless another has it."""
        if self.ledger.holder.get(self.ledger.position[out.item], person) != person:
            return
        lease = self.ledger.leases.get(person)
        if lease is not None:
            self.desk.emit(person, events.Release(self.ledger.ids[lease.item]))
        self.desk.emit(person, out, key)

    def _check_holder(self, item: int, person: str) -> None:
        holder = self.ledger.holder.get(item, person)
        if holder != person:
            raise Refused(
                409,
                "leased",
                f"item {self.ledger.ids[item]!r} is with {holder} now; nothing was saved, ask for another",
            )

    def class_number(self, value: int | str) -> int:
        """Return the number of a class that is told by number or name, or refuse it."""
        names = self.ledger.classes
        if isinstance(value, str) and value in names:
            return names.index(value)
        if isinstance(value, int) and 0 <= value < len(names):
            return value
        expected = f"0 to {len(names) - 1} or a class's name" if names else "a class: add one first"
        raise Refused(422, "unknown_class", f"class is {value!r:.80}; expected {expected}")

    def _check_new(self, name: str) -> None:
        if name in self.ledger.classes:
            raise Refused(409, "class_exists", f"there is a class {name!r} already; choose another name")


def _clean(name: str) -> str:
    """Return a class's name without stray spaces, or refuse it."""
    try:
        return clean_name(name, hint="")
    except EverylabelError as error:
        raise Refused(422, "bad_name", str(error)) from error
