"""The events of a project's log: who said what about which item and when, classes, settings, new items.

The log is the truth about answers; the state and the model are computed from it. Each kind is one class.
In the store an event is its kind and a JSON object of its fields, without those at their default.

To add a kind, write a class here, add it to `Answered` (an answer), `OfItem` (another event about an item) or
`Body`, and register its effect in `labelling.state.reducer`. An answer derives from `Answer`: then
history, undo and exports know it. The errors of logs are at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import msgspec

from everylabel.core.errors import EverylabelError
from everylabel.data.items import ids_from_stored

RECOVER = (
    "nothing was changed; `everylabel doctor PROJECT` copies the events before the damage to a new log "
    "beside this one"
)
# errors caused by damaged values
GARBLED = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, StopIteration)


class _Kind(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", rename=lambda s: s.rstrip("_")
):
    """Base of all kinds; `kind` is its name in the store."""

    @property
    def kind(self) -> str:
        tag = self.__struct_config__.tag
        assert isinstance(tag, str)
        return tag


class _OfItem(_Kind, frozen=True):
    """An event about one item."""

    item: str


class Answer(_OfItem, frozen=True):
    """A person's answer to an item, which the same person can undo.

    sent_to_label_studio : whether Label Studio has an annotation for it
    votes : whether it votes on the item's label; in a multi-label project `Not` does, too
    """

    sent_to_label_studio: ClassVar[bool] = True
    votes: ClassVar[bool] = True


class Guessed(Answer, frozen=True, kw_only=True):
    """An answer with the model's guess before it learned the answer."""

    guess: int | None = None
    sure: float | None = None  # the probability of the guess
    check: bool = False  # the item was drawn at random


class Classified(Guessed, frozen=True, kw_only=True):
    """An answer that names classes."""

    imported: str | bool = False  # "source" or "file"; logs of version 0.1 say True
    bulk: int | None = None  # given to several items at once: the number of the first event
    truth: bool = False  # an adjudicator's answer, which outvotes all others


class Project(_Kind, frozen=True, tag="project"):
    """The first event of a log."""

    classes: list[str]
    settings: dict[str, Any]
    seed: int
    id: str | None = None  # distinguishes projects of the same name


class NewClass(_Kind, frozen=True, tag="class"):
    """A class was added; its number is the number of classes before."""

    name: str


class ClassChanged(_Kind, frozen=True, tag="class_changed"):
    """A class has another name, description, key or colour; None leaves a field as it was."""

    class_: int
    name: str | None = None
    description: str | None = None
    key: str | None = None  # on the page; "" means the default key
    colour: str | None = None  # "" means the default colour
    imported: bool = False  # from a file of classes


class Remove(_Kind, frozen=True, tag="remove"):
    """A class was removed; its number is never used again."""

    class_: int
    into: int | None = None  # the class that takes over its labels; None: they no longer count


class Restore(_Kind, frozen=True, tag="restore"):
    """A removed class is back, with all its labels."""

    class_: int


class Arrange(_Kind, frozen=True, tag="arrange"):
    """All classes in the order in which they are shown."""

    order: list[int]


class Settings(_Kind, frozen=True, tag="settings"):
    """Changed settings; None leaves a setting as it was."""

    strategy: str | None = None
    check_every: int | None = None
    annotators_per_item: int | str | None = None  # or "auto"
    lease_seconds: int | float | None = None
    names: bool | None = None  # whether the model learns from class names
    network: str | None = None  # auto, on or frozen: whether the encoder is fine-tuned
    tester: str | None = None  # the person who labels the test set; "" is everybody
    multi_label: bool | None = None  # an item may have several classes, or none


class Leased(_OfItem, frozen=True, tag="out"):
    """The item was leased to the person."""

    reason: str  # chosen, check, test, second, changed, audit, asked, again
    again: bool = False  # leased again because its answer was undone
    expected: float | None = None  # mean largest probability over the unlabelled items
    by: str = ""  # the strategy that chose it; "question": for yes / no; "left": only skipped ones were left
    among: int | None = None  # a check was drawn among the items predicted as this class; None: all items
    share: float | None = None  # share of the free items that are predicted as that class


class Release(_OfItem, frozen=True, tag="release"):
    """A lease ended without an answer."""


class Label(Classified, frozen=True, tag="label"):
    """A class."""

    class_: int


class MultiLabel(Classified, frozen=True, tag="multi_label"):
    """Classes that the item has and has not; an answer about some classes leaves the others as they were."""

    present: list[int] = []
    absent: list[int] = []
    guesses: list[int] | None = None  # classes that the model predicted before it learned the answer


class NoneOfThese(Guessed, frozen=True, tag="none"):
    """No class fits the item."""


class Not(Guessed, frozen=True, tag="not"):
    """The item is not of this class; it stays with the person."""

    sent_to_label_studio: ClassVar[bool] = False
    votes: ClassVar[bool] = False
    class_: int


class CannotTell(Answer, frozen=True, tag="cannot_tell"):
    """The person cannot tell; the model learns nothing."""

    check: bool = False


class Skip(Answer, frozen=True, tag="skip"):
    """The item is left for later."""

    sent_to_label_studio: ClassVar[bool] = False
    votes: ClassVar[bool] = False
    check: bool = False


class ContentChanged(_OfItem, frozen=True, tag="changed"):
    """The item's content has changed: earlier answers do not count until they are confirmed."""

    confirmed: bool = False  # the earlier answers fit the new content


class Wish(_Kind, frozen=True, tag="wish"):
    """Draw this many further checks among the items predicted as a class; 0 cancels the request."""

    class_: int
    checks: int


class AutoLabel(_OfItem, frozen=True, tag="finished"):
    """The model labelled the item on a person's request; the model learns nothing from it."""

    class_: int | None = None  # None, without `present`, removes the label
    sure: float = 0.0  # the probability
    audit: bool = False  # drawn at random to be confirmed by a person who does not see the label
    level: int | None = None  # of a proposal: its set among nested sets, which people confirm in order
    present: list[int] | None = None  # in a multi-label project: the item's classes
    absent: list[int] | None = None  # the others when it was proposed; None: all others


class Promise(_Kind, frozen=True, tag="promise"):
    """The error rate that confirmations must guarantee before the model labels; None ends them."""

    rate: float | None = None
    confidence: float = 0.95
    kept: bool = False  # the model has labelled the items, after people confirmed some of them
    items: int = 0
    confirmed: int = 0
    wrong: int = 0
    class_: int | None = None  # in a multi-label project: the model answers this class; None: all classes


class HeldOut(_OfItem, frozen=True, tag="held_out"):
    """The item is in the test set: the model never learns from it."""


class Missing(_OfItem, frozen=True, tag="left"):
    """The item is gone from its source: it is neither asked nor learned from until it is back."""

    back: bool = False


class Sent(_Kind, frozen=True, tag="sent"):
    """An answer was sent to Label Studio; the event's key says where and as what."""

    saved: int  # number of the answer's event


class Undo(_Kind, frozen=True, tag="undo"):
    """An answer, or a change of classes, was undone."""

    saved: int  # number of that event


class Extended(_Kind, frozen=True, tag="extended"):
    """Items joined the pool, in this order. Items named again have new features."""

    ids: Sequence[str] | int  # n stands for the ids "0" to "n - 1"
    digest: str  # hash of their features
    sent: list[dict[str, Any]] | None = None  # id, text and fields of items that came by the API

    @property
    def names(self) -> Sequence[str]:
        return ids_from_stored(self.ids)


class Suggested(_Kind, frozen=True, tag="suggested"):
    """A source that is not fully trusted suggested classes; a later suggestion for an item replaces it."""

    source: str
    items: list[str]
    classes: list[int]
    scores: list[float | None] | None = None  # probability of each class by the source
    columns: list[str] = []  # columns of the source that hold suggestions: the page never shows them
    over: list[int] = []  # the class of each column of `probabilities`
    probabilities: list[list[float] | None] | None = None  # one list per item, if the source gave any


class Assessed(_Kind, frozen=True, tag="assessed"):
    """The model's accuracy after this many labels, estimated in the background."""

    labels: int
    checks: int  # labels drawn at random
    expected: float  # the model's mean largest probability on the unlabelled items
    estimate: float | None = None  # accuracy on the unlabelled items, with its interval
    low: float | None = None
    high: float | None = None
    commonest: int | None = None  # the most frequent class among the unlabelled items
    share: float | None = None  # share of that class among the unlabelled items
    gain: float | None = None  # expected accuracy gained by the last labels
    without: int | None = None  # number of labels that `gain` is about


class Generation(_Kind, frozen=True, tag="generation"):
    """The encoder was fine-tuned on the labels so far, or an attempt did not help.

    Accuracies are cross-validated, on the labels of the attempt.
    """

    number: int
    labels: int
    trusted: bool  # whether its features are in use from now on
    frozen_accuracy: float
    tuned_accuracy: float
    weights: str = ""  # digest of the weights
    features: str = ""  # digest of the features


class Retired(_Kind, frozen=True, tag="retired"):
    """An event of an earlier version that no longer has an effect; never written."""


OfClasses = NewClass | ClassChanged | Arrange | Remove | Restore
Answered = Label | MultiLabel | NoneOfThese | CannotTell | Skip | Not  # all subclasses of `Answer`
OfItem = Leased | Release | HeldOut | AutoLabel | ContentChanged | Missing | Answered
Body = (
    Project
    | OfClasses
    | Settings
    | OfItem
    | Wish
    | Promise
    | Undo
    | Sent
    | Extended
    | Suggested
    | Assessed
    | Generation
    | Retired
)
KINDS: dict[str, type[Body]] = {str(body.__struct_config__.tag): body for body in get_args(Body)}
# Kinds whose events say something about an item: a source with such labels must not change unnoticed.
ABOUT_ITEMS = tuple(
    str(body.__struct_config__.tag)
    for body in (Label, MultiLabel, NoneOfThese, Not, CannotTell, AutoLabel, HeldOut)
)


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log."""

    seq: int
    at: float  # seconds since 1970
    person: str
    body: Body
    key: str | None = None  # identifies the request: a repeated request counts once


def to_row(body: Body) -> tuple[str, dict[str, Any]]:
    """Return the kind and the fields as they are stored."""
    stored: dict[str, Any] = msgspec.to_builtins(body)
    return stored.pop("kind"), stored


def from_row(kind: str, stored: Mapping[str, Any]) -> Body:
    """Return the body of a stored row; unknown fields of other versions are ignored."""
    kind, stored = _upcast(kind, stored)
    if kind not in KINDS:
        raise EverylabelError(
            f"the log holds an event of kind {kind!r}; expected one of {', '.join(KINDS)}: open it with the "
            "version of everylabel that wrote it"
        )
    try:
        body: Body = msgspec.convert(stored, KINDS[kind])
    except msgspec.ValidationError as error:
        raise EverylabelError(
            f"the log holds an event of kind {kind!r} that this version cannot read ({error}); another "
            "version of everylabel wrote it"
        ) from error
    return body


def _upcast(kind: str, stored: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return a row of versions 0.1 and 0.2 as this version would write it."""
    match kind:
        case "rename" | "colour":
            return "class_changed", stored
        case "describe":
            return "class_changed", {**stored, "description": stored.get("text", "")}
        case "class_key":
            return "class_changed", stored
        case "undo_classes":
            return "undo", stored
        case "confirmed":
            return "changed", {**stored, "confirmed": True}
        case "unfinished":
            return "finished", {"item": stored.get("item")}
        case "named" | "refit":  # class-name vectors and trainings: the model is computed at opening now
            return "retired", {}
    return kind, stored


class StoreError(EverylabelError):
    """The log could not be read or written; everything acknowledged before is safe."""


class NotKnown(StoreError):
    """It is not known whether an event was saved; sent again with the same key, it counts once."""


class NoLog(StoreError):
    """There is no log: no file, or a database without our tables."""

    def __init__(self, shown: str, what: str) -> None:
        super().__init__(
            f"store {shown} {what}; expected the log of a project (everylabel label SOURCE starts one)"
        )


class Damaged(StoreError):
    """The log is damaged; what : the damage, in a sentence."""

    def __init__(self, shown: str, what: str) -> None:
        super().__init__(f"store {shown} is damaged: {what}; {RECOVER}")
        self.what = what
