"""Replies about the state of a project: the page's start, items, answers, classes and figures."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from everylabel.labelling import progress
from everylabel.labelling.desk import Desk
from everylabel.labelling.guesses import BLIND, Guesses
from everylabel.labelling.joining import Arriving
from everylabel.labelling.presence import Presence
from everylabel.labelling.quality.accuracy import FEWEST, Interval
from everylabel.labelling.quality.by_class import FEWEST_OF_CLASS
from everylabel.labelling.state.state import State, digest
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    GIVEN,
    REVIEW,
    Answer,
    Lease,
    Refused,
    absent_in_reply,
    in_reply,
)
from everylabel.log.events import Answered, Event
from everylabel.selection.strategies import STRATEGIES as RULES

STRATEGIES = {  # title and sentence
    "herding": ("Coverage", "Recommended. Items that the model is unsure of and that resemble many others."),
    "lookahead": ("Look ahead", "Items whose label should reduce errors most. For many classes."),
    "margin": ("Margin", "Items whose two best guesses are closest. Fast; for later stages."),
    "entropy": ("Entropy", "Items for which the model is unsure among many classes."),
    "least_confident": ("Least confident", "Items whose best guess is unlikely."),
    "badge": ("Uncertain and different", "Uncertain items that differ from each other."),
    "typiclust": (
        "Typical",
        "The most typical item of each group without a label. Good for the first labels.",
    ),
    REVIEW: ("Review", "Items whose given label is probably wrong, likely errors first."),
    "random": ("Random", "Items drawn at random, for comparison."),
}
assert set(STRATEGIES) - {REVIEW} <= set(RULES)
OFFERED = [name for name in STRATEGIES if name != REVIEW]  # in any project
Reply = dict[str, Any]
ShowItem = Callable[[str], dict[str, Any]]


def offered(state: State) -> list[str]:
    """Return the names of the strategies that suit a project."""
    if state.multi_label:
        return [name for name in OFFERED if RULES[name].multi_label]
    return list(STRATEGIES if GIVEN in state.suggestions else OFFERED)


class Views:
    """The state of a project as replies; call all methods but `progress` on the desk's thread.

    show : returns an item, by its id, as the page displays it
    """

    def __init__(self, desk: Desk, show: ShowItem) -> None:
        self.desk, self.show = desk, show
        self.guesses, self.presence = Guesses(desk), Presence(desk)
        self.arriving = Arriving()  # items on their way into the pool
        self.network: progress.NetworkState | None = None  # progress of fine-tuning the encoder

    @property
    def state(self) -> State:
        return self.desk.state

    def session(self, person: str) -> Reply:
        """Return the data that the page needs to start."""
        titles = ((name, *STRATEGIES[name]) for name in offered(self.state))
        return {
            "items": len(self.state.ids) - len(self.state.missing),
            "classes": progress.classes(self.state),
            "settings": dict(self.state.settings),
            "multi_label": self.state.multi_label,
            "strategies": [{"name": n, "title": title, "sentence": text} for n, title, text in titles],
            "sources": len(self.state.suggestions),
            "version": self.state.seq,
            "person": person,
        }

    def classes(self) -> Reply:
        """Return the classes, the removed ones and the undoable change."""
        return {"classes": progress.classes(self.state), **progress.class_changes(self.state)}

    def progress(self, person: str) -> Reply:
        """Return all figures, the learning curve, and the predicted items per class; blocks."""
        counts = self.guesses.counts()

        def look() -> Reply:
            predicted = counts if self.guesses.has_learned else None
            return {**self.figures(person, predicted), "curve": progress.curve(self.state)}

        reply: Reply = self.desk.read(look).result()
        return reply

    def class_figures(self) -> Reply:
        """Return precision, recall and confusion by class, from random checks and from the test set."""
        known = self.desk.assessment
        return {
            "classes": list(self.state.classes),
            "checks": None if known is None else known.checks,
            "test": None if known is None else known.test,
            "wishes": [{"class": c, "checks": n} for c, n in self.state.wishes.items()],
            "needed": FEWEST_OF_CLASS,
            "agreement": [
                {"class": c, **figures}
                for c, each in self.state.tally.agreement.items()
                if c in self.state.book.order and (figures := each.figures()) is not None
            ],
        }

    def sources(self) -> Reply:
        """Return the accuracy of each source, and the agreement between people and sources."""
        state = self.state
        people = progress.annotators(state)
        return {"sources": progress.sources(state), "people": people, "pairs": progress.pairs(state)}

    def history(self, person: str, limit: int, before: int | None) -> list[Reply]:
        """Return the answers of one person, or of all, the latest first."""
        return progress.history(self.state, person, limit, before)

    def disputed(self, limit: int) -> list[Reply]:
        """Return items with tied votes, the latest first."""
        return progress.disputed(self.state, limit)

    def states(self, items: list[int]) -> list[Reply]:
        """Return for each item whether it is labelled, its label and the model's guess."""
        return [{**self._state(i), "guess": self.guesses.shown(i)} for i in items]

    def item(self, item: str) -> Reply:
        """Return everything known about one item."""
        i = self.position(item)
        probs, answers = self.guesses.probabilities(i), progress.answers_to(self.state, i)
        return {"item": self.show(item), **self._state(i), "probabilities": probs, "answers": answers}

    def position(self, item: str) -> int:
        """Return an item's position in the pool, or refuse an unknown id."""
        if item not in self.state.position:
            raise Refused(404, "unknown_item", f"item is {item!r:.80}; expected an id of this project")
        position: int = self.state.position[item]
        return position

    def fingerprint(self) -> Reply:
        """Return a hash of the state; it is the same after a restart."""
        return {"version": self.state.seq, "hash": digest(self.state)}

    def reply(self, person: str, saved: int | None) -> Reply:
        """Return the reply to a person's command: their next item and the figures."""
        return {"saved": saved, "next": self._task(person), "progress": self.figures(person)}

    def reply_to(self, event: Event) -> Reply:
        """Return the reply to an answer, with other people's answers since the item was shown."""
        assert isinstance(event.body, Answered)
        others: list[Answer] = []
        item = self.state.position.get(event.body.item)  # None: its row was removed
        if item is not None and event.body.votes:
            others = self.state.answers_since_lease(item, event)
        return {**self.reply(event.person, event.seq), "meanwhile": progress.listed_answers(others)}

    def figures(self, person: str, predicted: dict[int, int] | None = None) -> Reply:
        """Return the figures beside the page, without the curve.

        predicted : the number of items that each class is predicted for
        """
        desk, state, at_work = self.desk, self.state, self.presence.at_work()
        tested = None if desk.assessment is None else desk.assessment.test
        return {
            **progress.summary(state),
            "classes": progress.classes(state, predicted),
            "test": progress.test_set(state, tested),
            "update_ms": desk.update_ms,
            "select_ms": desk.select_ms,
            "names": self._names(),
            "arriving": asdict(self.arriving),
            "network": None if self.network is None else self.network.reply(state),
            "review": self._review(),
            "people": [{**each, "here": each["name"] in at_work} for each in progress.people(state)],
            "per_minute": progress.per_minute(state, person),
        }

    def _review(self) -> Reply | None:
        """Return the last estimate of the number of wrong given labels; None without a review."""
        found = self.desk.learner.reviewed
        if found is None:
            return None
        enough = found.checks >= FEWEST
        interval = found.n_wrong._asdict() if enough else dict.fromkeys(Interval._fields)
        return {"labels": len(found.items), "checks": found.checks, "needed": FEWEST, **interval}

    def _names(self) -> Reply | None:
        """Return whether the model uses class names, and a sentence; None without an encoder for them."""
        learner, on = self.desk.learner, bool(self.state.settings["names"])
        if self.desk.names.encoder is None:
            return None
        if not on:
            sentence = "The model ignores the class names: they are switched off in the settings."
        elif learner.names_hold:
            sentence = "The model starts from the class names and uses them as long as the answers fit."
        else:
            sentence = "The class names are ignored, because the answers do not fit them."
        used = on and learner.names is not None
        return {"on": on, "hold": learner.names_hold, "used": used, "sentence": sentence}

    def _task(self, person: str) -> Reply | None:
        """Return the item that a person has; None if there is none for them."""
        lease = self.state.leases.get(person)
        if lease is None:
            return None
        own, guesses = self.state.answer_of(lease.item, person), self.guesses
        return {
            "item": self.show(self.state.ids[lease.item]),
            "reason": lease.reason,
            "by": lease.by,
            "probabilities": guesses.probabilities(lease.item, person),
            "suggestions": self._suggestions(lease),
            "answer": None if own == CANNOT_TELL else in_reply(own),
            "asks": self._asks(lease),
            "predicted": guesses.shown(lease.item) if self.state.multi_label else None,
            "ruled_out": sorted(self.state.ruled_out(lease.item, person)),
            "lease_seconds": self.state.settings["lease_seconds"],
        }

    def _asks(self, lease: Lease) -> int | None:
        """Return the class that a confirmation is about; None: all classes."""
        promise = self.state.promise
        confirms = self.state.confirms and lease.reason == "audit" and lease.item in self.state.proposals
        return promise.class_ if confirms and promise is not None else None

    def _suggestions(self, lease: Lease) -> list[Reply]:
        """Return the suggestions for a leased item; empty if it was ever a random check or a test item."""
        state, i = self.state, lease.item
        if lease.reason in BLIND or i in state.checked or i in state.test or i in state.audits:
            return []
        return [
            {"source": source, "class": suggestion.class_, "score": suggestion.score}
            for source, suggestion in state.suggestions_to(i)
        ]

    def _state(self, i: int) -> Reply:
        """Return whether an item is labelled, and its label."""
        label = self.state.label_of(i)
        unlabelled = "cannot_tell" if i in self.state.answers else "out" if i in self.state.holder else "free"
        where = unlabelled if label is None else "labelled"
        return {"state": where, "label": in_reply(label), **absent_in_reply(label)}
