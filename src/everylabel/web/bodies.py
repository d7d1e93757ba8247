"""Request bodies and parameters of the HTTP API, and its error replies.

An invalid request gets {"error": {"code", "message"}}.
"""

import logging
import unicodedata
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from starlette.exceptions import HTTPException

from everylabel.core.errors import EverylabelError
from everylabel.data.items import LONGEST_ID
from everylabel.labelling.service import Said
from everylabel.labelling.state.types import Refused, most_probable
from everylabel.log.store import StoreError
from everylabel.projects.log import IMPORTER
from everylabel.projects.options import LONGEST_PERSON, MOST_CHECKS

Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
Name = Annotated[str, StringConstraints(max_length=1000)]
FieldValue = (
    bool
    | Annotated[int, Field(ge=-(2**53), le=2**53)]
    | Annotated[float, Field(allow_inf_nan=False)]
    | Annotated[str, StringConstraints(max_length=2000)]
    | None
)
AGAIN = 10  # seconds after which a client may retry when the server is busy
log = logging.getLogger(__name__)
_MEANING = {
    400: "not JSON",
    404: "not found",
    409: "not possible in the present state",
    413: "too large",
    415: "not sent as JSON",
    422: "not as described",
    429: "too many at once: try again after the seconds of Retry-After",
    503: "the server is stopping, or the features file is truncated",
    507: "the log, or a file, cannot be written",
}


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a whole number, not true or false")
    return value


def no_control(value: str) -> str:
    """Refuse control characters: nobody can read them, and some databases cannot store NUL."""
    if any(unicodedata.category(each) == "Cc" for each in value):
        raise ValueError("expected no control characters")
    return value


def _composed(value: str) -> str:
    """Return a text in NFC, so that composed and decomposed accents give the same name."""
    return unicodedata.normalize("NFC", value)


def _no_importer(value: str) -> str:
    """Refuse the name reserved for labels of the source: a person's votes would count as the source's."""
    if unicodedata.normalize("NFKC", value).casefold() == IMPORTER:
        raise ValueError(f"{value!r} is the name of imported labels; expected another name")
    return value


def _no_annotation(value: str) -> str:
    """Refuse keys of the form reserved for Label Studio annotations."""
    if value.partition(" ")[0] == "annotation":
        raise ValueError("keys that begin with 'annotation' are taken; expected another")
    return value


def _no_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a text that is not empty")
    return value


Person = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_PERSON),
    AfterValidator(no_control),
    AfterValidator(_composed),
    AfterValidator(_no_importer),
]
Anybody = Annotated[  # "" means everybody
    str, StringConstraints(max_length=LONGEST_PERSON), AfterValidator(no_control), AfterValidator(_composed)
]
Handle = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(no_control)]
Key = Annotated[Handle, AfterValidator(_no_annotation)] | None
Whole = Annotated[int, BeforeValidator(_no_bool)]  # accepts JSON's 3.0, refuses true
Number = Annotated[Whole, Field(ge=0, le=2**31)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(no_control)]


class PersonBody(BaseModel):
    """The person who sends the request."""

    model_config = ConfigDict(extra="forbid")
    person: Person = "me"


class NextBody(PersonBody):
    """`questions`: whether the person answers one class at a time by yes or no; unchanged unless given."""

    questions: bool | None = None


class ItemBody(PersonBody):
    """An answer about an item; a request sent twice with the same `key` counts once."""

    item: Id
    key: Key = None


class LabelBody(ItemBody):
    """A class by its number or its name."""

    class_: Number | Name = Field(alias="class")


class SetBody(ItemBody):
    """Present and absent classes of an item in a multi-label project; absent defaults to all others."""

    present: Annotated[list[Number | Name], Field(max_length=1000)]
    absent: Annotated[list[Number | Name], Field(max_length=1000)] | None = None


class ShownBody(BaseModel):
    """Items to show in a list."""

    model_config = ConfigDict(extra="forbid")
    items: Annotated[list[Id], Field(min_length=1, max_length=500)]


class SentItem(BaseModel):
    """A text to label, with columns beside it; without an id, its content identifies it."""

    model_config = ConfigDict(extra="forbid")
    text: Annotated[str, StringConstraints(max_length=100_000), AfterValidator(_no_blank)]
    id: Annotated[Id, AfterValidator(no_control)] | None = None
    fields: Annotated[dict[FieldName, FieldValue], Field(max_length=50)] = {}


class SentBody(BaseModel):
    """Texts to label; a text sent twice counts once."""

    model_config = ConfigDict(extra="forbid")
    items: Annotated[list[SentItem], Field(min_length=1, max_length=500)]


class ManyBody(PersonBody):
    """One class for several items."""

    items: Annotated[list[Id], Field(min_length=1, max_length=500)]
    class_: Number | Name = Field(alias="class")
    remove: bool = False  # multi-label: remove the class from the items instead
    key: Key = None


class SuggestedItem(BaseModel):
    """A class that a source suggests for an item, with an optional score."""

    model_config = ConfigDict(extra="forbid")
    item: Id
    class_: Number | Name | None = Field(None, alias="class")
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    probabilities: (
        Annotated[dict[Name, Annotated[float, Field(ge=0.0, le=1.0)]], Field(min_length=1, max_length=1000)]
        | None
    ) = Field(None, description="in place of `class` and `score`: a probability for each class")

    @model_validator(mode="after")
    def _one_of_both(self) -> "SuggestedItem":
        if (self.class_ is None) == (self.probabilities is None):
            raise ValueError("expected either `class` or `probabilities`")
        if self.probabilities is not None and not any(self.probabilities.values()):
            raise ValueError("`probabilities` are all 0; expected at least one above 0")
        return self

    @property
    def said(self) -> Said:
        """Return item, class, score and probabilities."""
        if self.class_ is not None:
            return Said(self.item, self.class_, self.score)
        assert self.probabilities is not None
        return Said(self.item, *most_probable(self.probabilities), self.probabilities)


class SuggestionsBody(PersonBody):
    """Suggestions of one source that is not fully trusted; for each item the latest counts."""

    source: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_PERSON),
        AfterValidator(no_control),
        AfterValidator(_composed),
    ]
    suggestions: Annotated[list[SuggestedItem], Field(min_length=1, max_length=5000)]
    add_classes: bool = Field(False, description="add classes that the project does not have")


class FinishBody(PersonBody):
    """The largest acceptable error rate of the model's labels, and the confidence level."""

    rate: Annotated[float, Field(ge=0.001, le=0.5)] = 0.05
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95


class UndoBody(PersonBody):
    """An undo; `saved` names the event to undo, and any other is refused."""

    saved: Number | None = None
    key: Key = None


class ClassBody(PersonBody):
    """A class to add; `sure` accepts a name that is very similar to an existing one."""

    name: Name
    key: Key = None
    sure: bool = False


class ChangeBody(PersonBody):
    """A class's new name, description, shortcut key or colour; "" removes one of the last three."""

    name: Name | None = None
    description: Annotated[str, StringConstraints(max_length=1000), AfterValidator(no_control)] | None = None
    own_key: Annotated[str, StringConstraints(pattern=r"^[0-9a-z]?$")] | None = None
    colour: Annotated[str, StringConstraints(pattern=r"^(#[0-9a-f]{6})?$")] | None = None
    sure: bool = False


class RemoveBody(PersonBody):
    """The class that receives the removed class's labels; None leaves their items unlabelled."""

    into: Number | None = None


class OrderBody(PersonBody):
    """All class numbers in the order to show."""

    order: Annotated[list[Number], Field(max_length=10_000)]


class UndoClassesBody(PersonBody):
    """The number of the class change to undo."""

    saved: Number


class HereBody(PersonBody):
    """An open page: random ids of the browser and of the tab."""

    browser: Handle
    tab: Handle
    named: bool = True  # the person has entered this name
    known: bool = False  # this browser has labelled here before without a name


class LeaveBody(BaseModel):
    """A closed page."""

    model_config = ConfigDict(extra="forbid")
    tab: Handle


class WishBody(PersonBody):
    """A class to check more often, and the number of checks."""

    class_: Number = Field(alias="class")
    checks: Annotated[Whole, Field(ge=0, le=1000)] = 10
    key: Key = None


class SettingsBody(PersonBody):
    """The settings to change; None leaves one as it is."""

    strategy: Annotated[str, StringConstraints(max_length=64)] | None = None
    check_every: Annotated[Whole, Field(ge=0, le=MOST_CHECKS)] | None = None
    names: bool | None = None
    network: Literal["auto", "on", "frozen"] | None = None


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of error replies: the usual statuses and `more`."""
    example = {"error": {"code": "unknown_item", "message": "item is 'x'; expected an id of this project"}}
    content = {"application/json": {"example": example}}
    statuses = sorted({400, 413, 415, 422, 503, 507, *more})
    return {status: {"description": _MEANING[status], "content": content} for status in statuses}


def answer_errors(app: FastAPI) -> None:
    """Register handlers that turn exceptions into JSON error replies."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        reply = _error(error.status, error.code, str(error))
        if error.status == 429:
            reply.headers["retry-after"] = str(AGAIN)
        return reply

    async def not_saved(_: Request, error: Exception) -> JSONResponse:
        return _error(507, "not_saved", str(error))

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        return _error(422, "bad_request", str(error))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return _error(422, "bad_request", _explained(error.errors()[0]))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return _error(error.status_code, "http", str(error.detail))

    async def failed(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=error)
        return _error(500, "internal", "an internal error; nothing was lost, try again")

    handlers: dict[Any, Any] = {
        Refused: refused, StoreError: not_saved, EverylabelError: wrong, RequestValidationError: invalid,
        HTTPException: http, Exception: failed,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _explained(error: dict[str, Any]) -> str:
    """Return a message that names the invalid field and the expected value."""
    where, *field = error["loc"]
    name = str(field[0]) if field and isinstance(field[0], str) else f"the {where}"
    expected = str(error["msg"]).removeprefix("Value error, ")
    if name == "class" and error["type"] != "missing":
        expected = "expected a class's number or name"
    return f"{name}: {expected}; see /openapi.json for what is expected"
