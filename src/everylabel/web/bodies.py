"""What requests carry: the bodies of POST and PATCH, and the types of single values."""

import re
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from everylabel.data.items import LONGEST_ID
from everylabel.projects.log import IMPORTER

JOINERS = "\u200c\u200d"  # between letters of Persian or Hindi, say, and within an emoji
VIRAMA = 9  # the combining class of what ends a letter, which a joiner may follow at the end of a word
# nobody sees these, though they are marks and letters: selectors of variants, fillers
UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# letters of other scripts that look like those of the importer's name
ALIKE = str.maketrans("\u0456\u0131\u03b9\u043c\u0440\u03c1\u043e\u03bf\u0433\u0442\u03c4", "iiimppoortt")


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a whole number, not true or false")
    return value


def no_control(value: str) -> str:
    """Refuse what some databases cannot hold (NUL) and nobody can read."""
    if any(unicodedata.category(each) == "Cc" for each in value):
        raise ValueError("expected no control characters")
    return value


def _no_invisible(value: str) -> str:
    """Refuse what nobody sees, or what turns a text around: two people would have one name on the page."""
    for at, each in enumerate(value):
        if unicodedata.category(each) == "Cf" and not _joins(value, at):
            raise ValueError("expected no invisible characters")
    return value


def _joins(value: str, at: int) -> bool:
    """Return whether a character is a joiner where a script, or an emoji, needs one."""
    before, after = value[:at][-1:], value[at + 1 :][:1]
    if value[at] not in JOINERS or not _joined(before):
        return False
    return unicodedata.combining(before) == VIRAMA or _joined(after)


def _joined(each: str) -> bool:
    """Return whether this is a letter or a mark beyond English, or (a part of) an emoji."""
    return not each.isascii() and unicodedata.category(each)[0] in "LMS"


def _no_importer(value: str) -> str:
    """Refuse the name that labels which came with the source go by: votes of its own would be theirs."""
    if _skeleton(value) == IMPORTER:
        raise ValueError(f"{value!r} is what imported labels go by; expected another name")
    return value


def _skeleton(value: str) -> str:
    """Return what one sees of a name, in plain small letters."""
    plain = unicodedata.normalize("NFKC", value).casefold().translate(ALIKE)
    return "".join(each for each in UNSEEN.sub("", plain) if unicodedata.category(each) != "Cf").strip()


def _no_annotation(value: str) -> str:
    """Refuse keys of the kind that tells which annotation of Label Studio an answer is."""
    if value.partition(" ")[0] == "annotation":
        raise ValueError("keys that begin with 'annotation' are taken; expected another")
    return value


def _no_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a text that is not empty")
    return value


Person = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=64),
    AfterValidator(no_control),
    AfterValidator(_no_invisible),
    AfterValidator(_no_importer),
]
Anybody = Annotated[str, StringConstraints(max_length=64), AfterValidator(no_control)]  # "" is all people
Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
Handle = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(no_control)]
Key = Annotated[Handle, AfterValidator(_no_annotation)] | None
Name = Annotated[str, StringConstraints(max_length=1000)]
Whole = Annotated[int, BeforeValidator(_no_bool)]  # JSON's 3.0 is whole, true is not
Number = Annotated[Whole, Field(ge=0, le=2**31)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(no_control)]
FieldValue = (
    bool
    | Annotated[int, Field(ge=-(2**53), le=2**53)]
    | Annotated[float, Field(allow_inf_nan=False)]
    | Annotated[str, StringConstraints(max_length=2000)]
    | None
)


class PersonBody(BaseModel):
    """Who asks."""

    model_config = ConfigDict(extra="forbid")
    person: Person = "me"


class ItemBody(PersonBody):
    """An answer about an instance; `key` makes a request that is sent twice count once."""

    item: Id
    key: Key = None


class LabelBody(ItemBody):
    """A class by its number or its name."""

    class_: Number | Name = Field(alias="class")


class ShownBody(BaseModel):
    """Instances to be shown in a list."""

    model_config = ConfigDict(extra="forbid")
    items: Annotated[list[Id], Field(min_length=1, max_length=500)]


class SentItem(BaseModel):
    """A text to label, by a name of its own or by its content, with columns beside it."""

    model_config = ConfigDict(extra="forbid")
    text: Annotated[str, StringConstraints(max_length=100_000), AfterValidator(_no_blank)]
    id: Annotated[Id, AfterValidator(no_control)] | None = None
    fields: Annotated[dict[FieldName, FieldValue], Field(max_length=50)] = {}


class SentBody(BaseModel):
    """Texts to label; the same one sent again counts once."""

    model_config = ConfigDict(extra="forbid")
    items: Annotated[list[SentItem], Field(min_length=1, max_length=500)]


class ManyBody(PersonBody):
    """One class for several instances."""

    items: Annotated[list[Id], Field(min_length=1, max_length=500)]
    class_: Number | Name = Field(alias="class")
    key: Key = None


class FinishBody(PersonBody):
    """How many of the model's labels may be wrong, how sure one wants to be, and how many to confirm."""

    rate: Annotated[float, Field(ge=0.001, le=0.5)] = 0.02
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    audit: Annotated[Whole, Field(ge=0, le=1000)] = 50


class UndoBody(PersonBody):
    """`saved` is the number of the event to take back, if it must be that one."""

    saved: Number | None = None
    key: Key = None


class ClassBody(PersonBody):
    """A class to add; `sure` lets a name pass that hardly differs from another's."""

    name: Name
    key: Key = None
    sure: bool = False


class ChangeBody(PersonBody):
    """A class's new name, what it is about, its own key, its colour; "" takes one of these away."""

    name: Name | None = None
    description: Annotated[str, StringConstraints(max_length=1000), AfterValidator(no_control)] | None = None
    own_key: Annotated[str, StringConstraints(pattern=r"^[0-9a-z]?$")] | None = None
    colour: Annotated[str, StringConstraints(pattern=r"^(#[0-9a-f]{6})?$")] | None = None
    sure: bool = False


class RemoveBody(PersonBody):
    """The class that takes the labels of the one that goes; None makes their items free again."""

    into: Number | None = None


class OrderBody(PersonBody):
    """All classes, as they are to be shown."""

    order: Annotated[list[Number], Field(max_length=10_000)]


class UndoClassesBody(PersonBody):
    """The number of the change of classes to take back."""

    saved: Number


class HereBody(PersonBody):
    """A page that is open: a browser's own random id, and that of this tab."""

    browser: Handle
    tab: Handle
    named: bool = True  # the person has told this name
    known: bool = False  # this browser has labelled here before, without a name


class LeaveBody(BaseModel):
    """A page that is closed."""

    model_config = ConfigDict(extra="forbid")
    tab: Handle


class WishBody(PersonBody):
    """A class to test more, and by how many checks."""

    class_: Number = Field(alias="class")
    checks: Annotated[Whole, Field(ge=0, le=1000)] = 10
    key: Key = None


class SettingsBody(PersonBody):
    """What to change."""

    strategy: Annotated[str, StringConstraints(max_length=64)] | None = None
    check_every: Annotated[Whole, Field(ge=0, le=1000)] | None = None
    names: bool | None = None
