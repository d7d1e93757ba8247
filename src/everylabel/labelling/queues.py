"""Lists of items worth a look, the worthiest first: what to label next by hand, and what to look at again.

All are functions of one `Look`, a copy of the state, so that the page, the API and `export` tell the same.
No list that follows the model's guesses holds a random check that is out, or an item of the test set: those
guesses are told to nobody.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.labelling.quality.left_out import LeftOut
from everylabel.labelling.state.types import CANNOT_TELL, NONE, Answer, is_tied
from everylabel.selection.pool.features import Scaled

LOW, HIGH = 0.5, 0.7  # probabilities between which the model is half sure
PLAUSIBLE = 0.1  # probability from which an item may well be of a class
ALIKE = 0.7  # cosine from which two items are alike
BLOCK = 4096  # items that are compared at once
OTHERS = 2  # items labelled otherwise that are shown beside a doubted label


class Look(NamedTuple):
    """A project at one moment."""

    features: np.ndarray | Scaled  # (n, d)
    probabilities: np.ndarray | None  # (n, k); None: nothing is learned yet
    labels: Mapping[int, int]
    answers: Mapping[int, Sequence[Answer]]
    left_out: Mapping[int, LeftOut]  # what the model says of each label without it, when last looked
    hidden: frozenset[int] = frozenset()  # random checks that are out, and the test set


class Asked(NamedTuple):
    """Which queue, and of what."""

    name: str
    class_: int | None = None
    item: int | None = None
    low: float = LOW
    high: float = HIGH


class Found(NamedTuple):
    """An item of a queue, and what it is there for."""

    item: int
    score: float | None = None  # probability or likeness that it was ranked by


class Queue(NamedTuple):
    """A queue: how it is called, what is in it, what must be told for it, and how it is found."""

    title: str
    sentence: str
    needs: str  # "class", "item", "class if any" or nothing
    find: Callable[[Look, Asked], list[Found]]


def queue(look: Look, asked: Asked) -> list[Found]:
    """Return all items of a queue."""
    check_choice(asked.name, "queue", list(QUEUES))
    if missing(asked):
        needs = QUEUES[asked.name].needs
        raise EverylabelError(f"queue is {asked.name!r} without {needs}; expected which {needs} it is of")
    return QUEUES[asked.name].find(look, asked)


def missing(asked: Asked) -> bool:
    """Return whether a queue must be told first of which class or item it is."""
    needs = QUEUES[asked.name].needs
    return (needs == "class" and asked.class_ is None) or (needs == "item" and asked.item is None)


def labelled_otherwise(look: Look, item: int, n: int = OTHERS) -> list[int]:
    """Return the most alike items that have another label."""
    own = look.labels.get(item)
    others = np.array([i for i, label in look.labels.items() if label not in (own, NONE)], np.int64)
    if not len(others):
        return []
    likeness = cosines(look.features, others, item)
    return [int(i) for i in others[np.argsort(-likeness, kind="stable")[:n]]]


def without_label(look: Look, *, guessed: bool) -> np.ndarray:
    """Return items that nobody has answered; `guessed`: of which the guess may be told."""
    free = np.ones(len(look.features), bool)
    free[[*look.answers]] = False
    if guessed:
        free[[*look.hidden]] = False
    return np.flatnonzero(free)


def _between(look: Look, asked: Asked) -> list[Found]:
    """p(class) between two shares, of the class itself or of whatever is guessed; the surest first."""
    free, probs = _guessed(look, asked.class_)
    inside = (probs >= asked.low) & (probs <= asked.high)
    return _best(free[inside], probs[inside])


def _predicted(look: Look, asked: Asked) -> list[Found]:
    """The class is the most probable one."""
    free, probs = _guessed(look, asked.class_)
    if asked.class_ is None or look.probabilities is None:
        return _best(free, probs)
    first = look.probabilities[free].argmax(axis=1) == asked.class_
    return _best(free[first], probs[first])


def _more(look: Look, asked: Asked) -> list[Found]:
    """The class is plausible, though another may be likelier: how a rare one is found."""
    free, probs = _guessed(look, asked.class_)
    return _best(free[probs >= PLAUSIBLE], probs[probs >= PLAUSIBLE])


def _like(look: Look, asked: Asked) -> list[Found]:
    """Nobody has answered, and it is alike."""
    assert asked.item is not None
    free = without_label(look, guessed=False)
    free = free[free != asked.item]
    likeness = cosines(look.features, free, asked.item)
    return _best(free[likeness >= ALIKE], likeness[likeness >= ALIKE])


def _doubted(look: Look, asked: Asked) -> list[Found]:
    """The model, had it not seen the label, would say otherwise; the least probable labels first."""
    stands = {i: found for i, found in look.left_out.items() if look.labels.get(i) == found.label}
    doubted = [(found.own, i) for i, found in stands.items() if found.guess != found.label]
    of = [(own, i) for own, i in doubted if asked.class_ in (None, look.labels[i])]
    return [Found(i, own) for own, i in sorted(of)]


def _disputed(look: Look, asked: Asked) -> list[Found]:
    """No class has most voices; the latest first."""
    several = {i: [a.value for a in given if a.value != CANNOT_TELL] for i, given in look.answers.items()}
    tied = [i for i, values in several.items() if len(values) > 1 and is_tied(values)]
    return [Found(i) for i in _latest(look, tied)]


def _cannot_tell(look: Look, asked: Asked) -> list[Found]:
    """Somebody could not tell, and nobody could; the latest first."""
    unknown = [i for i, given in look.answers.items() if all(a.value == CANNOT_TELL for a in given)]
    return [Found(i) for i in _latest(look, unknown)]


OF_ALL = ("between", "predicted", "more", "like")  # queues that are found by looking at all items
QUEUES = {
    "between": Queue("Half sure", "Likely of a class, but the model is not sure", "class if any", _between),
    "predicted": Queue("Predicted", "What the model takes for a class", "class if any", _predicted),
    "more": Queue("Find more", "What may be of a class, though another is likelier", "class", _more),
    "like": Queue("Most alike", "What is most like an item", "item", _like),
    "doubted": Queue(
        "Doubted labels", "The model would say otherwise, had it not been told", "class if any", _doubted
    ),
    "disputed": Queue("Disputed", "People are of different minds", "", _disputed),
    "cannot_tell": Queue("Cannot tell", "Nobody could tell what it is", "", _cannot_tell),
}


def _guessed(look: Look, class_: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return items without an answer, and how probable the class is (or the likeliest, if none is named)."""
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


def cosines(features: np.ndarray | Scaled, items: np.ndarray, item: int) -> np.ndarray:
    """Return how alike items are to one of them; block by block, so that a large pool is not copied whole."""
    one = features[item].astype(np.float64)
    if isinstance(features, Scaled) and 2 * len(items) > len(features):
        sizes = np.sqrt(features.norms()[items]) * np.linalg.norm(one)
        return np.asarray(features.times(one)[items] / np.maximum(sizes, 1e-12))
    found = np.empty(len(items))
    for at in range(0, len(items), BLOCK):
        rows = features[items[at : at + BLOCK]].astype(np.float64)
        sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
        found[at : at + BLOCK] = rows @ one / np.maximum(sizes, 1e-12)
    return found
