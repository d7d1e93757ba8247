"""Small records of the state: an answer, a lease, a check; and the codes of answers that are no class."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from everylabel.labelling.state.class_book import ClassBook
from everylabel.log import events
from everylabel.selection.pool import Where
from everylabel.selection.strategies import DEFAULT

DEFAULTS: dict[str, Any] = {
    "strategy": DEFAULT,
    "check_every": 10,  # one in ten is drawn at random and scored before it is learned from
    "annotators_per_item": 1,
    "lease_seconds": 600,
    "names": True,  # class names teach, where the encoder of the texts knows words
    "network": "auto",  # the encoder is fine-tuned where that is possible
    "tester": "",  # who labels the test set; everybody unless one is named
}
CANNOT_TELL = -1
NONE = -2  # none of the classes: to the model a class of its own, which nobody sees and nothing exports
IMPORT = "import"  # the person whose answers came with the source or from a file


class Place(NamedTuple):
    """An item's place in the pool, its class if it is labelled, and the classes ruled out if it is not."""

    where: Where = Where.FREE
    label: int | None = None
    ruled_out: frozenset[int] = frozenset()


FREE = Place()


class Lease(NamedTuple):
    """An item that is with a person."""

    item: int
    reason: str
    at: float
    by: str = ""  # which strategy chose it in fact


class Answer(NamedTuple):
    """A person's answer: a class number, or CANNOT_TELL."""

    seq: int
    person: str
    value: int


class Entry(NamedTuple):
    """An answer in the history."""

    seq: int
    at: float
    person: str
    item: int
    body: events.Answered
    leased: int = 0  # number of the event that leased the item to the person; 0: none did


class Check(NamedTuple):
    """A random check: what the model said of an item before it learned, and what it was drawn from."""

    seq: int
    item: int
    guess: int
    among: int | None = None  # the class it was predicted as, if it was drawn among those
    share: float = 1.0  # of what was free that was predicted so


class Drawn(NamedTuple):
    """What a check was drawn among: what was predicted as a class, a share of what was free; or all."""

    among: int | None = None
    share: float | None = None


AMONG_ALL = Drawn()


class Tally(NamedTuple):
    """Counts over items, kept up to date by the reducer so that a reply does not scan all items."""

    checks: int = 0  # standing random checks drawn among all free items
    unanswered: int = 0  # items leased as checks and not labelled
    by_model: int = 0  # auto-labelled items without an answer
    skipped: int = 0  # skipped items without an answer
    tested: int = 0  # test items with an answer


class ClassChange(NamedTuple):
    """A change of classes by a person, and the classes before."""

    seq: int
    body: events.OfClasses
    before: ClassBook


def bulk_of(entry: Entry | None) -> int | None:
    """Return the first event of those that an answer was given with, if it was given to many at once."""
    return entry.body.bulk if entry is not None and isinstance(entry.body, events.Label) else None


def is_tied(values: Sequence[int]) -> bool:
    """Return whether no value has most voices."""
    most = [count for _, count in Counter(values).most_common(2)]
    return len(most) == 2 and most[0] == most[1]
