"""Read-only requests as replies, run on the desk's thread between changes; and the presence of people.

Presence, which is kept in memory only, is who has the page open now, and in which browser. A page reports
regularly that it is open, and reports when it closes; a page that stops reporting counts as closed after a
while.

A browser without a name is asked for one in three cases: the page is open in another browser, several people
have labelled, or a token is needed. Otherwise one person is assumed to use several browsers or ports, and the
page continues under the only name there is.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from everylabel.labelling import progress
from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import Arriving
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.quality.accuracy import FEWEST, Interval
from everylabel.labelling.quality.by_class import FEWEST_OF_CLASS
from everylabel.labelling.queues import MOST, SURE, QueueData, near_copies
from everylabel.labelling.state.state import LabelSet, State, digest
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    GIVEN,
    IMPORT,
    REVIEW,
    Answer,
    Lease,
    Refused,
    Value,
    absent_in_reply,
    in_reply,
)
from everylabel.log.events import Answered, Event
from everylabel.selection.pool import Where
from everylabel.selection.pool.sparse import all_but
from everylabel.selection.strategies import STRATEGIES as RULES

STRATEGIES = {
    "herding": "Coverage: recommended. Items that the model is unsure of and that resemble many others.",
    "lookahead": "Look ahead: items whose label should reduce errors most. For many classes.",
    "margin": "Margin: items whose two best guesses are closest. Fast; for later stages.",
    "entropy": "Entropy: items for which the model is unsure among many classes.",
    "least_confident": "Least confident: items whose best guess is unlikely.",
    "badge": "Uncertain and different: uncertain items that differ from each other.",
    "typiclust": "Typical: the most typical item of each group without a label. Good for the first labels.",
    REVIEW: "Review: items whose given label is probably wrong, likely errors first.",
    "random": "Random: items drawn at random, for comparison.",
}
assert set(STRATEGIES) - {REVIEW} <= set(RULES)
OFFERED = [name for name in STRATEGIES if name != REVIEW]  # in any project
NO_CLASS = -1  # in place of a class's number
MOST_NUMBERS = 200_000  # probabilities on a page of predictions
OPEN_AFTER_REPORT = 60.0  # seconds for which a page counts as open after its last report
Reply = dict[str, Any]
ShowItem = Callable[[str], dict[str, Any]]


def offered(state: State) -> list[str]:
    """Return the names of the strategies that suit a project."""
    if state.multi_label:
        return [name for name in OFFERED if RULES[name].multi_label]
    return list(STRATEGIES if GIVEN in state.suggestions else OFFERED)


BLIND = ("check", "audit")  # reasons of leases whose guess is hidden


class Views:
    """The state of a project as replies. `show` returns an item, by its id, as the page displays it."""

    def __init__(self, desk: Desk, show: ShowItem) -> None:
        self.desk, self.show = desk, show
        self.presence = Presence(desk)
        self.arriving = Arriving()  # items on their way into the pool
        self.network: progress.NetworkState | None = None  # progress of fine-tuning the encoder
        self._counting = threading.Lock()
        self._guesses: tuple[int, np.ndarray, np.ndarray] = (-1, *2 * (np.zeros(0, int),))  # by version

    @property
    def state(self) -> State:
        return self.desk.state

    def session(self, person: str) -> Future[Reply]:
        """Return the data that the page needs to start."""

        def look() -> Reply:
            titles = []
            for name, text in ((name, STRATEGIES[name]) for name in offered(self.state)):
                title, _, rest = text.partition(": ")
                titles.append({"name": name, "title": title, "sentence": rest[0].upper() + rest[1:]})
            return {
                "items": len(self.state.ids) - len(self.state.missing),
                "classes": progress.classes(self.state),
                "settings": dict(self.state.settings),
                "multi_label": self.state.multi_label,
                "strategies": titles,
                "sources": len(self.state.suggestions),
                "version": self.state.seq,
                "person": person,
            }

        return self.desk.read(look)

    def classes(self) -> Future[Reply]:
        """Return the current and removed classes."""
        return self.desk.read(self.all_classes)

    def all_classes(self) -> Reply:
        """Return the classes, the removed ones and the undoable change; call on the desk's thread."""
        return {"classes": progress.classes(self.state), **progress.class_changes(self.state)}

    def progress(self, person: str) -> Reply:
        """Return all figures, the learning curve, and the predicted items per class; blocks."""
        counts = self._predicted_counts()

        def look() -> Reply:
            n = len(self.state.classes)
            predicted = np.pad(counts, (0, max(0, n - len(counts)))).tolist() if self._has_learned() else None
            return {**self.figures(person, predicted), "curve": progress.curve(self.state)}

        reply: Reply = self.desk.read(look).result()
        return reply

    def _predicted_counts(self) -> np.ndarray:
        """Return for each class number how many items it is predicted for; blocks."""

        def look() -> np.ndarray | None:
            pool, columns = self.desk.learner.pool, self.state.columns
            if self.can_scan:
                return None
            counts = np.zeros(len(self.state.classes), np.int64)
            present = [number for number in columns if number >= 0]
            counts[present] = pool.guessed(len(columns))[: len(present)]
            return counts

        counts: np.ndarray | None = self.desk.read(look).result()
        if counts is None:
            self.guesses()
            counts = self._guesses[2]
        return counts

    @property
    def can_scan(self) -> bool:
        """Whether all items can be scanned: they are not in remote shards."""
        return self.desk.learner.pool.can_scan

    def check_can_scan(self, what: str) -> None:
        """Refuse a request that must scan all items, if they are in remote shards."""
        if not self.can_scan:
            raise Refused(
                409, "in_shards", f"{what} is not available for shards on Ray, because it needs all items"
            )

    def guesses(self) -> np.ndarray:
        """Return the most probable class of each item (n,), negative if it is none; blocks.

        The desk's thread only copies the logits, which is fast. They are compared here, once for each version
        of the state, together with the number of items predicted as each class.
        """

        def look() -> tuple[int, tuple[int, ...], Learner, np.ndarray | None]:
            version, learner = self.state.seq, self.desk.learner
            known = self._guesses[0] == version
            return version, self.state.columns, learner, None if known else np.array(learner.pool.logits())

        with self._counting:
            version, columns, learner, logits = self.desk.read(look).result()
            if logits is not None:
                logits = learner.combined(np.arange(len(logits)), logits)
                numbers = np.array(columns or (NO_CLASS,))
                best = numbers[logits.argmax(axis=1)]
                counts = np.bincount(best[best >= 0])
                if learner.multi_label:
                    predicted = learner.predicted(learner.link(logits))
                    best[~predicted.any(axis=1)] = NO_CLASS
                    counts = np.zeros(max(*numbers, 0) + 1, np.int64)
                    counts[numbers[numbers >= 0]] = predicted.sum(axis=0)[numbers >= 0]
                self._guesses = version, best, counts
            return self._guesses[1]

    def figures_by_class(self) -> Future[Reply]:
        """Return precision, recall and confusion by class, from random checks and from the test set."""
        return self.desk.read(self.class_figures)

    def class_figures(self) -> Reply:
        """Return the figures by class; call on the desk's thread."""
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

    def sources(self) -> Future[Reply]:
        """Return the accuracy of each source, and the agreement between people and sources."""

        def look() -> Reply:
            state = self.state
            people = progress.annotators(state)
            return {"sources": progress.sources(state), "people": people, "pairs": progress.pairs(state)}

        return self.desk.read(look)

    def predictions(self, after: int | None, offset: int, limit: int) -> Reply:
        """Return class probabilities of unlabelled items, in the order of the source; blocks.

        A multi-label project also has `thresholds`, the probability from which each class is predicted.
        The desk's thread only copies logits; with many classes, a page has fewer items.
        after : last position seen; labels given meanwhile then shift nothing
        """

        def look() -> tuple[np.ndarray, Learner, Reply]:
            learner, book, columns = self.desk.learner, self.state.book, self.state.columns
            pool, place = learner.pool, {number: j for j, number in enumerate(columns)}
            others = np.array([*self.state.test_labels, *self.state.missing], np.int64)
            left = all_but(len(pool), np.union1d(pool.placed(Where.LABELLED), others))
            begin = offset + (0 if after is None else int(np.searchsorted(left, after, side="right")))
            some = left[begin : begin + max(1, min(limit, MOST_NUMBERS // max(1, pool.n_classes)))]
            page = {
                "ids": [self.state.ids[i] for i in some],
                "classes": [book.names[number] for number in book.order],
                "total": len(left),
                "after": int(some[-1]) if begin + len(some) < len(left) and len(some) else None,
            }
            if learner.multi_label:
                page["thresholds"] = learner.thresholds_of(book.order).round(6).tolist()
            return learner.logits(some)[:, [place[number] for number in book.order]], learner, page

        logits, learner, page = self.desk.read(look).result()
        return {**page, "probabilities": learner.link(logits).round(6).tolist()}

    def points(self, most: int, among: int | None = None) -> Reply:
        """Return positions of all labelled items and of a sample of the others, with labels and guesses.

        among : consider only the first `among` items
        """
        self.check_can_scan("the map")

        def look() -> tuple[np.ndarray, dict[int, Value], set[int], bool]:
            state = self.desk.learner.pool.state[: len(guesses)][:among].copy()
            return state, dict(self.state.labels), self._checks(), self._has_learned()

        guesses = self.guesses()
        state, labels, checks, knows = self.desk.read(look).result()
        known = np.flatnonzero(state == Where.LABELLED)[:most]
        others = np.setdiff1d(np.arange(len(state)), known)
        some = np.random.default_rng(0).permutation(others)[: most - len(known)]
        idx = np.sort(np.r_[known, some])
        pairs = zip(idx.tolist(), guesses[idx].tolist(), strict=True)
        return {
            "idx": idx,
            "guess": [guess if knows and i not in checks else None for i, guess in pairs],
            "label": [in_reply(labels.get(int(i))) for i in idx],
            "absent": [absent_in_reply(labels.get(int(i))).get("absent") for i in idx],
        }

    def queue_data(self) -> QueueData:
        """Return a copy of all data that queues are computed from; blocks."""

        def copied() -> tuple[QueueData, np.ndarray | None, list[int], Learner]:
            state, learner, assessed = self.state, self.desk.learner, self.desk.assessment
            agreed = {i: self.desk.consensus_on(i) for i in self.desk.consensus}
            data = QueueData(
                learner.pool.features,
                None,
                dict(state.labels),
                {item: list(given) for item, given in state.answers.items()},
                {} if assessed is None else assessed.left_out,
                self._hidden(),
                state.multi_label,
                final=frozenset(state.adjudicated()),
                consensus={i: found for i, found in agreed.items() if found is not None},
                is_assessed=assessed is not None,
            )
            logits = learner.pool.scan() if self._has_learned() else None
            return data, logits, list(state.book.present), learner

        data, logits, present, learner = self.desk.read(copied).result()
        if logits is None:
            return data
        logits, k = learner.combined(np.arange(len(logits)), logits), max(present, default=-1) + 1
        probs = np.zeros((len(logits), k))  # by class number; 0 for removed classes
        probs[:, present] = learner.link(logits)[:, : len(present)]
        thresholds = learner.thresholds_of(range(k)) if learner.multi_label else None
        return data._replace(probabilities=probs, multi_label=learner.multi_label, thresholds=thresholds)

    def copies(self, item: int) -> tuple[int | None, dict[int, bool]]:
        """Return an item's class and its unanswered near copies, each with whether it is sure; blocks.

        Copies are offered only if the model is sure of the item and of at least one copy. The page asks for
        every item that stays in view: the pool is compared only if the model is sure of the item.
        """
        if not self.can_scan:
            return None, {}

        def guessed(items: list[int]) -> tuple[np.ndarray, np.ndarray] | None:
            """Return the guessed classes, and whether each is sure; None if they must not be shown."""
            if item in self._hidden() or not self._has_learned() or self.state.multi_label:
                return None
            probs = self.desk.learner.probabilities_of(items)[:, : len(self.state.book.present)]
            return probs.argmax(axis=1), probs.max(axis=1) >= SURE

        def compared() -> Any:
            own = guessed([item])
            return None if own is None or not own[1][0] else self.desk.learner.pool.features

        features = self.desk.read(compared).result()
        if features is None:
            return None, {}
        near = near_copies(features, item)

        def same() -> tuple[int | None, dict[int, bool]]:
            hidden = {*self._hidden(), *self.state.answers}
            free = [i for i in near if i not in hidden]
            found = guessed([item, *free])
            if found is None:
                return None, {}
            guesses, sure = found
            same = np.flatnonzero(guesses[1:] == guesses[0])[:MOST]
            if not sure[0] or not sure[1:][same].any():
                return None, {}
            return self.state.book.present[int(guesses[0])], {free[j]: bool(sure[j + 1]) for j in same}

        return self.desk.read(same).result()

    def history(self, person: str, limit: int, before: int | None) -> Future[list[Reply]]:
        """Return the answers of one person, or of all, the latest first."""
        return self.desk.read(lambda: progress.history(self.state, person, limit, before))

    def disputed(self, limit: int) -> Future[list[Reply]]:
        """Return items with tied votes, the latest first."""
        return self.desk.read(lambda: progress.disputed(self.state, limit))

    def states(self, items: list[int]) -> Future[list[Reply]]:
        """Return for each item whether it is labelled, its label and the model's guess."""
        return self.desk.read(lambda: [self._state(i) for i in items])

    def item(self, item: str) -> Future[Reply]:
        """Return everything known about one item."""

        def look() -> Reply:
            i = self.position(item)
            known = self._state(i)
            del known["guess"]
            probs = None if i in self._checks() else self._probabilities(i)
            answers = progress.answers_to(self.state, i)
            return {"item": self.show(item), **known, "probabilities": probs, "answers": answers}

        return self.desk.read(look)

    def position(self, item: str) -> int:
        """Return an item's position in the pool, or refuse an unknown id."""
        if item not in self.state.position:
            raise Refused(404, "unknown_item", f"item is {item!r:.80}; expected an id of this project")
        return self.state.position[item]

    def fingerprint(self) -> Future[Reply]:
        """Return a hash of the state; it is the same after a restart."""
        return self.desk.read(lambda: {"version": self.state.seq, "hash": digest(self.state)})

    def label_set(self) -> Future[LabelSet]:
        """Return a copy of all labels, for exports."""
        return self.desk.read(self.desk.label_set)

    def reply(self, person: str, saved: int | None) -> Reply:
        """Return the reply to a person's command: their next item and the figures."""
        return {"saved": saved, "next": self._task(person), "progress": self.figures(person)}

    def reply_to(self, event: Event) -> Reply:
        """Return the reply to an answer, with other people's answers since the item was shown."""
        assert isinstance(event.body, Answered)
        said: list[Answer] = []
        item = self.state.position.get(event.body.item)  # None: its row was removed
        if item is not None and event.body.votes:
            said = self.state.answers_since_lease(item, event)
        return {**self.reply(event.person, event.seq), "meanwhile": progress.listed_answers(said)}

    def figures(self, person: str, predicted: list[int] | None = None) -> Reply:
        """Return the figures beside the page, without the curve."""
        desk, state, here = self.desk, self.state, self.presence.at_work()
        figures = progress.summary(
            state,
            update_ms=desk.update_ms,
            select_ms=desk.select_ms,
            names=self._names(),
            tested=None if desk.assessment is None else desk.assessment.test,
        )
        return {
            **figures,
            "classes": progress.classes(state, predicted),
            "arriving": asdict(self.arriving),
            "network": self._network(),
            "review": self._review(),
            "people": [{**each, "here": each["name"] in here} for each in progress.people(state)],
            "per_minute": progress.per_minute(state, person),
        }

    def _review(self) -> Reply | None:
        """Return the last estimate of the number of wrong given labels; None without a review."""
        found = self.desk.learner.reviewed
        if found is None:
            return None
        enough = found.checks >= FEWEST
        interval = found.wrong._asdict() if enough else dict.fromkeys(Interval._fields)
        return {"labels": len(found.items), "checks": found.checks, "needed": FEWEST, **interval}

    def _network(self) -> Reply | None:
        """Return the progress of fine-tuning the encoder; None if the server does not fine-tune."""
        if self.network is None:
            return None
        status = self.network
        return {
            "can": not status.why_frozen,
            "setting": self.state.settings["network"],
            "share": status.share,
            "sentence": status.sentence(self.state),
            "generations": [
                {"labels": each.labels, "trusted": each.trusted} for each in self.state.generations
            ],
        }

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
        lease = self.state.leases.get(person)
        if lease is None:
            return None
        own = self.state.answer_of(lease.item, person)
        blind = lease.item in self._checks()  # seeing the guess would bias the check
        return {
            "item": self.show(self.state.ids[lease.item]),
            "reason": lease.reason,
            "by": lease.by,
            "probabilities": None if blind else self._probabilities(lease.item, person),
            "suggestions": self._suggestions(lease),
            "answer": None if own == CANNOT_TELL else in_reply(own),
            "asks": self._asks(lease),
            "predicted": None if blind else self._predicted(lease.item),
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
            {"source": source, "class": one.class_, "score": one.score}
            for source, one in state.suggestions_to(i)
        ]

    def _state(self, i: int) -> Reply:
        label = self.state.label_of(i)
        known = "cannot_tell" if i in self.state.answers else "out" if i in self.state.holder else "free"
        hidden = i in self._checks() or not self._has_learned()
        guess = None if hidden else self.guessed_classes(i) if self.state.multi_label else self.guess(i)[0]
        where = "labelled" if label is not None else known
        return {"state": where, "label": in_reply(label), **absent_in_reply(label), "guess": guess}

    def guessed_classes(self, i: int) -> list[int]:
        """Return the predicted classes of one item of a multi-label project."""
        learner = self.desk.learner  # a class of this round's events has no column yet
        said = learner.predicted(learner.probabilities(i))[: len(learner.columns)]
        return [number for number, yes in zip(learner.columns, said.tolist(), strict=True) if yes]

    def _predicted(self, i: int) -> list[int] | None:
        """Return the classes to mark as predicted; None in single-label projects and before any training."""
        return self.guessed_classes(i) if self.state.multi_label and self._has_learned() else None

    def guess_fields(self, i: int) -> Reply:
        """Return the fields of an answer that hold the model's guess from before it."""
        if self.state.multi_label:
            return {"guesses": self.guessed_classes(i)}
        guess, sure = self.guess(i)
        return {"guess": guess, "sure": sure}

    def guess(self, i: int) -> tuple[int | None, float]:
        """Return the most probable class of one item, and its probability."""
        probs = self.desk.learner.probabilities(i)
        columns = self.state.columns
        return (columns[int(probs.argmax())] if columns else None), float(probs.max())

    def _has_learned(self) -> bool:
        """Return whether the model has learned anything: labels, suggestions or class names."""
        learner = self.desk.learner
        return bool(self.state.labels) or learner.names is not None or learner.uses_suggestions

    def _checks(self) -> set[int]:
        """Return items leased as random checks or tests: their guesses are hidden."""
        leases, test = self.state.leases.values(), self.state.test
        return {lease.item for lease in leases if lease.reason in BLIND or lease.item in test}

    def _hidden(self) -> frozenset[int]:
        """Return items with hidden guesses: leased checks, the test set and items gone from the source."""
        return frozenset({*self._checks(), *self.state.test, *self.state.missing})

    def _probabilities(self, i: int, person: str | None = None) -> list[float] | None:
        """Return probabilities by class number; 0 for classes that people (or one person) ruled out."""
        if not self._has_learned():
            return None
        probs = np.zeros(len(self.state.classes))
        present = list(self.state.book.present)
        probs[present] = self.desk.learner.probabilities(i)[: len(present)]
        gone = sorted(self.state.ruled_out(i, person))
        if gone:  # the others share their probability
            total = probs.sum()
            probs[gone] = 0.0
            probs *= total / max(probs.sum(), 1e-12)
        by_number: list[float] = probs.round(6).tolist()
        return by_number


class Tab(NamedTuple):
    """An open page: its person, and random ids of its browser and of itself."""

    person: str
    browser: str
    id: str


class Presence:
    """The open pages of a project; read and changed by the desk's thread only."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._tabs: dict[str, tuple[Tab, float]] = {}  # id -> tab and time of its last report

    def here(self, tab: Tab, *, named: bool, known: bool, asks: bool) -> Future[dict[str, Any]]:
        """Note that a page is open; return whether the person has to give a name first.

        named : the person has given a name; known : this browser has labelled in the project before, unnamed
        asks : everybody has to give a name
        """

        def look() -> dict[str, Any]:
            people = {name for name in (+self._desk.state.tally.by_person) if name != IMPORT}
            others = any(other.browser != tab.browser for other in self._open())
            ask = not named and (asks or others or (len(people) > 1 and not known))
            mine = tab
            if not named and not ask and len(people) == 1:
                mine = tab._replace(person=next(iter(people)))
            reply = {"person": mine.person, "elsewhere": self._elsewhere(mine), "guest": self._guest(people)}
            if not ask or tab.id in self._tabs:  # a page that was open alone may continue
                self._tabs[tab.id] = mine, self._clock()
            return {"ask": ask, **reply}

        return self._desk.read(look)

    def leave(self, tab: str) -> Future[dict[str, Any]]:
        """Note that a page was closed."""

        def look() -> dict[str, Any]:
            return {"known": self._tabs.pop(tab, None) is not None}

        return self._desk.read(look)

    def at_work(self) -> set[str]:
        """Return the people who have the page open; call on the desk's thread."""
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
