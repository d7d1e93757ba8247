"""What people and scripts can do in a project: each request checked first, then put to the desk."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from everylabel.labelling.class_service import ClassService
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import CANNOT_TELL, Entry, Refused
from everylabel.labelling.views import STRATEGIES, Reply, ShowItem, Views
from everylabel.log import events
from everylabel.log.events import Body, Event


class Service:
    """The requests, as futures of replies; `views` are those that change nothing, `classes` those about them.

    A request that comes again with its key is answered as the first time and counts once.
    """

    def __init__(self, desk: Desk, show: ShowItem) -> None:
        self.desk, self.views = desk, Views(desk, show)
        self.classes = ClassService(desk, self.views)

    def close(self) -> None:
        """Leave names that are not taught yet for the next start."""
        self.classes.close()

    @property
    def state(self) -> State:
        return self.desk.state

    def next(self, person: str) -> Future[Reply]:
        """Return the person's instance: the one they have, or a new one."""

        def command() -> Finish:
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command)

    def label(self, person: str, item: str, value: int | str, key: str | None = None) -> Future[Reply]:
        """Learn the class of an instance."""

        def same(sent: Body) -> bool:
            number = self.state.names.get(" ".join(value.split())) if isinstance(value, str) else value
            return isinstance(sent, events.Label) and (sent.item, sent.class_) == (item, number)

        def answer(i: int) -> events.Label:
            return events.Label(item, class_=self.state.book.number(value), **self._before(person, i))

        return self._answer(person, item, key, same, answer)

    def rule_out(self, person: str, item: str, value: int | str, key: str | None = None) -> Future[Reply]:
        """Learn a class that an instance is not of; it stays with the person."""

        def same(sent: Body) -> bool:
            number = self.state.names.get(" ".join(value.split())) if isinstance(value, str) else value
            return isinstance(sent, events.Not) and (sent.item, sent.class_) == (item, number)

        def answer(i: int) -> events.Not:
            number = self.state.book.number(value)
            self._check_left(person, i, number)
            return events.Not(item, class_=number, **self._before(person, i))

        return self._answer(person, item, key, same, answer)

    def cannot_tell(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Note that the person cannot tell; the instance is not asked again."""
        return self._plain(events.CannotTell, person, item, key)

    def none_of_these(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Learn that no class fits an instance."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.NoneOfThese) and sent.item == item

        def answer(i: int) -> events.NoneOfThese:
            if not self.state.book.order:
                raise Refused(409, "no_classes", "there is no class yet that could not fit; add one first")
            return events.NoneOfThese(item, **self._before(person, i))

        return self._answer(person, item, key, same, answer)

    def skip(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Leave an instance for later."""
        return self._plain(events.Skip, person, item, key)

    def undo(self, person: str, saved: int | None = None, key: str | None = None) -> Future[Reply]:
        """Take back the person's last answer or skip, and show that instance again."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.Undo) and saved in (None, sent.saved)

        def command() -> Finish:
            event = self.state.sent_before(person, key, same) or self._take_back(person, saved, key)
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, event.seq)

        return self.desk.submit(command)

    def jump(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Give this instance to the person, whatever they had before."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.Out) and sent.item == item

        def command() -> Finish:
            if self.state.sent_before(person, key, same) is None:
                self._check_holder(self.views.position(item), person)
                self._hand_over(person, events.Out(item, "asked"), key)
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command)

    def wish(self, person: str, number: int, checks: int, key: str | None = None) -> Future[Reply]:
        """Have a class tested by so many more checks among what is predicted so; 0 takes that back."""

        def command() -> Finish:
            wish = events.Wish(self.state.book.number(number), checks)
            if self.state.sent_before(person, key, lambda sent: sent == wish) is None:
                self.desk.emit(person, wish, key)
            return self.views.by_class

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
                self.classes.teach_all()
            return lambda: {"settings": dict(self.state.settings)}

        return self.desk.submit(command)

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
            event = self.state.sent_before(person, key, same)
            if event is None:
                i = self.views.position(item)
                self._check_holder(i, person)
                event = self.desk.emit(person, answer(i), key)
            self.desk.ask_for(person)
            return lambda: self.views.reply_to(event)

        return self.desk.submit(command)

    def _take_back(self, person: str, saved: int | None, key: str | None) -> Event:
        last = self.state.last(person)
        if last is None:
            raise Refused(409, "nothing_to_undo", f"{person} has given no answer that can be taken back")
        if saved is not None and saved != last.seq:
            what = f"saved is {saved}, but the last answer of {person} is {last.seq}"
            raise Refused(409, "stale_undo", f"{what}: take that one back first")
        together = self.state.given_with(last)
        event = self.desk.emit(person, events.Undo(last.seq), key)
        if isinstance(last.body, events.Label) and last.body.bulk is not None:  # the person's own item stays
            for seq in reversed(together[:-1]):
                self.desk.emit(person, events.Undo(seq))
            return event
        lease = self.state.leases.get(person)
        if isinstance(last.body, events.Not) and lease is not None and lease.item == last.item:
            return event  # they have it still
        reason = "check" if last.body.check else "again"  # a check stays a check
        self._hand_over(person, events.Out(last.body.item, reason, again=True))
        return event

    def _before(self, person: str, i: int) -> dict[str, Any]:
        """Return the model's guess before any answer to an item, and whether the item is a random check."""
        doubt = self.state.first_doubt(i)
        guess, sure = self.views.guess(i) if doubt is None else (doubt.guess, doubt.sure)
        return {"guess": guess, "sure": sure, "check": self._checked(person, i)}

    def _check_left(self, person: str, i: int, number: int) -> None:
        """Refuse to rule out a class of an instance that the person has answered, or the last one left."""
        state, name = self.state, self.state.classes[number]
        if state.answer_of(i, person) not in (None, CANNOT_TELL):
            what = f"{person} has said what item {state.ids[i]!r} is"
            raise Refused(409, "answered", f"{what}; give another class, or take that back first")
        gone = state.ruled_out(i, person)
        if number in gone:
            raise Refused(409, "ruled_out", f"{person} has ruled out {name!r} for this item before")
        if set(state.book.order) <= {*gone, number}:
            raise Refused(
                409, "last_class", f"{name!r} is the last class left; say none of these, or add one that fits"
            )

    def _checked(self, person: str, i: int) -> bool:
        """Return whether an answer is a random check's: noted, so that it stays one after an undo."""
        lease = self.state.leases.get(person)
        drawn = lease is not None and lease.item == i and lease.reason == "check"
        return drawn and bool(self.state.labels)

    def _hand_over(self, person: str, out: events.Out, key: str | None = None) -> None:
        """Take back what the person has and give them this, unless another has it."""
        if self.state.holder.get(self.state.position[out.item], person) != person:
            return
        lease = self.state.leases.get(person)
        if lease is not None:
            self.desk.emit(person, events.Release(self.state.ids[lease.item]))
        self.desk.emit(person, out, key)

    def _check_holder(self, item: int, person: str) -> None:
        holder = self.state.holder.get(item, person)
        if holder != person:
            raise Refused(
                409,
                "leased",
                f"item {self.state.ids[item]!r} is with {holder} now; nothing was saved, ask for another",
            )


def label_many(
    service: Service, person: str, items: Sequence[str], value: int | str, key: str | None = None
) -> Future[Reply]:
    """Learn one class for several instances; what is with others now, or of the test set, is left out.

    Each is an event of its own, marked, and one undo takes all back. None is a random check: whoever chose
    these instances has seen what the model says, or what is alike.
    """
    desk, wanted = service.desk, list(dict.fromkeys(items))

    def same(sent: Body) -> bool:
        number = service.state.book.number(value)
        return isinstance(sent, events.Label) and sent.bulk is not None and sent.class_ == number

    def command() -> Finish:
        sent = service.state.sent_before(person, key, same)
        number, state = service.state.book.number(value), service.state
        positions = {item: service.views.position(item) for item in wanted}
        others = {item for item, i in positions.items() if state.holder.get(i, person) != person}
        left_out = [item for item, i in positions.items() if item in others or i in state.test]
        if sent is None:
            chosen = [item for item in wanted if item not in left_out]
            if not chosen:
                raise Refused(
                    409, "leased", "all of these are with others now, or of the test set; nothing was saved"
                )
            sent = _given(chosen, number)
        given = state.bulks[_bulk(sent)]
        desk.ask_for(person)
        told = {"labelled": len(given), "left_out": left_out}
        return lambda: {**service.views.reply(person, given[-1]), "bulk": told}

    def _given(chosen: Sequence[str], number: int) -> Event:
        """Emit a label for each; return the first, which has the request's key."""
        guesses = [service.views.guess(service.state.position[item]) for item in chosen]
        bulk = service.state.seq + 1
        made = [
            desk.emit(
                person,
                events.Label(item, class_=number, guess=guess, sure=sure, bulk=bulk),
                key if i == 0 else None,
            )
            for i, (item, (guess, sure)) in enumerate(zip(chosen, guesses, strict=True))
        ]
        return made[0]

    return desk.submit(command)


def _bulk(event: Event | Entry) -> int:
    """Return the first event of a bulk, from the one that has the request's key."""
    assert isinstance(event.body, events.Label)
    return event.body.bulk or event.seq
