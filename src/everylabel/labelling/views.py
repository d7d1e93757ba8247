"""Replies about the state of a project (the page's start, items, answers, figures), and people's presence.

Presence, which is kept in memory only, is who has the page open now, and in which browser. A page reports
regularly that it is open, and reports when it closes; a page that stops reporting counts as closed after a
while.

A browser without a name is asked for one in three cases: the page is open in another browser, several people
have labelled, or a token is needed. Otherwise one person is assumed to use several browsers or ports, and the
page continues under the only name there is.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from everylabel.labelling import progress
from everylabel.labelling.desk import Desk
from everylabel.labelling.guesses import Guesses
from everylabel.labelling.joining import Arriving
from everylabel.labelling.quality.accuracy import FEWEST, Interval
from everylabel.labelling.quality.by_class import FEWEST_OF_CLASS
from everylabel.labelling.state.state import State, digest
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    GIVEN,
    IMPORT,
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
BLIND = ("check", "audit")  # reasons of leases whose guess is hidden: seeing it would bias the answer
OPEN_AFTER_REPORT = 60.0  # seconds for which a page counts as open after its last report
Reply = dict[str, Any]
ShowItem = Callable[[str], dict[str, Any]]


def offered(state: State) -> list[str]:
    """Return the names of the strategies that suit a project."""
    if state.multi_label:
        return [name for name in OFFERED if RULES[name].multi_label]
    return list(STRATEGIES if GIVEN in state.suggestions else OFFERED)


class Views:
    """The state of a project as replies; call all methods but `progress` on the desk's thread.

    guesses : what takes the whole pool; it does not delay the desk
    show : returns an item, by its id, as the page displays it
    """

    def __init__(self, desk: Desk, show: ShowItem) -> None:
        self.desk, self.show = desk, show
        self.guesses, self.presence = Guesses(self), Presence(desk)
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
            predicted = counts if self.has_learned else None
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
        return [{**self._state(i), "guess": self.shown_guess(i)} for i in items]

    def item(self, item: str) -> Reply:
        """Return everything known about one item."""
        i = self.position(item)
        probs, answers = self.probabilities(i), progress.answers_to(self.state, i)
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
        counts = {"labels": len(found.items), "corrected": found.n_corrected, "checks": found.checks}
        return {**counts, "needed": FEWEST, **interval}

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
        own = self.state.answer_of(lease.item, person)
        return {
            "item": self.show(self.state.ids[lease.item]),
            "reason": lease.reason,
            "by": lease.by,
            "probabilities": self.probabilities(lease.item, person),
            "suggestions": self._suggestions(lease),
            "answer": None if own == CANNOT_TELL else in_reply(own),
            "asks": self._asks(lease),
            "predicted": self.shown_guess(lease.item) if self.state.multi_label else None,
            "ruled_out": sorted(self.state.ruled_out(lease.item, person)),
            "lease_seconds": self.state.settings["lease_seconds"],
        }

    def _asks(self, lease: Lease) -> int | None:
        """Return the class that a confirmation is about; None: all classes."""
        promise = self.state.confirmation
        is_proposal = lease.reason == "audit" and lease.item in self.state.proposals
        return promise.class_ if is_proposal and promise is not None else None

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

    @property
    def has_learned(self) -> bool:
        """Whether the model has learned anything: labels, suggestions or class names."""
        learner = self.desk.learner
        return bool(self.state.labels) or learner.names is not None or learner.evidence is not None

    def checks(self) -> set[int]:
        """Return items leased as random checks or tests: their guesses are hidden."""
        leases, test = self.state.leases.values(), self.state.test
        return {lease.item for lease in leases if lease.reason in BLIND or lease.item in test}

    def hidden(self) -> frozenset[int]:
        """Return items with hidden guesses: leased checks, the test set and items gone from the source."""
        return frozenset({*self.checks(), *self.state.test, *self.state.missing})

    def shown_guess(self, i: int) -> Any:
        """Return the predicted class or classes of an item; None before any training, and if hidden."""
        return None if i in self.checks() or not self.has_learned else self.desk.learner.guess(i)[0]

    def guess_fields(self, i: int) -> Reply:
        """Return the fields of an answer that hold the model's guess from before it."""
        guess, sure = self.desk.learner.guess(i)
        return {"guesses": guess} if self.state.multi_label else {"guess": guess, "sure": sure}

    def probabilities(self, i: int, person: str | None = None) -> list[float] | None:
        """Return probabilities by class number; None before any training, and if hidden.

        They are 0 for classes that people (or one person) ruled out.
        """
        if i in self.checks() or not self.has_learned:
            return None
        probs = np.zeros(len(self.state.classes))
        present = list(self.state.book.present)
        probs[present] = self.desk.learner.probabilities(i)[: len(present)]
        ruled_out = sorted(self.state.ruled_out(i, person))
        if ruled_out:  # the others share their probability
            total = probs.sum()
            probs[ruled_out] = 0.0
            probs *= total / max(probs.sum(), 1e-12)
        by_number: list[float] = probs.round(6).tolist()
        return by_number


class Tab(NamedTuple):
    """An open page: its person, and random ids of its browser and of itself."""

    person: str
    browser: str
    id: str


class Presence:
    """The open pages of a project; call all methods on the desk's thread."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._tabs: dict[str, tuple[Tab, float]] = {}  # id -> tab and time of its last report

    def here(self, tab: Tab, *, named: bool, known: bool, asks: bool) -> dict[str, Any]:
        """Note that a page is open; return whether the person has to give a name first.

        named : the person has given a name; known : this browser has labelled in the project before, unnamed
        asks : everybody has to give a name
        """
        people = {name for name in (+self._desk.state.tally.by_person) if name != IMPORT}
        others = any(other.browser != tab.browser for other in self._open())
        ask = not named and (asks or others or (len(people) > 1 and not known))
        if not named and not ask and len(people) == 1:
            tab = tab._replace(person=next(iter(people)))
        reply = {"ask": ask, "person": tab.person, "elsewhere": self._elsewhere(tab)}
        reply["guest"] = self._guest(people)
        if not ask or tab.id in self._tabs:  # a page that was open alone may continue
            self._tabs[tab.id] = tab, self._clock()
        return reply

    def leave(self, tab: str) -> dict[str, Any]:
        """Note that a page was closed."""
        return {"known": self._tabs.pop(tab, None) is not None}

    def at_work(self) -> set[str]:
        """Return the people who have the page open."""
        return {tab.person for tab in self._open()}

    def _elsewhere(self, tab: Tab) -> bool:
        """Return whether another browser uses the same name now."""
        return any(other.person == tab.person and other.browser != tab.browser for other in self._open())

    def _guest(self, people: set[str]) -> str:
        """Return an unused name, for a person who gives none."""
        taken = {*people, *(tab.person for tab, _ in self._tabs.values())}
        return next(name for i in count(1) if (name := f"guest {i}") not in taken)

    def _open(self) -> list[Tab]:
        oldest = self._clock() - OPEN_AFTER_REPORT
        return [tab for tab, at in self._tabs.values() if at >= oldest]
