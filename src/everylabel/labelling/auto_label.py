"""Auto-labelling: the model labels the rest once people have confirmed enough of a random sample.

1. `start` fixes a set of items, and the label that the model would give each.
2. People confirm items of the set in random order, without seeing the guess.
3. `quality/certificate.py` determines when the model may label, and moves on to better items when errors
   appear.
4. `finish` labels the largest certified set. The guarantee covers all its items, also the confirmed ones.

A label is a class. In a multi-label project it is all classes of an item, and wrong if one of them is; or it
is a yes or no to one class, and the item stays in the pool for the others.

Items are ranked by
    score = p q,    p the probability of the label, q the mean probability of its class at the NEAREST items
A labelled neighbour counts with its label; q = 1 in a multi-label project. Confident errors lie among items
of another class, and q finds them: on DBpedia-14 it lowered the error rate of the better half from 1.7 to
1.0 %, on 12 classes of Banking-77 from .5 to .2 %.

The set holds the better half of the free items. It holds more if their expected error rate, by the
calibration of `quality/accuracy.py`, is at most MARGIN of the allowed one. Harder items would cost people
time: after a single error, a rate of 5 % needs more than 90 confirmations. Figures of six datasets:
`benchmarks/auto_label.py`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from everylabel.labelling import progress
from everylabel.labelling.desk import Finish
from everylabel.labelling.quality.accuracy import Verdicts, calibrated
from everylabel.labelling.quality.certificate import Certificate, certificate_of, certify, is_wrong, levels
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import ClassSet, Refused, Value, classes_of
from everylabel.labelling.views import Reply, Views
from everylabel.log.events import AutoLabel, Promise, Release
from everylabel.selection.pool import Where

MARGIN = 0.1  # share of the allowed rate; at this error rate 60 confirmations will probably find no error
# The better half is not proposed if its expected error rate exceeds HOPELESS times the allowed one. The
# calibration knows nothing of neighbours: it expected 5 to 8 % in the better half of DBpedia-14,
# which had 1 %.
HOPELESS = 2
REFERENCES, FEWEST = 2000, 200  # items among which neighbours are searched; the minimum, in large pools
PAIRS = 4 * 10**7  # pairs of items compared, about half a second with 384 features
NEAREST = 20  # neighbours among REFERENCES items; fewer, but at least 5, among fewer items
BLOCK = 4096  # items compared at a time


class Candidate(NamedTuple):
    """An item that the model would label: the label, its probability `sure` (p), and the score."""

    item: int
    label: Value
    sure: float
    score: float


class PoolCopy(NamedTuple):
    """A copy of the data that candidates are computed from. n free items, k classes."""

    free: np.ndarray  # (n,)
    probs: np.ndarray  # (n, k)
    yes: np.ndarray | None  # (n, k) whether each class is predicted, in a multi-label project
    columns: np.ndarray  # (k,) numbers of the classes; one if people confirm one class
    features: Any  # of all items
    labelled: np.ndarray  # the labelled items,
    label_columns: np.ndarray  # and the column of the label of each


def preview(views: Views, rate: float, confidence: float, class_: int | None = None) -> Future[Reply]:
    """Return how many items the model would label, the confirmations needed, and the progress.

    Blocks while items are compared.
    class_ : in a multi-label project, the only class that the model answers; None: all classes. `yes` of the
        reply is the number of items that the model finds of this class
    """
    candidates = _candidates(views, rate, class_)
    needed = _needed(candidates, rate, confidence)
    yes = None if class_ is None else sum(bool(classes_of(each.label)) for each in candidates)

    def look() -> Reply:
        running = {"finishing": progress.finishing(views.state), "finished": progress.finished(views.state)}
        return {"items": len(candidates), "yes": yes, "needed": needed, **running}

    return views.desk.read(look)


def start(
    views: Views, person: str, rate: float, confidence: float, class_: int | None = None
) -> Future[Reply]:
    """Propose the model's labels, in the random order in which people confirm them.

    Blocks while items are compared. class_ : as in `preview`
    """
    candidates = _candidates(views, rate, class_)

    def change() -> None:
        state = views.state  # people may have answered meanwhile, or removed a class
        proposed = [each for each in candidates if _is_open(state, each.item, each.label)]
        if _needed(proposed, rate, confidence) is None:
            raise Refused(
                409,
                "too_few",
                f"the model is sure enough of {len(proposed):,} items, too few to promise {rate:.1%}; "
                "label more items, or allow a higher error rate",
            )
        views.desk.emit(person, Promise(rate, confidence, class_=class_))
        rng = np.random.default_rng([state.seed, state.seq])
        level = levels([each.score for each in proposed])
        for j in rng.permutation(len(proposed)).tolist():
            item, label, sure, _ = proposed[j]
            views.desk.emit(person, _auto_label(state.ids[item], label, round(sure, 6), level[j]))
        lease = state.leases.get(person)
        if lease is not None and lease.reason == "chosen":  # the first confirmation comes at once
            views.desk.emit(person, Release(state.ids[lease.item]))

    return _submit(views, person, change)


def finish(views: Views, person: str) -> Future[Reply]:
    """Let the model label the free items of the largest certified set."""

    def change() -> None:
        state, certificate, promise = views.state, certificate_of(views.state), views.state.promise
        if certificate is None or promise is None:
            raise Refused(409, "no_promise", "nothing is confirmed yet; start the confirmations first")
        if certificate.certified is None:
            raise Refused(409, "no_promise", _why_not(certificate, promise.rate))
        chosen = {i: each for i, each in state.proposals.items() if each[2] >= certificate.certified}
        confirmed = [i for i in chosen if i in state.labels]
        wrong = sum(bool(is_wrong(state, i, chosen[i][0])) for i in confirmed)
        figures = promise.rate, promise.confidence, True, len(chosen), len(confirmed), wrong
        views.desk.emit(person, Promise(*figures, promise.class_))
        for item, (label, sure, _) in chosen.items():
            if _is_open(state, item, label):
                views.desk.emit(person, _auto_label(state.ids[item], label, sure))

    return _submit(views, person, change)


def take_back(views: Views, person: str) -> Future[Reply]:
    """End the confirmations; if none are running, remove the model's labels. People's labels stay."""

    def change() -> None:
        labelled = () if views.state.confirmation else sorted({*views.state.finished, *views.state.partly})
        for item in labelled:
            views.desk.emit(person, AutoLabel(views.state.ids[item]))
        if views.state.promise is not None or views.state.kept:
            views.desk.emit(person, Promise())

    return _submit(views, person, change)


def _submit(views: Views, person: str, change: Callable[[], None]) -> Future[Reply]:
    """Run a change on the desk, in a round of its own; the reply has the person's next item."""

    def command() -> Finish:
        change()
        views.desk.request_item(person)
        return lambda: views.reply(person, None)

    return views.desk.submit(command, alone=True)


def _is_open(state: State, item: int, label: Value) -> bool:
    """Return whether the model may give an item a label: the item is free, and the classes remain."""
    return state.place(item).where is Where.FREE and state.current(label) is not None


def _candidates(views: Views, rate: float, class_: int | None) -> list[Candidate]:
    """Return the items that the model would label, the best first; blocks.

    The desk's thread only copies: comparing takes up to half a second.
    """
    views.guesses.check_can_scan("letting the model finish")
    if class_ is not None and not views.state.multi_label:
        raise Refused(422, "one_class_per_item", "items have one class: the model gives all of them")

    def look() -> tuple[PoolCopy, Verdicts | None]:
        state, learner, columns = views.state, views.desk.learner, views.state.columns
        pool, asked = learner.pool, list(range(len(columns)))
        free, labelled = (np.flatnonzero(pool.state == where) for where in (Where.FREE, Where.LABELLED))
        free = free if state.labels else free[:0]
        if class_ is not None:
            asked = [columns.index(state.book.number(class_))]
            answered = [i for i, c in state.partly.items() if class_ in (*c.present, *c.absent)]
            free = free[~np.isin(free, answered)]
        probs = learner.link(learner.logits(free))[:, : len(columns)]
        yes = learner.predicted(probs)[:, asked] if state.multi_label else None
        numbers = np.array(columns)[asked]
        copy = PoolCopy(free, probs[:, asked], yes, numbers, pool.features, labelled, pool.labels[labelled])
        return copy, None if views.desk.assessment is None else views.desk.assessment.verdicts

    copy, verdicts = views.desk.read(look).result()
    if not len(copy.free):
        return []
    labels: list[Value]
    if copy.yes is not None:  # p is the probability that all classes are right
        sure, order = np.where(copy.yes, copy.probs, 1.0 - copy.probs).prod(axis=1), np.arange(len(copy.free))
        classes = copy.columns.tolist()
        labels, score = [ClassSet.of(copy.columns[row].tolist(), classes) for row in copy.yes], sure
    else:
        sure, guess = copy.probs.max(axis=1), copy.columns[copy.probs.argmax(axis=1)]
        order, labels = np.flatnonzero(guess >= 0), guess.tolist()  # items of no class are not auto-labelled
        score = sure * _agreement(copy, views.state.seed)
    order = order[np.argsort(-score[order], kind="stable")]
    right = sure[order] if verdicts is None else calibrated(verdicts, sure[order])
    order = order[: number_to_propose(right, len(copy.free), rate)]
    return [Candidate(int(copy.free[j]), labels[j], float(sure[j]), float(score[j])) for j in order]


def _agreement(pool: PoolCopy, seed: int) -> np.ndarray:
    """Return q (n,) of the free items; up to half of the references are labelled items."""
    k, rng = pool.probs.shape[1], np.random.default_rng(seed)
    most = min(REFERENCES, max(FEWEST, PAIRS // len(pool.free)))
    labelled = rng.permutation(np.flatnonzero(pool.label_columns < k))[: most // 2]
    free = rng.permutation(len(pool.free))[: most - len(labelled)]
    probs = np.concatenate([np.eye(k)[pool.label_columns[labelled]], pool.probs[free]])
    references = np.concatenate([pool.labelled[labelled], pool.free[free]])
    return neighbour_agreement(pool.features, references, probs, pool.free, pool.probs)


def _auto_label(item: str, label: Value, sure: float, level: int | None = None) -> AutoLabel:
    if isinstance(label, ClassSet):
        present, absent = list(label.present), list(label.absent)
        return AutoLabel(item, None, sure, level=level, present=present, absent=absent)
    return AutoLabel(item, label, sure, level=level)


def _needed(candidates: Sequence[Candidate], rate: float, confidence: float) -> int | None:
    """Return the confirmations without an error that certify all candidates; None if impossible."""
    unconfirmed: list[bool | None] = [None] * len(candidates)
    level = levels([each.score for each in candidates])
    return certify(level, unconfirmed, rate=rate, confidence=confidence).needed


def _why_not(certificate: Certificate, rate: float | None) -> str:
    more = (
        "this rate cannot be promised"
        if certificate.needed is None
        else f"{certificate.needed} more without an error are needed"
    )
    checked = f"{certificate.confirmed} confirmed, {certificate.wrong} wrong"
    return f"{checked}, cannot promise {rate:.1%} yet; {more}"


def number_to_propose(right: np.ndarray, n_free: int, rate: float) -> int:
    """Return how many items to propose: half of the free ones, or more if their expected error rate is low.

    Fewer, or none, if the expected rate of that half exceeds HOPELESS times `rate`.

    right : (m,) probabilities that the model is right, the best items first
    """
    expected = np.cumsum(1.0 - right) / np.arange(1, len(right) + 1)
    low, half = np.flatnonzero(expected <= MARGIN * rate), -(-n_free // 2)
    certain = int(low[-1]) + 1 if len(low) else 0
    return half if certain < half <= len(right) and expected[half - 1] <= HOPELESS * rate else certain


def neighbour_agreement(
    features: Any, references: np.ndarray, reference_probs: np.ndarray, items: np.ndarray, probs: np.ndarray
) -> np.ndarray:
    """Return the mean probability of each item's most probable class at its nearest references (m,).

    reference_probs : (r, k) class probabilities of the references; probs : (m, k) of the items
    """
    reference_rows = np.asarray(features[references], np.float32)
    center = reference_rows.mean(axis=0)
    reference_rows = _unit(reference_rows - center)
    guess, agreement = probs.argmax(axis=1), np.empty(len(items))
    n = min(max(5, NEAREST * len(references) // REFERENCES), NEAREST, len(references) - 1)
    if n < 1:
        return np.ones(len(items))
    for at in range(0, len(items), BLOCK):
        rows = items[at : at + BLOCK]
        cosine = _unit(np.asarray(features[rows], np.float32) - center) @ reference_rows.T
        cosine[rows[:, None] == references[None, :]] = -np.inf  # an item is no neighbour of itself
        near = np.argpartition(-cosine, n - 1, axis=1)[:, :n]
        agreement[at : at + BLOCK] = reference_probs[near, guess[at : at + BLOCK, None]].mean(axis=1)
    return agreement


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
