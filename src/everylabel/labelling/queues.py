"""Queues: ranked lists of items to label or to look at again, and the data they are computed from.

Every queue is a function of one `QueueData`, a copy of the state: page, API and `export` agree. The model's
guesses for leased random checks and test items are hidden, so no queue by guesses contains these items.

An item and its near copies (cosine above COPY) that the model predicts as the same class can be labelled by
one key. This saves work, but the model learns little, so it is offered only if the model is at least SURE of
the item and of the copy. Without that rule, 500 labels by 131 keys (`simulate --hands bulk`, Banking-77) gave
an accuracy of .32 on the other items; 125 items chosen one by one give .61. The reason: labels that pile up
on a few classes attract the predictions of other items. With SURE = .9, one group of digits still cost 2
points; with .95 none was offered. Of pairs with a cosine above COPY, 89 % have the same class on Banking-77,
99 % on Clinc-150 and 96 % on MPQA.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.learner import predicted
from everylabel.labelling.quality.suspect_labels import LIKELY, LeftOut
from everylabel.labelling.sources.consensus import ItemConsensus
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    NONE,
    Answer,
    ClassSet,
    classes_of,
    tied,
)
from everylabel.selection.pool.features import LazyScaled

LOW, HIGH = 0.5, 0.7  # probabilities between which the model is half sure
PLAUSIBLE = 0.1  # probability from which a class is plausible for an item
ALIKE = 0.7  # cosine similarity from which two items are alike
BLOCK = 4096  # items compared at once
OTHERS = 2  # items with another label that are shown beside a suspect one
COPY = 0.85  # cosine similarity from which two items are near copies
SURE = 0.95  # probability from which near copies are offered; see the module's head
AGREED = 0.8  # consensus probability of a label below which it is disputed
MOST = 25  # near copies shown beside an item: a person can check this many, each with a letter


class QueueData(NamedTuple):
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


class QueueRequest(NamedTuple):
    """A request for a queue: its name, and the class, item or range it is about."""

    name: str
    class_: int | None = None
    item: int | None = None
    low: float = LOW
    high: float = HIGH


class QueueItem(NamedTuple):
    """An item of a queue, and its score."""

    item: int
    score: float | None = None  # probability or similarity that it was ranked by


class Queue(NamedTuple):
    """A queue: its title, a sentence about it, the argument it needs, and the function that finds it."""

    title: str
    sentence: str
    needs: str  # "class", "item", "class if any" or nothing
    find: Callable[[QueueData, QueueRequest], list[QueueItem]]
    scans: bool = False  # whether it scans all items
    of_sets: bool = False  # whether only multi-label projects have it


def queue(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Return all items of a queue."""
    check_choice(request.name, "queue", list(QUEUES))
    if missing(request):
        needs = QUEUES[request.name].needs
        raise EverylabelError(f"queue is {request.name!r} without {needs}; expected a {needs}")
    return QUEUES[request.name].find(data, request)


def missing(request: QueueRequest) -> bool:
    """Return whether a queue lacks the class or item that it needs."""
    needs = QUEUES[request.name].needs
    return (needs == "class" and request.class_ is None) or (needs == "item" and request.item is None)


def labelled_otherwise(data: QueueData, item: int) -> list[int]:
    """Return the most similar items that have another label."""
    own = data.labels.get(item)
    others = np.array([i for i, label in data.labels.items() if label not in (own, NONE)], np.int64)
    if not len(others):
        return []
    likeness = cosines(data.features, others, item)
    return [int(i) for i in others[np.argsort(-likeness, kind="stable")[:OTHERS]]]


def without_label(data: QueueData, *, guessed: bool) -> np.ndarray:
    """Return items that nobody has answered; guessed : only those whose guess may be shown."""
    free = np.ones(len(data.features), bool)
    free[[*data.answers]] = False
    if guessed:
        free[[*data.hidden]] = False
    return np.flatnonzero(free)


def _between(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Items with p(class), or the largest probability, between `low` and `high`; the surest first.

    In a multi-label project: the probability of the decision on the class, or on the class that the item most
    probably has. (The least certain of many decisions is nearly always half sure, which would list all
    items.)
    """
    free, probs = _guessed(data, request.class_)
    if data.probabilities is not None and data.thresholds is not None:
        some = slice(None) if request.class_ is None else slice(request.class_, request.class_ + 1)
        p, t = data.probabilities[free][:, some], data.thresholds[some]
        yes = p * (1.0 - t) / np.maximum(p * (1.0 - t) + (1.0 - p) * t, 1e-12)  # 0.5 at the threshold
        most = yes.max(axis=1, initial=0.0)
        probs = np.maximum(most, 1.0 - most)
    inside = (probs >= request.low) & (probs <= request.high)
    return _best(free[inside], probs[inside])


def _predicted(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Items predicted as the class, or as any; the surest first."""
    free, probs = _guessed(data, request.class_)
    if data.probabilities is None:
        return []
    classes = predicted(data.probabilities[free], data.thresholds)
    wanted = classes.any(axis=1) if request.class_ is None else classes[:, request.class_]
    return _best(free[wanted], probs[wanted])


def _more(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Items for which the class is plausible, even if another is more probable: this finds rare classes."""
    free, probs = _guessed(data, request.class_)
    return _best(free[probs >= PLAUSIBLE], probs[probs >= PLAUSIBLE])


def _like(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Unanswered items similar to one item; the most similar first."""
    assert request.item is not None
    free = without_label(data, guessed=False)
    free = free[free != request.item]
    likeness = cosines(data.features, free, request.item)
    return _best(free[likeness >= ALIKE], likeness[likeness >= ALIKE])


def _suspect(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Items whose label is probably wrong; the most probable errors first."""
    stands = ((i, found) for i, found in data.left_out.items() if data.labels.get(i) == found.label)
    likely = [
        (-found.wrong, i) for i, found in stands if found.wrong >= LIKELY and found.guess != found.label
    ]
    return [
        QueueItem(i, -wrong)
        for wrong, i in sorted(likely)
        if request.class_ in (None, *_doubted(data.left_out[i]))
    ]


def _doubted(found: LeftOut) -> Collection[int]:
    """Return the classes that a verdict doubts: the label, or the class that it would change."""
    if isinstance(found.label, ClassSet):
        return {*found.label.present} ^ {*classes_of(found.guess)}
    return classes_of(found.label)


def expected_errors(data: QueueData) -> float:
    """Return the expected number of wrong labels."""
    return sum(found.wrong for i, found in data.left_out.items() if data.labels.get(i) == found.label)


def _disputed(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Items with tied votes, or whose label the consensus doubts; the least certain first.

    In a multi-label project votes are tied on a class, and the latest item comes first.
    """
    several = {i: [a for a in given if a.value != CANNOT_TELL] for i, given in data.answers.items()}
    several = {i: given for i, given in several.items() if len(given) > 1 and i not in data.final}
    found = ((i, tied(a.value for a in given)) for i, given in several.items())
    ties = {i: questions for i, questions in found if questions}
    if data.multi_label:
        of_class = [i for i, questions in ties.items() if request.class_ in (None, *questions)]
        return [QueueItem(i) for i in _latest(data, of_class)]
    known = [i for i in several if i in data.labels and i in data.consensus]
    agreed = ((i, data.labels[i], data.consensus[i].probs) for i in known)
    sure = {i: probs[label] for i, label, probs in agreed if label in probs}
    doubtful = sorted((p, i) for i, p in sure.items() if i in ties or p < AGREED)
    return [
        *(QueueItem(i, p) for p, i in doubtful),
        *(QueueItem(i) for i in _latest(data, [*ties]) if i not in sure),
    ]


def _unanswered(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Answered items without a yes or no to the class, which may be a new one; the most probable first."""
    sets = {i: label for i, label in data.labels.items() if isinstance(label, ClassSet)}
    some = [i for i, (present, absent) in sets.items() if request.class_ not in (*present, *absent)]
    items = np.array([i for i in some if i not in data.hidden], np.int64)
    known = data.probabilities
    return _best(items, np.zeros(len(items)) if known is None else known[items, request.class_])


def _cannot_tell(data: QueueData, request: QueueRequest) -> list[QueueItem]:
    """Items that everybody who answered could not tell; the latest first."""
    unknown = [i for i, given in data.answers.items() if all(a.value == CANNOT_TELL for a in given)]
    return [QueueItem(i) for i in _latest(data, unknown)]


QUEUES = {
    "between": Queue(
        "Unsure", "Items whose class the model is not sure of", "class if any", _between, scans=True
    ),
    "predicted": Queue("Predicted", "Items predicted as a class", "class if any", _predicted, scans=True),
    "more": Queue(
        "Find more", "Items that may be of a class, even if it is not predicted", "class", _more, scans=True
    ),
    "like": Queue("Most alike", "Items most similar to the one on the screen", "item", _like, scans=True),
    "unanswered": Queue(
        "Unanswered", "Answered items without a yes or no to a class", "class", _unanswered, of_sets=True
    ),
    "suspect": Queue("Suspect labels", "Labels that are likely wrong", "class if any", _suspect),
    "disputed": Queue("Disputed", "Items on which people, or people and the model, disagree", "", _disputed),
    "cannot_tell": Queue("Cannot tell", "Items answered “cannot tell”", "", _cannot_tell),
}


def _guessed(data: QueueData, class_: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return unanswered items, and the probability of the class (or the largest, if none is named)."""
    free = without_label(data, guessed=True)
    if data.probabilities is None:
        return free[:0], np.zeros(0)
    probs = data.probabilities[free]
    return free, probs.max(axis=1, initial=0.0) if class_ is None else probs[:, class_]


def _best(items: np.ndarray, scores: np.ndarray) -> list[QueueItem]:
    order = np.argsort(-scores, kind="stable")
    return [QueueItem(int(items[i]), float(scores[i])) for i in order]


def _latest(data: QueueData, items: Sequence[int]) -> list[int]:
    return sorted(items, key=lambda i: -max(answer.seq for answer in data.answers[i]))


def cosines(features: np.ndarray | LazyScaled, items: np.ndarray, item: int) -> np.ndarray:
    """Return the cosine similarity of items to one item, in blocks so that a large pool is not copied."""
    one = features[item].astype(np.float64)
    if isinstance(features, LazyScaled) and 2 * len(items) > len(features):
        sizes = np.sqrt(features.norms()[items]) * np.linalg.norm(one)
        return np.asarray(features.product(one)[items] / np.maximum(sizes, 1e-12))
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
