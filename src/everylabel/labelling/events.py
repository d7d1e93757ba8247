"""What is written down: every answer, hand-out and change, in the order it happened.

The log is the only truth. All that a server knows is computed from it: who labelled what by
`ledger.Ledger`, what the model has learned by `learner.Learner`. One class a kind; a new kind is a class
here, a member of `Body`, and a function of `applying`. In the store an event is its kind and
a JSON object of its fields, without those at their default; `class_` is `class` there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, get_args

from everylabel.core.errors import EverylabelError
from everylabel.data.id_list import IdList


@dataclass(frozen=True, slots=True)
class Project:
    """The first event of a log."""

    kind: ClassVar[str] = "project"
    classes: Sequence[str]
    settings: Mapping[str, Any]
    seed: int
    id: str | None = None  # tells projects of one name apart


@dataclass(frozen=True, slots=True)
class NewClass:
    """Its number is how many there were before."""

    kind: ClassVar[str] = "class"
    name: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Another name for a class; its labels stay."""

    kind: ClassVar[str] = "rename"
    class_: int
    name: str


@dataclass(frozen=True, slots=True)
class Describe:
    """What a class is about, in a sentence or some keywords."""

    kind: ClassVar[str] = "describe"
    class_: int
    text: str
    imported: bool = False  # from a file of classes


@dataclass(frozen=True, slots=True)
class ClassKey:
    """The key that gives a class on the page, in place of the one that its place would have."""

    kind: ClassVar[str] = "class_key"
    class_: int
    key: str  # "" takes it away


@dataclass(frozen=True, slots=True)
class Remove:
    """A class is no more; its number is never given again, and what was labelled so is looked up by it."""

    kind: ClassVar[str] = "remove"
    class_: int
    into: int | None = None  # the class that has its labels from now on; None: they count no more


@dataclass(frozen=True, slots=True)
class Restore:
    """A class that was removed is there again, with all its labels."""

    kind: ClassVar[str] = "restore"
    class_: int


@dataclass(frozen=True, slots=True)
class Arrange:
    """All classes in the order in which they are shown."""

    kind: ClassVar[str] = "arrange"
    order: Sequence[int]


@dataclass(frozen=True, slots=True)
class Colour:
    """A class's own colour; "" takes it away."""

    kind: ClassVar[str] = "colour"
    class_: int
    colour: str


@dataclass(frozen=True, slots=True)
class UndoClasses:
    """The last change of classes taken back."""

    kind: ClassVar[str] = "undo_classes"
    saved: int  # number of the event


@dataclass(frozen=True, slots=True)
class Named:
    """What the encoder of the texts makes of a class's name and description: the model is taught it."""

    kind: ClassVar[str] = "named"
    class_: int
    phrases: Sequence[str]  # none takes away what was there
    vectors: str  # one a phrase; see `naming.packed`
    encoder: str  # which one made them: those of another mean nothing


@dataclass(frozen=True, slots=True)
class Settings:
    """What changed; the others stay."""

    kind: ClassVar[str] = "settings"
    strategy: str | None = None
    check_every: int | None = None
    annotators_per_item: int | None = None
    lease_seconds: float | None = None
    names: bool | None = None  # whether class names teach
    tester: str | None = None  # who labels the test set; "" is everybody


@dataclass(frozen=True, slots=True)
class Out:
    """Handed out to the person."""

    kind: ClassVar[str] = "out"
    item: str
    reason: str  # chosen, check, test, second, changed, asked, again
    again: bool = False  # shown before, its answer taken back
    expected: float | None = None  # the accuracy that the model expected of itself
    by: str = ""  # which strategy chose it in fact; left: nothing else was
    among: int | None = None  # of a check: drawn among what was predicted as this class,
    share: float | None = None  # which was this share of what was free


@dataclass(frozen=True, slots=True)
class Release:
    """Taken back unanswered."""

    kind: ClassVar[str] = "release"
    item: str


@dataclass(frozen=True, slots=True)
class Label:
    """A class, with what the model said before it learned."""

    kind: ClassVar[str] = "label"
    item: str
    class_: int
    guess: int | None = None
    sure: float | None = None  # the probability of the guess
    check: bool = False  # the item was drawn at random
    imported: str | bool = False  # from where: "source" or "file"; older logs say True
    bulk: int | None = None  # given to many at once: the number of the first of them
    truth: bool = False  # whoever gave it says so for all: it outvotes others


@dataclass(frozen=True, slots=True)
class NoneOfThese:
    """None of the classes fits: all of them become less likely here, and where it looks alike."""

    kind: ClassVar[str] = "none"
    item: str
    guess: int | None = None
    sure: float | None = None
    check: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """A class that the item is not of; the item stays with the person, who may say more of it."""

    kind: ClassVar[str] = "not"
    item: str
    class_: int
    guess: int | None = None  # before anything was said of it
    sure: float | None = None
    check: bool = False


@dataclass(frozen=True, slots=True)
class CannotTell:
    """An answer that teaches nothing."""

    kind: ClassVar[str] = "cannot_tell"
    item: str
    check: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """Left for later."""

    kind: ClassVar[str] = "skip"
    item: str
    check: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """The item's content is another one since: what was said of it is set aside."""

    kind: ClassVar[str] = "changed"
    item: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What was set aside fits the item as it is now."""

    kind: ClassVar[str] = "confirmed"
    item: str


@dataclass(frozen=True, slots=True)
class Wish:
    """Test a class more: so many checks among what is predicted so."""

    kind: ClassVar[str] = "wish"
    class_: int
    checks: int  # that are to come from now on; 0 takes the wish back


@dataclass(frozen=True, slots=True)
class Finished:
    """Labelled by the model, because a person let it: nothing is learned from it."""

    kind: ClassVar[str] = "finished"
    item: str
    class_: int
    sure: float  # the probability
    audit: bool = False  # drawn at random to be confirmed by a person, who is not told what the model says


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What the model labelled is taken back."""

    kind: ClassVar[str] = "unfinished"
    item: str


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Set aside for testing: whatever it is labelled as, it is never learned from."""

    kind: ClassVar[str] = "held_out"
    item: str


@dataclass(frozen=True, slots=True)
class Left:
    """The item is no more where it came from: neither asked nor learned from, until it is back."""

    kind: ClassVar[str] = "left"
    item: str
    back: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer that is known elsewhere, too; where and as what is told by the event's key."""

    kind: ClassVar[str] = "sent"
    saved: int  # number of the event


@dataclass(frozen=True, slots=True)
class Undo:
    """An answer taken back."""

    kind: ClassVar[str] = "undo"
    saved: int  # number of the event


@dataclass(frozen=True, slots=True)
class Refit:
    """The model was trained on all labels up to an event."""

    kind: ClassVar[str] = "refit"
    upto: int
    names: bool | None = None  # whether the labels bear the class names out; None if there are no vectors
    rows: int | None = None  # how many items, the first that came, told the scale; None: as before
    settled: int | None = None  # event up to which its logits are H mean; later ones moved them; None: all


@dataclass(frozen=True, slots=True)
class Extended:
    """Items that joined the pool, in this order behind those there were; a log's first were there always.

    Those that had joined before and are named again have other features since.
    """

    kind: ClassVar[str] = "extended"
    ids: Sequence[str]  # in the store their number, where they are "0", "1", ...
    digest: str  # of their features
    sent: Sequence[Mapping[str, Any]] | None = None  # id, text and fields of what came from no source

    def __post_init__(self) -> None:
        if isinstance(self.ids, int):
            object.__setattr__(self, "ids", IdList.of_noted(self.ids))


@dataclass(frozen=True, slots=True)
class Assessed:
    """How good the model was after so many labels, found beside the desk; nothing is learned from it."""

    kind: ClassVar[str] = "assessed"
    labels: int
    checks: int  # of them drawn at random
    expected: float  # accuracy on what is left that the model expected of itself
    estimate: float | None = None  # and the one that leaving labels out and checks tell, if there are enough
    low: float | None = None
    high: float | None = None
    commonest: int | None = None  # the class that most of what is left has,
    share: float | None = None  # and how much
    gain: float | None = None  # probability of the class it now says, above that without the last labels
    without: int | None = None  # how many those were


OfClasses = (
    NewClass | Rename | Describe | ClassKey | Colour | Arrange | Remove | Restore
)  # by UndoClasses taken back
Answered = Label | NoneOfThese | CannotTell | Skip | Not  # what a person can take back
OfItem = Out | Release | HeldOut | Finished | Unfinished | Answered | Changed | Confirmed | Left
Body = (
    Project
    | OfClasses
    | UndoClasses
    | Named
    | Settings
    | OfItem
    | Wish
    | Undo
    | Sent
    | Refit
    | Extended
    | Assessed
)
KINDS: dict[str, type[Body]] = {body.kind: body for body in get_args(Body)}
_DEFAULTS = {body: {field.name: field.default for field in fields(body)} for body in KINDS.values()}
_NAMES = {body.kind: {name.rstrip("_"): name for name in _DEFAULTS[body]} for body in _DEFAULTS}
_NEEDED = {
    body.kind: {name.rstrip("_") for name, default in defaults.items() if default is MISSING}
    for body, defaults in _DEFAULTS.items()
}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log. Events of one block were learned together, in one pass over the pool."""

    seq: int
    block: int
    at: float  # seconds since 1970
    person: str
    body: Body
    key: str | None = None  # of the request, so that one sent twice counts once


def to_row(body: Body) -> tuple[str, dict[str, Any]]:
    """Return the kind and the fields as they are stored."""
    values = ((name, getattr(body, name), default) for name, default in _DEFAULTS[type(body)].items())
    given = {name.rstrip("_"): value for name, value, default in values if value != default}
    return body.kind, {name: v.noted() if isinstance(v, IdList) else v for name, v in given.items()}


def from_row(kind: str, stored: Mapping[str, Any]) -> Body:
    """Return what a stored row says; fields that only other versions know are left alone."""
    if kind not in KINDS:
        raise EverylabelError(
            f"the log holds an event of kind {kind!r}; expected one of {', '.join(KINDS)}: open it with the "
            "version of everylabel that wrote it"
        )
    names, needed = _NAMES[kind], _NEEDED[kind]
    if not needed <= stored.keys():
        missing = [name for name in names if name in needed and name not in stored]
        raise EverylabelError(
            f"the log holds an event of kind {kind!r} without {', '.join(missing)}; expected "
            f"{', '.join(names)}: it was written by another version of everylabel"
        )
    return KINDS[kind](**{names[name]: value for name, value in stored.items() if name in names})
