"""What people and scripts can ask of a project: each request checked first, then put to the desk."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data import classes as names
from everylabel.data.classes import MOST_CLASSES
from everylabel.labelling import events, progress
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.events import Body, Event
from everylabel.labelling.learner import Learner
from everylabel.labelling.ledger import CANNOT_TELL
from everylabel.labelling.refused import Refused
from everylabel.labelling.replay import fingerprint
from everylabel.selection import strategies as known_strategies

STRATEGIES = {
    "lookahead": "Look ahead: asks what would most reduce the expected errors on the whole pool.",
    "margin": "Margin: asks where the two best guesses are closest. Fast, good once the model is fair.",
    "entropy": "Entropy: asks where the model is most unsure over all classes.",
    "least_confident": "Least confident: asks where even the best guess is unlikely.",
    "badge": "Badge: unsure ones that differ from each other.",
    "typiclust": "Typiclust: the most typical of each group without a label. Good for the first labels.",
    "random": "Random: no choice at all; the fair baseline, and the right one for a test set.",
}
assert set(STRATEGIES) <= {strategy["name"] for strategy in known_strategies()}
Reply = dict[str, Any]
ShowItem = Callable[[int], dict[str, Any]]


class Service:
    """The requests, as futures of replies. `show(i)` tells how an instance is shown."""

    def __init__(self, desk: Desk, show: ShowItem) -> None:
        self.desk, self.show = desk, show

    @property
    def ledger(self) -> Any:
        return self.desk.ledger

    def next(self, person: str) -> "Future[Reply]":
        """Return the person's instance: the one they have, or a new one."""

        def command() -> Finish:
            self.desk.ask_for(person)
            return lambda: self._reply(person, None)

        return self.desk.submit(command)

    def label(self, person: str, item: str, value: int | str, key: str | None = None) -> "Future[Reply]":
        """Learn the class of an instance."""

        def write(i: int) -> Event:
            number = self._class(value)
            probs = self.desk.learner.probabilities(i)
            said = int(probs.argmax()), float(probs.max())
            return self.desk.emit(person, events.Label(item, number, *said, self._check(person, i)), key)

        return self._answer(events.Label, person, item, key, write)

    def cannot_tell(self, person: str, item: str, key: str | None = None) -> "Future[Reply]":
        """Note that the person cannot tell; the instance is not asked again."""
        return self._plain(events.CannotTell, person, item, key)

    def skip(self, person: str, item: str, key: str | None = None) -> "Future[Reply]":
        """Leave an instance for later."""
        return self._plain(events.Skip, person, item, key)

    def undo(self, person: str, saved: int | None = None, key: str | None = None) -> "Future[Reply]":
        """Take back the person's last answer or skip, and show that instance again."""

        def command() -> Finish:
            if (reply := self._again(events.Undo, person, None, key)) is not None:
                return reply
            last = self.ledger.last(person)
            if last is None:
                raise Refused(409, "nothing_to_undo", f"{person} has given no answer that can be taken back")
            if saved is not None and saved != last.seq:
                what = f"saved is {saved}, but the last answer of {person} is {last.seq}"
                raise Refused(409, "stale_undo", f"{what}: take that one back first")
            event = self.desk.emit(person, events.Undo(last.seq), key)
            reason = "check" if last.body.check else "again"  # a check stays a check
            self._hand_over(person, events.Out(last.body.item, reason, again=True))
            self.desk.ask_for(person)
            return lambda: self._reply(person, event.seq)

        return self.desk.submit(command)

    def jump(self, person: str, item: str, key: str | None = None) -> "Future[Reply]":
        """Give this instance to the person, whatever they had before."""

        def command() -> Finish:
            if (reply := self._again(events.Out, person, item, key)) is not None:
                return reply
            self._check_holder(self._position(item), person)
            self._hand_over(person, events.Out(item, "asked"), key)
            return lambda: self._reply(person, None)

        return self.desk.submit(command)

    def add_class(self, person: str, name: str, key: str | None = None) -> "Future[Reply]":
        """Add a class; its number is how many there were."""

        def command() -> Finish:
            clean = clean_name(name)
            if not self._sent_before(events.NewClass, person, None, key):
                self._check_new(clean)
                if len(self.ledger.classes) >= MOST_CLASSES:
                    raise Refused(409, "too_many_classes", f"there are {MOST_CLASSES} classes already")
                self.desk.emit(person, events.NewClass(clean), key)
            number = self.ledger.classes.index(clean) if clean in self.ledger.classes else None
            return lambda: {"classes": progress.classes(self.ledger), "class": number}

        return self.desk.submit(command)

    def rename_class(self, person: str, number: int, name: str) -> "Future[Reply]":
        """Give a class another name; its labels stay."""

        def command() -> Finish:
            self._class(number)
            clean = clean_name(name)
            if clean != self.ledger.classes[number]:
                self._check_new(clean)
                self.desk.emit(person, events.Rename(number, clean))
            return lambda: {"classes": progress.classes(self.ledger)}

        return self.desk.submit(command)

    def change_settings(self, person: str, changes: dict[str, Any]) -> "Future[Reply]":
        """Change the strategy, or how often a random check comes."""

        def command() -> Finish:
            strategy = changes.get("strategy")
            if strategy is not None and strategy not in STRATEGIES:
                expected = ", ".join(STRATEGIES)
                raise Refused(
                    422, "unknown_strategy", f"strategy is {strategy!r}; expected one of {expected}"
                )
            if changes:
                self.desk.emit(person, events.Settings(**changes))
            return lambda: {"settings": dict(self.ledger.settings)}

        return self.desk.submit(command)

    def session(self, person: str) -> "Future[Reply]":
        """Return what the page needs to begin."""

        def look() -> Reply:
            titles = []
            for name, text in STRATEGIES.items():
                title, _, rest = text.partition(": ")
                titles.append({"name": name, "title": title, "sentence": rest[0].upper() + rest[1:]})
            return {
                "items": len(self.ledger.ids),
                "classes": progress.classes(self.ledger),
                "settings": dict(self.ledger.settings),
                "strategies": titles,
                "version": self.ledger.seq,
                "person": person,
            }

        return self.desk.read(look)

    def classes(self) -> "Future[Reply]":
        """Return the classes."""
        return self.desk.read(lambda: {"classes": progress.classes(self.ledger)})

    def progress(self, person: str) -> "Future[Reply]":
        """Return all figures with the learning curve, and how many are predicted of each class."""

        def look() -> Reply:
            guesses = self.desk.learner.pool.logits().argmax(axis=1)
            predicted = np.bincount(guesses, minlength=len(self.ledger.classes)).tolist()
            known = predicted if self.ledger.labels else None
            return {**self._progress(person, known), "curve": progress.curve(self.ledger)}

        return self.desk.read(look)

    def history(self, person: str, limit: int, before: int | None) -> "Future[list[Reply]]":
        """Return answers, the latest first."""
        return self.desk.read(lambda: progress.history(self.ledger, person, limit, before))

    def disputed(self, limit: int) -> "Future[list[Reply]]":
        """Return instances on which no class has most voices, the latest first."""
        return self.desk.read(lambda: progress.disputed(self.ledger, limit))

    def states(self, items: list[int]) -> "Future[list[Reply]]":
        """Return for some instances whether they are labelled, and as what the model sees them."""
        return self.desk.read(lambda: [self._state(i) for i in items])

    def item(self, item: str) -> "Future[Reply]":
        """Return all that is known of one instance."""

        def look() -> Reply:
            i = self._position(item)
            state = self._state(i)
            probs = None if self._being_checked(i) else self._probabilities(i)
            return {"item": self.show(i), "state": state["state"], "label": state["label"],
                    "probabilities": probs, "answers": progress.answers_to(self.ledger, i)}  # fmt: skip

        return self.desk.read(look)

    def position(self, item: str) -> int:
        """Return an instance's place in the source."""
        return self._position(item)

    def fingerprint(self) -> "Future[Reply]":
        """Return a hash of the whole state: a replay of the log up to this version has the same."""
        return self.desk.read(lambda: fingerprint(self.ledger, self.desk.learner))

    def snapshot(self) -> "Future[Snapshot]":
        """Return copies of what exports and the map are made of."""
        return self.desk.read(lambda: Snapshot(self.desk.learner, self.ledger))

    def _plain(
        self, kind: type[events.CannotTell | events.Skip], person: str, item: str, key: str | None
    ) -> "Future[Reply]":
        def write(i: int) -> Event:
            return self.desk.emit(person, kind(item, self._check(person, i)), key)

        return self._answer(kind, person, item, key, write)

    def _check(self, person: str, i: int) -> bool:
        """Return whether an answer is a random check's: noted, so that it stays one after an undo."""
        lease = self.ledger.leases.get(person)
        drawn = lease is not None and lease.item == i and lease.reason == "check"
        return drawn and bool(self.ledger.labels)

    def _answer(
        self, kind: type[Body], person: str, item: str, key: str | None, write: Callable[[int], Event]
    ) -> "Future[Reply]":
        def command() -> Finish:
            if (reply := self._again(kind, person, item, key)) is not None:
                return reply
            i = self._position(item)
            self._check_holder(i, person)
            event = write(i)
            self.desk.ask_for(person)
            return lambda: self._reply(person, event.seq)

        return self.desk.submit(command)

    def _again(self, kind: type[Body], person: str, item: str | None, key: str | None) -> Finish | None:
        """Return the reply to a request that was sent before."""
        if not self._sent_before(kind, person, item, key):
            return None
        self.desk.ask_for(person)
        return lambda: self._reply(person, self.ledger.keys[str(key)].seq)

    def _sent_before(self, kind: type[Body], person: str, item: str | None, key: str | None) -> bool:
        """Return whether this very request has come before; refuse another one with its key."""
        if key is None or key not in self.ledger.keys:
            return False
        event = self.ledger.keys[key]
        if (type(event.body), event.person, getattr(event.body, "item", None)) != (kind, person, item):
            raise Refused(
                409, "key_used", f"key is {key!r}, which another request has used; expected a new one"
            )
        return True

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

    def _position(self, item: str) -> int:
        if item not in self.ledger.position:
            raise Refused(404, "unknown_item", f"item is {item!r:.80}; expected an id of this project")
        return int(self.ledger.position[item])

    def _class(self, value: int | str) -> int:
        names = self.ledger.classes
        if isinstance(value, str) and value in names:
            return int(names.index(value))
        if isinstance(value, int) and 0 <= value < len(names):
            return value
        expected = f"0 to {len(names) - 1} or a class's name" if names else "a class: add one first"
        raise Refused(422, "unknown_class", f"class is {value!r:.80}; expected {expected}")

    def _check_new(self, name: str) -> None:
        if name in self.ledger.classes:
            raise Refused(409, "class_exists", f"there is a class {name!r} already; choose another name")

    def _state(self, i: int) -> Reply:
        label = self.ledger.labels.get(i)
        known = "cannot_tell" if i in self.ledger.answers else "out" if i in self.ledger.holder else "free"
        guess = None if self._being_checked(i) else self._guess(i)
        return {"state": "labelled" if label is not None else known, "label": label, "guess": guess}

    def _being_checked(self, i: int) -> bool:
        """Return whether an instance is out as a random check: its guess is told to nobody."""
        holder = self.ledger.holder.get(i)
        return holder is not None and self.ledger.leases[holder].reason == "check"

    def _guess(self, i: int) -> int | None:
        return int(self.desk.learner.probabilities(i).argmax()) if self.ledger.labels else None

    def _probabilities(self, i: int) -> list[float] | None:
        if not self.ledger.labels:
            return None
        probs: list[float] = self.desk.learner.probabilities(i).round(6).tolist()
        return probs[: len(self.ledger.classes)]

    def _progress(self, person: str, predicted: Any = None) -> Reply:
        desk = self.desk
        return progress.summary(
            self.ledger,
            person,
            update_ms=desk.update_ms,
            select_ms=desk.select_ms,
            changed=desk.changed,
            predicted=predicted,
        )

    def _reply(self, person: str, saved: int | None) -> Reply:
        return {"saved": saved, "next": self._task(person), "progress": self._progress(person)}

    def _task(self, person: str) -> Reply | None:
        lease = self.ledger.leases.get(person)
        if lease is None:
            return None
        own = self.ledger.answer_of(lease.item, person)
        blind = lease.reason == "check"  # the answer must not be swayed by the guess it is to check
        return {
            "item": self.show(lease.item),
            "reason": lease.reason,
            "probabilities": None if blind else self._probabilities(lease.item),
            "answer": None if own == CANNOT_TELL else own,
            "lease_seconds": self.ledger.settings["lease_seconds"],
        }


class Snapshot:
    """The state at one moment, in copies: classes, labels, answers, guesses and the posterior."""

    def __init__(self, learner: Learner, ledger: Any) -> None:
        self.classes = list(ledger.classes)
        self.labels = dict(ledger.labels)
        self.checked = {lease.item for lease in ledger.leases.values() if lease.reason == "check"}
        self.answers = {item: list(given) for item, given in ledger.answers.items()}
        self.posterior = learner.pool.posterior  # a value
        self.logits = np.array(learner.pool.logits()[:, : max(1, len(self.classes))])
        self.times = {event.seq: event.at for event in ledger.history}

    @property
    def guesses(self) -> np.ndarray:
        return self.logits.argmax(axis=1)

    def probabilities(self, idx: np.ndarray | slice) -> np.ndarray:
        """Return class probabilities of some instances."""
        f = self.logits[idx]
        p = np.exp(f - f.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


def clean_name(name: str) -> str:
    """Return a class's name without stray spaces, or refuse it."""
    try:
        return names.clean_name(name, hint="")
    except EverylabelError as error:
        raise Refused(422, "bad_name", str(error)) from error
