"""The desk: one thread that applies requests in turn, writes their events, learns, and leases items.

Requests that arrive while the desk is busy are handled together in one round: their labels are learned in one
pass over the pool, their next items are picked at once, and all events are written in one commit. Replies are
sent after the commit. If the commit fails, the requests fail, and the state is read from the log again. While
the log refuses writes (a full disk), requests that would change something are refused first, and reading
continues.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.learner import Learner, WarmStart
from everylabel.labelling.model.training import ClassNames, FeatureTable, TrainingSet
from everylabel.labelling.next_item import NextItem, is_open_to, priority_item, skipped_item
from everylabel.labelling.quality.assessment import Assessment
from everylabel.labelling.sources.consensus import ItemConsensus, certainty, doubtful
from everylabel.labelling.state.reducer import apply, apply_all
from everylabel.labelling.state.state import LabelSet, State, new_state
from everylabel.labelling.state.types import CANNOT_TELL, FREE, REVIEW, Place, Refused, check_weights
from everylabel.log import events
from everylabel.log.events import Body, Event, Leased, Release
from everylabel.models.scaling import Scaling
from everylabel.selection.pool.features import LazyScaled
from everylabel.selection.select import acting_strategy

logger = logging.getLogger(__name__)
AT_ONCE = 64  # maximum number of requests in one round
QUESTION = "question"  # logged in place of a strategy if an item was chosen for a yes / no question
MOST_ANSWERS = 5  # maximum number of answers to an item whose label is doubtful
RETRAINED_UP_TO = 10**7  # rows * features * classes that people wait for; larger trainings run in background

Finish = Callable[[], Any]  # returns the reply; called after the commit
Command = Callable[[], Finish | None]  # checks a request and emits its events; None: no reply


class Generation(Protocol):
    """A fine-tuned encoder: `projects.generations.Generation`."""

    @property
    def body(self) -> events.Generation:
        """Return the event that recorded it."""

    @property
    def encoder_folder(self) -> Path:
        """Return the folder of its encoder, as `TunedEncoder.save` wrote it."""

    def load(self) -> None:
        """Load the encoder, if it is not loaded yet."""

    def embed(self, items: Sequence[Any]) -> np.ndarray:
        """Return the features of items."""

    def cross_fitted_by(self, state: State) -> dict[int, dict[int, float]]:
        """Return cross-fitted predictions of the labels it was trained on, by item and class."""


class _Job(NamedTuple):
    run: Callable[[], Any]  # a command, or a look at the state
    future: "Future[Any]"
    alone: bool = False  # runs in a round of its own
    reads: bool = False  # changes nothing


class Desk:
    """The state and the model of one project, and the one thread that may change them.

    Parameters
    ----------
    rows : FeatureTable
        The features of the items, by id.
    log : Store
        The event log.
    state : State, optional
        The state after all events of the log, if known; else it is computed from the log.
    names : ClassNames, optional
        Vectors of class names.
    mean : optional
        The mean of an earlier model, from which training starts.
    generation : optional
        The fine-tuned encoder that made the features of `rows`.
    """

    def __init__(
        self,
        rows: FeatureTable,
        log: Any,
        state: State | None = None,
        names: ClassNames | None = None,
        mean: WarmStart | None = None,
        generation: Generation | None = None,
    ) -> None:
        self.rows, self.log, self.names = rows, log, names or ClassNames()
        self.frozen_rows = rows  # by the original encoder; differs from `rows` if a generation is in use
        self.generation: Generation | None = generation  # the fine-tuned encoder in use
        self.state: State
        self.learner: Learner
        self.update_ms: float | None = None
        self.select_ms: float | None = None
        self.assessment: Assessment | None = None  # the latest estimate of the model's accuracy
        self.learned = threading.Event()  # set when labels, names or items arrived since the last training
        self.consensus: Mapping[
            int, ItemConsensus
        ] = {}  # on items with several answers, at the last training
        self._doubtful: tuple[Assessment | None, list[int]] = None, []  # labels worth another answer
        self._touched: dict[int, None] = {}  # items whose place may have changed in this round
        self._unwritten: list[Event] = []  # events of this round
        self._asking: list[str] = []  # people who get an item at the end of this round
        self.questions = set[str]()  # people who answer one class at a time in a multi-label project
        self._stale = False  # the state must be read from the log again before the next round
        self._closed = False
        self._refusal: EverylabelError | None = None  # why nothing can be written in this round
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._begin(self._read_state() if state is None else state, mean)
        if self.state.seq == 0:
            raise EverylabelError("log holds no event; expected one that `projects.log.open_log` began")
        self._thread = threading.Thread(target=self._work, name="desk", daemon=True)
        self._thread.start()

    @property
    def ids(self) -> Sequence[str]:
        """The items in the pool, in the order in which they joined."""
        ids: Sequence[str] = self.state.ids
        return ids

    @property
    def features(self) -> np.ndarray | LazyScaled:
        """The scaled features of the items, as the model sees them."""
        return self.learner.pool.features

    @property
    def scaling(self) -> Scaling | None:
        return self.learner.scaling

    def submit(self, command: Command, *, alone: bool = False) -> "Future[Any]":
        """Run a command on the desk's thread; the future holds the reply that its `Finish` returns.

        A command must raise Refused before it emits or changes anything.
        """
        future: Future[Any] = Future()
        return self._put(_Job(command, future, alone))

    def _put(self, job: _Job) -> "Future[Any]":
        self._jobs.put(job)
        if self._closed:
            self._refuse_rest()
        return job.future

    def read(self, look: Callable[..., Any], *args: Any) -> "Future[Any]":
        """Read the state between changes; the future holds the result of `look(*args)`."""
        return self._put(_Job(partial(look, *args), Future(), reads=True))

    def close(self) -> None:
        """Finish all requests and stop."""
        self._jobs.put(None)
        self._thread.join()
        self._closed = True
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        """Refuse requests that arrived after the end."""
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(Refused(503, "closing", "the server is stopping; ask again later"))

    def emit(self, person: str, body: Body, key: str | None = None) -> Event:
        """Apply an event to the state; the model learns it and the log stores it when the round ends."""
        self._check_writable()
        event = Event(self.state.seq + 1, time.time(), person, body, key)
        book = self.state.book
        item = apply(self.state, event)
        if item is not None:
            self._touched[item] = None
        if self.state.book is not book:  # a class may now have another's labels
            self._touched |= dict.fromkeys({*self.learner.places, *self.state.placed()})
        self._unwritten.append(event)
        return event

    def request_item(self, person: str) -> None:
        """Lease an item to this person at the end of the round."""
        if person not in self.state.leases:
            self._check_writable()
        if person not in self._asking:
            self._asking.append(person)

    def training_set(self, places: Mapping[int, Place] | None = None) -> TrainingSet:
        """Return a copy of everything that the model is computed from; call on the desk's thread.

        places : of all items that are not free; by default those that the model reflects
        """
        state = self.state
        known = dict(self.learner.places if places is None else places)
        vectors, tuned = self.names.vectors(state), self.generation is not None
        return TrainingSet(
            state.columns,
            known,
            vectors,
            len(state.ids),
            tuned,
            suggestions=state.suggested(),
            without_suggestions=state.without_suggestions(),
            drawn=check_weights(state.standing_checks()),
            review=state.settings["strategy"] == REVIEW,
            multi_label=state.multi_label,
        )

    def _quick_training_set(self, places: Mapping[int, Place] | None = None) -> TrainingSet:
        """Return the training set, without suggestions if people would wait too long for learning them."""
        training = self.training_set(places)
        n_suggestions = sum(len(each.items) for each in training.suggestions)
        if n_suggestions * self.rows.features.shape[1] * max(1, training.n_classes) <= RETRAINED_UP_TO:
            return training
        return training._replace(suggestions=())

    def replace_model(self, learner: Learner) -> None:
        """Let a retrained model learn the latest changes and replace the current one; on the desk's thread.

        The retrained model is dropped, and training starts again, if classes were removed, if class names or
        features changed, or if the state was read from the log again: the order of items may be another one.
        """
        is_same = learner.rows is self.rows and learner.ids is self.ids
        if not is_same or not learner.move_to(self.training_set()):
            self.learned.set()  # wakes the retrainer
            learner.close()
            return
        before, self.learner = self.learner, learner
        before.close()

    def switch_features(
        self,
        rows: FeatureTable,
        names: ClassNames,
        learner: Learner,
        generation: Generation | None,
        body: Body | None = None,
    ) -> None:
        """Replace the features of the items, and the model by one trained on them; call on the desk's thread.

        body : the event that records the change
        """
        if body is not None:
            self.emit("", body)
        before = self.learner
        self.rows, self.names, self.generation = rows, names, generation
        self.state.source = rows
        learner.ids = self.ids
        if not learner.move_to(self.training_set()):
            learner.close()
            learner = Learner(rows, self.ids, self._quick_training_set())
        self.learner, self.assessment = learner, None
        before.close()
        self.learned.set()

    def use_consensus(self, found: Mapping[int, ItemConsensus]) -> None:
        """Train on the consensus where several people answered; call on the desk's thread."""
        before, self.consensus = self.consensus, found
        changed = (i for i in {*found, *before} if self._place(i) != self.learner.places.get(i, FREE))
        self._touched |= dict.fromkeys(changed)

    def _place(self, item: int) -> Place:
        """Return an item's place, with the consensus as its label if there is one on its current answers."""
        place, consensus = self.state.place(item), self.consensus_on(item)
        if consensus is None or place.label is None or consensus.label not in self.state.columns:
            return place
        return place._replace(label=consensus.label)

    def consensus_on(self, item: int) -> ItemConsensus | None:
        """Return the consensus on an item; None if there is none or its answers have changed since."""
        consensus = self.consensus.get(item)
        if consensus is None:
            return None
        values = [a.value for a in self.state.answers.get(item, ()) if a.value != CANNOT_TELL]
        return consensus if sorted(values) == consensus.values else None

    def _doubtful_item(self, person: str) -> NextItem | None:
        """Return an answered item for another answer, if that is worth more than a label of a new item."""
        if not self.state.asks_again or self.state.multi_label or self.assessment is None:
            return None
        if self._doubtful[0] is not self.assessment:
            by_model = {i: verdict.own for i, verdict in self.assessment.left_out.items()}
            one_answer = certainty(by_model, len(self.state.columns))
            several = {i: consensus.probs[consensus.label] for i, consensus in self.consensus.items()}
            self._doubtful = self.assessment, doubtful(one_answer | several)
        open_ = (i for i in self._doubtful[1] if len(self.state.answers.get(i, ())) < MOST_ANSWERS)
        item = next((i for i in open_ if i in self.state.labels and is_open_to(self.state, i, person)), None)
        return None if item is None else NextItem(item, "second")

    def label_set(self) -> LabelSet:
        """Return a copy of all labels; call on the desk's thread."""
        return LabelSet.of(self.state, self.names.vectors(self.state), self.generation is not None)

    def cross_fitted(self) -> dict[int, dict[int, float]]:
        """Return predictions of the encoder's training labels by encoders that were not trained on them."""
        return {} if self.generation is None else self.generation.cross_fitted_by(self.state)

    def _read_state(self) -> State:
        """Return the state after all events of the log."""
        stored = self.log.read()
        return apply_all(new_state(stored, self.rows.ids), stored, self.log.shown)

    def _begin(self, state: State, mean: WarmStart | None = None) -> None:
        """Set the state, and train the model on its labels."""
        state.source = self.rows
        before: Learner | None = getattr(self, "learner", None)
        if before is not None:
            mean = before.columns, np.asarray(before.pool.posterior.mean)
        self.state = state
        places = {item: self._place(item) for item in state.placed()}
        self.learner = Learner(self.rows, state.ids, self._quick_training_set(places), mean=mean)
        if before is not None:
            self.learner.thresholds = before.thresholds
            before.close()
        self._touched, self._unwritten, self._asking, self._stale = {}, [], [], False
        self.learned.set()

    def _refresh(self) -> None:
        """Read the state from the log again, if the last round failed."""
        if self._stale:
            self._begin(self._read_state())

    def _learn(self) -> None:
        """Update the model with the places of items that changed in this round."""
        state, names = self.state, self.names.vectors(self.state)
        changed, self._touched = {item: self._place(item) for item in self._touched}, {}
        columns, learner = state.columns, self.learner
        if not learner.can_update(columns, names):
            self.learned.set()
            if not self._names_can_wait(columns):
                places = {i: place for i, place in {**learner.places, **changed}.items() if place != FREE}
                training = self._quick_training_set(places)
                self.learner = Learner(self.rows, state.ids, training, before=learner)
                learner.close()
                return
        learner.update(changed, columns, len(state.ids))

    def _names_can_wait(self, columns: Sequence[int]) -> bool:
        """Return whether only class names changed and learning them is left to the background."""
        learner = self.learner
        work = (len(learner.pool.labelled_idx) + 1) * learner.pool.features.shape[1] * len(columns)
        return learner.can_update(columns, learner.name_vectors) and work > RETRAINED_UP_TO

    def _work(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while len(jobs) < AT_ONCE and not self._jobs.empty():
                jobs.append(self._jobs.get())
            wanted = [job for job in jobs if job is not None and job.future.set_running_or_notify_cancel()]
            commands = [job for job in wanted if not job.reads]
            # a job that runs alone is a group of its own; jobs in a row that do not are one group
            for _, group in groupby(commands, key=lambda job: job.alone and id(job)):
                self._round(list(group))
            for job in wanted:
                if job.reads:
                    self._reply(job, job.run)
            if None in jobs:
                return

    def _round(self, jobs: list[_Job]) -> None:
        """Run commands, learn, lease items, write, reply."""
        finishes: list[tuple[_Job, Finish | None]] = []
        refused: list[tuple[_Job, EverylabelError]] = []
        try:
            self._refresh()
            began, before = time.perf_counter(), (self.state.n_changes, len(self.ids))
            self._refusal = self.log.refusal()
            self._end_leases()
            for job in jobs:
                try:
                    finishes.append((job, job.run()))
                except EverylabelError as error:
                    if not isinstance(error, Refused) and error is not self._refusal:
                        raise
                    refused.append((job, error))  # nothing was changed, so the others of the round go ahead
            self._learn()  # before items are leased: the choice depends on the new labels
            if self.state.n_changes > before[0]:
                self.update_ms = 1e3 * (time.perf_counter() - began)
            if (self.state.n_changes, len(self.ids)) != before:
                self.learned.set()
            self._lease_items()
            self._write()  # before any reply: a crash must not lose an acknowledged answer
        except Exception as error:
            if not isinstance(error, EverylabelError):
                logger.exception("a round of the desk failed")
            self._stale = True
            with suppress(Exception):  # the log cannot be read either: tried again before the next request
                self._refresh()
            for job in jobs:
                job.future.set_exception(error)
            return
        for job, refusal in refused:
            job.future.set_exception(refusal)
        for job, finish in finishes:
            self._reply(job, finish)

    def _reply(self, job: _Job, look: Callable[[], Any] | None) -> None:
        """Set the result of a job to what `look` returns, or to its error; None without a look."""
        try:
            self._refresh()
            job.future.set_result(None if look is None else look())
        except Exception as error:
            job.future.set_exception(error)

    def _check_writable(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def _write(self) -> None:
        if self._unwritten:
            self.log.append(self._unwritten)
            self._unwritten = []

    def _end_leases(self) -> None:
        """End leases that are older than the setting allows, or as far ahead (the clock was set back)."""
        now, most = time.time(), self.state.settings["lease_seconds"]
        over = [(person, lease) for person, lease in self.state.leases.items() if abs(now - lease.at) > most]
        for person, lease in over if self._refusal is None else ():
            self.emit(person, Release(self.ids[lease.item]))

    def _lease_items(self) -> None:
        """Lease an item to each person who asks and has none."""
        asking = [person for person in self._asking if person not in self.state.leases]
        self._asking = []
        if not asking:
            return
        began = time.perf_counter()
        # seeded by the state, so that a test or a simulation that is repeated gets the same items
        rng = np.random.default_rng([self.state.seed, self.state.seq])
        expected = round(self.learner.expected_accuracy(), 6) if self.state.labels else None
        waiting: list[str] = []
        for person in asking:
            count = self.state.handed + len(waiting) + 1  # the waiting people's leases come first
            found = priority_item(self.state, self.learner, person, count, rng) or self._doubtful_item(person)
            by, yes_no = "", self.state.multi_label and self.state.labels and person in self.questions
            if found is None and yes_no:
                item, by = self.learner.pick_question(rng), QUESTION
                found = None if item is None else NextItem(item, "chosen")
            if found is None:
                waiting.append(person)
            else:
                self._lease(person, found, expected, by)
                self._learn()  # the pool now counts the item as leased: nobody else in this round gets it
        strategy, among = self.state.settings["strategy"], len(self.state.leases) + len(waiting)
        by = strategy
        if strategy == REVIEW and self.learner.reviewed is None:  # the review follows in the background
            strategy = by = "random"
        elif waiting and strategy != REVIEW:
            by = acting_strategy(strategy, self.learner.pool)
        # one pick for all who wait, so that their items differ
        picked = self.learner.pick(strategy, len(waiting), rng, among)
        for person, item in zip(waiting, picked, strict=False):
            self._lease(person, NextItem(item, "chosen"), expected, by)
        for person in waiting[len(picked) :]:
            skipped = skipped_item(self.state, person)
            if skipped is not None:
                self._lease(person, NextItem(skipped, "chosen"), expected, "left")
        self._learn()
        self.select_ms = 1e3 * (time.perf_counter() - began)

    def _lease(self, person: str, chosen: NextItem, expected: float | None, by: str = "") -> None:
        item, reason, among, share = chosen
        self.emit(person, Leased(self.ids[item], reason, expected=expected, by=by, among=among, share=share))
