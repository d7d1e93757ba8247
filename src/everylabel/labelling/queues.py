"""Queues: ranked lists of items to label or to look at again, and the data they are computed from.

All queues are functions of one `Look`, a copy of the state, so that the page, the API and `export` agree. No
queue that depends on the model's guesses contains a leased random check or a test item: those guesses are
hidden.

Near copies of an item that the model predicts as the same class can be labelled by one key. They save work
but teach the model little, so they are offered only if the model is at least SURE of the item and of the
copy. Without that rule, 500 labels by 131 keys (`simulate --hands bulk`, Banking-77) gave an accuracy of .32
on the other items; 125 items chosen one by one give .61. The reason: labels that pile up on a few classes
attract the predictions of other items. With SURE = .9, one group of digits still cost 2 points; with .95 none
was offered. Of pairs with a cosine above COPY, 89 % have the same class on Banking-77, 99 % on Clinc-150, 96
% on MPQA.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.learner import predicted
from everylabel.labelling.quality.assessment import LIKELY, LeftOut
from everylabel.labelling.sources.consensus import ItemConsensus
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    NONE,
    Answer,
    ClassSet,
    classes_of,
    is_tied,
    tied_classes,
)
from everylabel.selection.pool.features import LazyScaled

LOW, HIGH = 0.5, 0.7  # probabilities between which the model is half sure
PLAUSIBLE = 0.1  # probability from which a class is plausible for an item
ALIKE = 0.7  # cosine similarity from which two items are alike
BLOCK = 4096  # items compared at once
OF_SETS = ("unanswered",)  # queues of multi-label projects
OTHERS = 2  # items with another label that are shown beside a suspect one
OF_ALL = ("between", "predicted", "more", "like")  # queues that scan all items
COPY = 0.85  # cosine similarity from which two items are near copies
SURE = 0.95  # probability from which near copies are offered; see the module's head
AGREED = 0.8  # consensus probability of a label below which it is disputed
MOST = 25  # near copies shown beside an item: a person can check this many, each with a letter


class Look(NamedTuple):
    """A copy of a project's data at one moment."""

    features: np.ndarray | LazyScaled  # (n, d)
    probabilities: np.ndarray | None  # (n, k); None: nothing learned yet
    labels: Mapping[int, Any]  # a class, or a `ClassSet`
    answers: Mapping[int, Sequence[Answer]]
    left_out: Mapping[int, LeftOut]  # the verdict on each label at the last training, with it left out
    hidden: frozenset[int] = frozenset()  # leased random checks and the test set
    multi_label: bool = False
    thresholds: np.ndarray | None = None  # (k,), of a multi-label project
    final: frozenset[int] = frozenset()  # items with an adjudicator's answer
    consensus: Mapping[int, ItemConsensus] = MappingProxyType({})  # where several people answered
    is_assessed: bool = True  # whether `left_out` is known


class Asked(NamedTuple):
    """A request for a queue: its name, and the class, item or range it is about."""

    name: str
    class_: int | None = None
    item: int | None = None
    low: float = LOW
    high: float = HIGH


class Found(NamedTuple):
    """An item of a queue, and its score."""

    item: int
    score: float | None = None  # probability or similarity that it was ranked by


class Queue(NamedTuple):
    """A queue: its title, a sentence about it, the argument it needs, and the function that finds it."""

    title: str
    sentence: str
    needs: str  # "class", "item", "class if any" or nothing
    find: Callable[[Look, Asked], list[Found]]


def queue(look: Look, asked: Asked) -> list[Found]:
    """Return all items of a queue."""
    check_choice(asked.name, "queue", list(QUEUES))
    if missing(asked):
        needs = QUEUES[asked.name].needs
        raise EverylabelError(f"queue is {asked.name!r} without {needs}; expected a {needs}")
    return QUEUES[asked.name].find(look, asked)


def missing(asked: Asked) -> bool:
    """Return whether a queue lacks the class or item that it needs."""
    needs = QUEUES[asked.name].needs
    return (needs == "class" and asked.class_ is None) or (needs == "item" and asked.item is None)


def labelled_otherwise(look: Look, item: int) -> list[int]:
    """Return the most similar items that have another label."""
    own = look.labels.get(item)
    others = np.array([i for i, label in look.labels.items() if label not in (own, NONE)], np.int64)
    if not len(others):
        return []
    likeness = cosines(look.features, others, item)
    return [int(i) for i in others[np.argsort(-likeness, kind="stable")[:OTHERS]]]


def without_label(look: Look, *, guessed: bool) -> np.ndarray:
    """Return items that nobody has answered; guessed : only those whose guess may be shown."""
    free = np.ones(len(look.features), bool)
    free[[*look.answers]] = False
    if guessed:
        free[[*look.hidden]] = False
    return np.flatnonzero(free)


def _between(look: Look, asked: Asked) -> list[Found]:
    """Items with p(class), or the largest probability, between `low` and `high`; the surest first.

    In a multi-label project: the probability of the decision on the class, or on the class that the item most
    probably has. (The least certain of many decisions is nearly always half sure, which would list all
    items.)
    """
    free, probs = _guessed(look, asked.class_)
    if look.multi_label and look.probabilities is not None and look.thresholds is not None:
        some = slice(None) if asked.class_ is None else slice(asked.class_, asked.class_ + 1)
        p, t = look.probabilities[free][:, some], look.thresholds[some]
        yes = p * (1.0 - t) / np.maximum(p * (1.0 - t) + (1.0 - p) * t, 1e-12)  # 0.5 at the threshold
        most = yes.max(axis=1, initial=0.0)
        probs = np.maximum(most, 1.0 - most)
    inside = (probs >= asked.low) & (probs <= asked.high)
    return _best(free[inside], probs[inside])


def _predicted(look: Look, asked: Asked) -> list[Found]:
    """Items predicted as the class, or as any; the surest first."""
    free, probs = _guessed(look, asked.class_)
    if look.probabilities is None:
        return []
    said = predicted(look.probabilities[free], look.thresholds)
    there = said.any(axis=1) if asked.class_ is None else said[:, asked.class_]
    return _best(free[there], probs[there])


def _more(look: Look, asked: Asked) -> list[Found]:
    """Items for which the class is plausible, even if another is more probable: this finds rare classes."""
    free, probs = _guessed(look, asked.class_)
    return _best(free[probs >= PLAUSIBLE], probs[probs >= PLAUSIBLE])


def _like(look: Look, asked: Asked) -> list[Found]:
    """Unanswered items similar to one item; the most similar first."""
    assert asked.item is not None
    free = without_label(look, guessed=False)
    free = free[free != asked.item]
    likeness = cosines(look.features, free, asked.item)
    return _best(free[likeness >= ALIKE], likeness[likeness >= ALIKE])


def _suspect(look: Look, asked: Asked) -> list[Found]:
    """Items whose label is probably wrong; the most probable errors first."""
    stands = ((i, found) for i, found in look.left_out.items() if look.labels.get(i) == found.label)
    likely = [
        (-found.wrong, i) for i, found in stands if found.wrong >= LIKELY and found.guess != found.label
    ]
    return [
        Found(i, -wrong) for wrong, i in sorted(likely) if asked.class_ in (None, *_doubted(look.left_out[i]))
    ]


def _doubted(found: LeftOut) -> Collection[int]:
    """Return the classes that a verdict doubts: the label, or the class that it would change."""
    if isinstance(found.label, ClassSet):
        return {*found.label.present} ^ {*classes_of(found.guess)}
    return classes_of(found.label)


def expected_errors(look: Look) -> float:
    """Return the expected number of wrong labels."""
    return sum(found.wrong for i, found in look.left_out.items() if look.labels.get(i) == found.label)


def _disputed(look: Look, asked: Asked) -> list[Found]:
    """Items with tied votes, or whose label the consensus doubts; the least certain first.

    In a multi-label project votes are tied on a class, and the latest item comes first.
    """
    several = {i: [a for a in given if a.value != CANNOT_TELL] for i, given in look.answers.items()}
    several = {i: given for i, given in several.items() if len(given) > 1 and i not in look.final}
    tied = [i for i, given in several.items() if is_tied([a.value for a in given])]
    if look.multi_label:
        if asked.class_ is not None:
            of = {i: tied_classes([a.value for a in several[i]]) or [asked.class_] for i in tied}
            tied = [i for i in tied if asked.class_ in of[i]]
        return [Found(i) for i in _latest(look, tied)]
    known = [i for i in several if i in look.labels and i in look.consensus]
    agreed = ((i, look.labels[i], look.consensus[i].probs) for i in known)
    sure = {i: probs[label] for i, label, probs in agreed if label in probs}
    doubtful = sorted((p, i) for i, p in sure.items() if i in tied or p < AGREED)
    return [*(Found(i, p) for p, i in doubtful), *(Found(i) for i in _latest(look, tied) if i not in sure)]


def _unanswered(look: Look, asked: Asked) -> list[Found]:
    """Answered items without a yes or no to the class, which may be a new one; the most probable first."""
    sets = {i: label for i, label in look.labels.items() if isinstance(label, ClassSet)}
    some = [i for i, (present, absent) in sets.items() if asked.class_ not in (*present, *absent)]
    items = np.array([i for i in some if i not in look.hidden], np.int64)
    known = look.probabilities
    return _best(items, np.zeros(len(items)) if known is None else known[items, asked.class_])


def _cannot_tell(look: Look, asked: Asked) -> list[Found]:
    """Items that everybody who answered could not tell; the latest first."""
    unknown = [i for i, given in look.answers.items() if all(a.value == CANNOT_TELL for a in given)]
    return [Found(i) for i in _latest(look, unknown)]


QUEUES = {
    "between": Queue("Half sure", "Items whose class the model is not sure of", "class if any", _between),
    "predicted": Queue("Predicted", "Items predicted as a class", "class if any", _predicted),
    "more": Queue("Find more", "Items that may be of a class, even if it is not predicted", "class", _more),
    "like": Queue("Most alike", "Items most similar to this one", "item", _like),
    "unanswered": Queue("Unanswered", "Answered items without a yes or no to a class", "class", _unanswered),
    "suspect": Queue("Suspect labels", "Labels that are likely wrong", "class if any", _suspect),
    "disputed": Queue("Disputed", "Items on which people, or people and the model, disagree", "", _disputed),
    "cannot_tell": Queue("Cannot tell", 'Items answered "cannot tell"', "", _cannot_tell),
}


def _guessed(look: Look, class_: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return unanswered items, and the probability of the class (or the largest, if none is named)."""
    free = without_label(look, guessed=True)
    if look.probabilities is None:
        return free[:0], np.zeros(0)
    probs = look.probabilities[free]
    return free, probs.max(axis=1, initial=0.0) if class_ is None else probs[:, class_]


def _best(items: np.ndarray, scores: np.ndarray) -> list[Found]:
    order = np.argsort(-scores, kind="stable")
    return [Found(int(items[i]), float(scores[i])) for i in order]


def _latest(look: Look, items: Sequence[int]) -> list[int]:
    return sorted(items, key=lambda i: -max(answer.seq for answer in look.answers[i]))


def cosines(features: np.ndarray | LazyScaled, items: np.ndarray, item: int) -> np.ndarray:
    """Return the cosine similarity of items to one item, in blocks so that a large pool is not copied."""
    one = features[item].astype(np.float64)
    if isinstance(features, LazyScaled) and 2 * len(items) > len(features):
        sizes = np.sqrt(features.norms()[items]) * np.linalg.norm(one)
        return np.asarray(features.times(one)[items] / np.maximum(sizes, 1e-12))
    found = np.empty(len(items))
    for at in range(0, len(items), BLOCK):
        rows = features[items[at : at + BLOCK]].astype(np.float64)
        sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
        found[at : at + BLOCK] = rows @ one / np.maximum(sizes, 1e-12)
    return found


def near_copies(features: np.ndarray | LazyScaled, item: int) -> list[int]:
    """Return all near copies of an item, answered or not, the most similar first."""
    others = np.delete(np.arange(len(features)), item)
    likeness = cosines(features, others, item)
    near = np.flatnonzero(likeness >= COPY)
    return [int(others[i]) for i in near[np.argsort(-likeness[near], kind="stable")]]
