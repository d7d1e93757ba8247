"""The requests of people and scripts that change a project. Each runs on the desk: it checks, then emits."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.classes import check_class_count
from everylabel.labelling.class_service import ClassService
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.joining import write_suggestions
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import CANNOT_TELL, Refused, Suggestion, bulk_of
from everylabel.labelling.views import Reply, ShowItem, Views, offered
from everylabel.log import events
from everylabel.log.events import Body, Event

NO_SUGGESTIONS = (
    "suggestions are for projects with one class per item; import the labels of a source that you trust"
)


class Service:
    """Requests that change something, as futures of replies; `views` reads, `classes` changes classes.

    A request that is sent again with the same key counts once; the reply shows the current state.
    """

    def __init__(self, desk: Desk, show: ShowItem) -> None:
        self.desk, self.views = desk, Views(desk, show)
        self.classes = ClassService(desk, self.views)

    def close(self) -> None:
        """Stop embedding class names; the next start embeds the rest."""
        self.classes.close()

    @property
    def state(self) -> State:
        return self.desk.state

    def next(self, person: str, questions: bool | None = None) -> Future[Reply]:
        """Return the person's item: the leased one, or a new one.

        questions : whether to ask this person yes / no questions from now on (multi-label projects)
        """

        def command() -> Finish:
            if questions is not None:
                (self.desk.questions.add if questions else self.desk.questions.discard)(person)
            self.desk.request_item(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command)

    def label(self, person: str, item: str, value: int | str, key: str | None = None) -> Future[Reply]:
        """Save the class of an item."""

        def classes(i: int) -> dict[str, Any]:
            return {"class_": self._only_class(value)}

        return self._answer(events.Label, person, item, key, classes, [value])

    def label_set(
        self,
        person: str,
        item: str,
        present: Sequence[int | str],
        absent: Sequence[int | str] | None = None,
        key: str | None = None,
    ) -> Future[Reply]:
        """Save which classes an item of a multi-label project has.

        absent : classes that the item does not have; None: all others. Classes in neither list stay
            unchanged.
        """

        def classes(i: int) -> dict[str, Any]:
            return self._class_set(present, absent)

        return self._answer(events.MultiLabel, person, item, key, classes, present, absent)

    def rule_out(self, person: str, item: str, value: int | str, key: str | None = None) -> Future[Reply]:
        """Save that an item does not have a class; the person keeps the item."""

        def classes(i: int) -> dict[str, Any]:
            number = self._only_class(value)
            self._check_can_rule_out(person, i, number)
            return {"class_": number}

        return self._answer(events.Not, person, item, key, classes, [value])

    def cannot_tell(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Save "cannot tell"; the item is not asked again."""
        return self._answer(events.CannotTell, person, item, key)

    def none_of_these(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Save that no class fits an item."""
        if self.state.multi_label:
            return self.label_set(person, item, (), None, key)

        def classes(i: int) -> dict[str, Any]:
            if not self.state.book.order:
                raise Refused(409, "no_classes", "there are no classes yet; add one first")
            return {}

        return self._answer(events.NoneOfThese, person, item, key, classes)

    def skip(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Leave an item for later."""
        return self._answer(events.Skip, person, item, key)

    def undo(self, person: str, saved: int | None = None, key: str | None = None) -> Future[Reply]:
        """Undo the person's last answer or skip, and show its item again."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.Undo) and saved in (None, sent.saved)

        def command() -> Finish:
            event = self.state.sent_before(person, key, same) or self._undo_last(person, saved, key)
            self.desk.request_item(person)
            return lambda: self.views.reply(person, event.seq)

        return self.desk.submit(command)

    def jump(self, person: str, item: str, key: str | None = None) -> Future[Reply]:
        """Lease this item to the person, in place of the one they have."""

        def same(sent: Body) -> bool:
            return isinstance(sent, events.Leased) and sent.item == item

        def command() -> Finish:
            if self.state.sent_before(person, key, same) is None:
                self._check_holder(self.views.position(item), person)
                self._hand_over(person, events.Leased(item, "asked"), key)
            self.desk.request_item(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command)

    def wish(self, person: str, number: int, checks: int, key: str | None = None) -> Future[Reply]:
        """Request `checks` more checks among the items predicted as a class; 0 cancels the request."""

        def command() -> Finish:
            wish = events.Wish(self.state.book.number(number), checks)
            if self.state.sent_before(person, key, lambda sent: sent == wish) is None:
                self.desk.emit(person, wish, key)
            return self.views.class_figures

        return self.desk.submit(command)

    def change_settings(self, person: str, changes: dict[str, Any]) -> Future[Reply]:
        """Change the strategy, the frequency of random checks, or the use of class names."""

        def command() -> Finish:
            strategy = changes.get("strategy")
            if strategy is not None and strategy not in offered(self.state):
                expected = ", ".join(offered(self.state))
                raise Refused(
                    422, "unknown_strategy", f"strategy is {strategy!r}; expected one of {expected}"
                )
            if changes:
                self.desk.emit(person, events.Settings(**changes))
            if changes.get("names"):
                self.classes.embed_all()
            return lambda: {"settings": dict(self.state.settings)}

        return self.desk.submit(command)

    def _answer(
        self,
        kind: type[events.Answered],
        person: str,
        item: str,
        key: str | None,
        classes: Callable[[int], dict[str, Any]] = lambda i: {},
        present: Sequence[int | str] = (),
        absent: Sequence[int | str] | None = (),
    ) -> Future[Reply]:
        """Save an answer, unless a request with the same key has saved it.

        classes : returns the fields of the answer that name classes, from the item's position, or refuses
        present, absent : classes in the request, to recognise the same request
        """

        def same(sent: Body) -> bool:
            return isinstance(sent, kind) and sent.item == item and self.names_classes(sent, present, absent)

        def command() -> Finish:
            event = self.state.sent_before(person, key, same)
            if event is None:
                i = self.views.position(item)
                self._check_holder(i, person)
                fields = classes(i) | {"check": self._is_check(person, i)}
                if issubclass(kind, events.Guessed):
                    fields |= self._guess_before(i)
                event = self.desk.emit(person, kind(item, **fields), key)
            self.desk.request_item(person)
            return lambda: self.views.reply_to(event)

        return self.desk.submit(command)

    def names_classes(
        self, sent: Body, present: Sequence[int | str], absent: Sequence[int | str] | None
    ) -> bool:
        """Return whether an answer is about these classes; absent=None matches any."""
        names = self.state.names
        has, has_not = (
            {names.get(" ".join(c.split())) if isinstance(c, str) else c for c in classes}
            for classes in (present, absent or ())
        )
        if isinstance(sent, events.MultiLabel):
            return has == {*sent.present} and (absent is None or has_not == {*sent.absent})
        return not isinstance(sent, events.Label | events.Not) or has == {sent.class_}

    def _undo_last(self, person: str, saved: int | None, key: str | None) -> Event:
        last = self.state.last(person)
        if last is None:
            raise Refused(409, "nothing_to_undo", f"{person} has given no answer that can be undone")
        if saved is not None and saved != last.seq:
            what = f"saved is {saved}, but the last answer of {person} is {last.seq}"
            raise Refused(409, "stale_undo", f"{what}; undo that one first")
        event, bulk = self.desk.emit(person, events.Undo(last.seq), key), bulk_of(last)
        if bulk is not None:  # the person keeps their current item
            for seq in self.state.bulk_events(bulk):
                if seq not in self.state.undone:
                    self.desk.emit(person, events.Undo(seq))
            return event
        lease = self.state.leases.get(person)
        if isinstance(last.body, events.Not) and lease is not None and lease.item == last.item:
            return event  # they still have the item
        reason = "check" if last.body.check else "again"  # a check stays a check
        self._hand_over(person, events.Leased(last.body.item, reason, again=True))
        return event

    def _guess_before(self, i: int) -> dict[str, Any]:
        """Return the fields of an answer that hold the model's guess before any answer to the item."""
        doubt = self.state.first_doubt(i)
        return self.views.guess_fields(i) if doubt is None else {"guess": doubt.guess, "sure": doubt.sure}

    def _only_class(self, value: int | str) -> int:
        """Return the number of a class that is the only class of an item; refuse in a multi-label project."""
        if self.state.multi_label:
            raise Refused(
                409,
                "several_classes",
                "an item of this project may have several classes; send present and absent to /api/label_set",
            )
        return self.state.book.number(value)

    def _class_set(
        self, present: Sequence[int | str], absent: Sequence[int | str] | None
    ) -> dict[str, list[int]]:
        """Return the current numbers of the classes of a multi-label answer, or refuse it."""
        book = self.state.book
        if not self.state.multi_label:
            raise Refused(409, "one_class", "an item of this project has one class; send it to /api/label")
        if not book.order:
            raise Refused(409, "no_classes", "there is no class yet; add one first")
        has = {book.number(value) for value in present}
        has_not = {*book.present} - has if absent is None else {book.number(value) for value in absent}
        both = [book.names[number] for number in sorted(has & has_not)]
        if both:
            raise Refused(422, "both", f"{both[0]!r} is in present and in absent; expected it in one of them")
        if not has and not has_not:
            raise Refused(422, "no_answer", "present and absent are empty; expected a class in one of them")
        return {"present": sorted(has), "absent": sorted(has_not)}

    def _check_can_rule_out(self, person: str, i: int, number: int) -> None:
        """Refuse to rule out a class for an item that the person has labelled, or its last possible class."""
        state, name = self.state, self.state.classes[number]
        if state.answer_of(i, person) not in (None, CANNOT_TELL):
            what = f"{person} has given item {state.ids[i]!r} a class"
            raise Refused(409, "answered", f"{what}; give another class, or undo that answer first")
        ruled_out = state.ruled_out(i, person)
        if number in ruled_out:
            what = f"{person} has ruled out {name!r} for this item before"
            raise Refused(409, "ruled_out", f"{what}; rule out another class, or give one")
        if set(state.book.order) <= {*ruled_out, number}:
            raise Refused(
                409,
                "last_class",
                f"{name!r} is the only class that is not ruled out; answer none of these, or add a class",
            )

    def _is_check(self, person: str, i: int) -> bool:
        """Return whether the person has this item as a random check; it stays one after an undo."""
        lease = self.state.leases.get(person)
        leased = lease is not None and lease.item == i and lease.reason == "check"
        return leased and bool(self.state.labels)

    def _hand_over(self, person: str, out: events.Leased, key: str | None = None) -> None:
        """End the person's lease and lease them this item, unless somebody else has it."""
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
                f"item {self.state.ids[item]!r} is leased to {holder}; nothing was saved, request another",
            )


def label_many(
    service: Service,
    person: str,
    items: Sequence[str],
    value: int | str,
    key: str | None = None,
    *,
    remove: bool = False,
) -> Future[Reply]:
    """Label several items with one class; items leased to others and test items are left out.

    Each item gets its own event, marked as bulk, and one undo reverts all. None is a random check: the person
    who chose the items has seen the model's guess, or similar items. In a multi-label project the class is
    added to the items, or removed (`remove`); their other classes stay.
    """
    desk, views, wanted = service.desk, service.views, list(dict.fromkeys(items))

    def given_to(item: str, number: int, bulk: int) -> events.Label | events.MultiLabel:
        before = views.guess_fields(service.state.position[item])
        if service.state.multi_label:
            present, absent = ([], [number]) if remove else ([number], [])
            return events.MultiLabel(item, present, absent, bulk=bulk, **before)
        return events.Label(item, class_=number, bulk=bulk, **before)

    def same(sent: Body) -> bool:
        present, absent = ([], [value]) if remove else ([value], [])
        bulk = isinstance(sent, events.Classified) and sent.bulk is not None
        return bulk and service.names_classes(sent, present, absent)

    def command() -> Finish:
        state = service.state
        if remove and not state.multi_label:
            raise Refused(409, "one_class", "an item of this project has one class; label it with another")
        sent, number = state.sent_before(person, key, same), state.book.number(value)
        positions = {item: views.position(item) for item in wanted}
        others = {lease.item for name, lease in state.leases.items() if name != person}
        left_out = [item for item, i in positions.items() if i in others or i in state.test]
        if sent is None:
            chosen = [item for item in wanted if item not in left_out]
            if not chosen:
                raise Refused(
                    409,
                    "leased",
                    "all of these are leased to others or belong to the test set; nothing was saved",
                )
            bulk = state.seq + 1
            bodies = [given_to(item, number, bulk) for item in chosen]
            made = [desk.emit(person, body, None if i else key) for i, body in enumerate(bodies)]
            sent = made[0]
        given = state.bulk_events(sent.seq)  # the request's key is that of the first event
        desk.request_item(person)
        counts = {"labelled": len(given), "left_out": left_out}
        return lambda: {**views.reply(person, given[0]), "bulk": counts}

    return desk.submit(command)


class SentSuggestion(NamedTuple):
    """A suggestion as sent: a class by number or name, with a score or a probability for each class."""

    item: str
    value: int | str
    score: float | None = None
    probabilities: Mapping[str, float] = MappingProxyType({})


def suggest(
    service: Service,
    person: str,
    source: str,
    sent: Sequence[SentSuggestion],
    add_classes: bool = False,
) -> Future[Reply]:
    """Save a source's suggestions, except those that it has made before.

    If an item appears twice, the later suggestion counts. add_classes : add unknown classes.
    """

    def command() -> Finish:
        state = service.state
        if state.multi_label:
            raise Refused(409, "several_classes", NO_SUGGESTIONS)
        missing = [item for item in dict.fromkeys(each.item for each in sent) if item not in state.position]
        if missing:
            many = counted(len(missing), "item is", "items are")
            raise Refused(
                404,
                "unknown_item",
                f"{many} not in this project: {listed(missing)}; nothing was saved, expected its ids",
            )
        values = dict.fromkeys(value for each in sent for value in (each.value, *each.probabilities))
        named = [value for value in values if isinstance(value, str)]
        new = [name for name in named if state.book.named(name) is None]
        if new and not add_classes:
            many = counted(len(new), "class is", "classes are")
            there = listed([state.classes[number] for number in state.book.order], 12) or "none yet"
            raise Refused(
                422,
                "unknown_class",
                f"{many} not in this project: {listed(new, 12)}; nothing saved, expected some of {there}. "
                'To add them, send "add_classes": true',
            )
        try:
            check_class_count([*(state.classes[number] for number in state.book.order), *new])
        except EverylabelError as error:
            raise Refused(422, "too_many", str(error)) from error
        numbers = {value: state.book.number(value) for value in values if value not in new}
        for name in new:
            service.desk.emit(person, events.NewClass(name))
            numbers[name] = state.book.number(name)
        by_item = {
            each.item: Suggestion(
                numbers[each.value],
                each.score,
                {numbers[name]: p for name, p in each.probabilities.items() if p},
            )
            for each in sent
        }
        counts = {
            "new": write_suggestions(service.desk, person, source, by_item),
            "suggestions": len(state.suggestions[source]),
            "repeated": len(sent) - len(by_item),
        }
        return lambda: counts | {"added_classes": new}

    return service.desk.submit(command)
