"""Endpoints that change a project: answers, classes, settings, auto-labels, sent items; and presence.

Their request bodies come first.
"""

import unicodedata
from asyncio import to_thread, wrap_future
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictInt,
    StringConstraints,
    model_validator,
)

from everylabel.data.items import LONGEST_ID, Sent
from everylabel.labelling import auto_label
from everylabel.labelling.service import SentSuggestion, Service, label_many, suggest
from everylabel.labelling.state.types import most_probable
from everylabel.labelling.views import Tab
from everylabel.projects.log import IMPORTER, LONGEST_PERSON
from everylabel.projects.options import MOST_CHECKS
from everylabel.web.arrivals import Arrivals

Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
Name = Annotated[str, StringConstraints(max_length=1000)]
FieldValue = (
    bool
    | Annotated[int, Field(ge=-(2**53), le=2**53)]
    | FiniteFloat
    | Annotated[str, StringConstraints(max_length=2000)]
    | None
)
Rate = Annotated[float, Query(ge=0.001, le=0.5)]
Confidence = Annotated[float, Query(ge=0.5, le=0.999)]
OneClass = Annotated[int | None, Query(ge=0, le=2**31, alias="class")]


def _no_control(value: str) -> str:
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


def _no_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a text that is not empty")
    return value


Source = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_PERSON),
    AfterValidator(_no_control),
    AfterValidator(_composed),
]
Person = Annotated[Source, AfterValidator(_no_importer)]
Anybody = Annotated[  # "" means everybody
    str, StringConstraints(max_length=LONGEST_PERSON), AfterValidator(_no_control), AfterValidator(_composed)
]
Handle = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_no_control)]
Key = Handle | None
Number = Annotated[StrictInt, Field(ge=0, le=2**31)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_no_control)]


class Body(BaseModel):
    """A request body, without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class PersonBody(Body):
    """The person who sends the request."""

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


class ShownBody(Body):
    """Items to show in a list."""

    items: Annotated[list[Id], Field(min_length=1, max_length=500)]


class SentItem(Body):
    """A text to label, with columns beside it; without an id, its content identifies it."""

    text: Annotated[str, StringConstraints(max_length=100_000), AfterValidator(_no_blank)]
    id: Annotated[Id, AfterValidator(_no_control)] | None = None
    fields: Annotated[dict[FieldName, FieldValue], Field(max_length=50)] = {}


class SentBody(Body):
    """Texts to label; a text sent twice counts once."""

    items: Annotated[list[SentItem], Field(min_length=1, max_length=500)]


class ManyBody(PersonBody):
    """One class for several items."""

    items: Annotated[list[Id], Field(min_length=1, max_length=500)]
    class_: Number | Name = Field(alias="class")
    remove: bool = False  # multi-label: remove the class from the items instead
    key: Key = None


class SuggestedItem(Body):
    """A class that a source suggests for an item, with an optional score."""

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
    def said(self) -> SentSuggestion:
        """Return item, class, score and probabilities."""
        if self.class_ is not None:
            return SentSuggestion(self.item, self.class_, self.score)
        assert self.probabilities is not None
        return SentSuggestion(self.item, *most_probable(self.probabilities), self.probabilities)


class SuggestionsBody(PersonBody):
    """Suggestions of one source that is not fully trusted; for each item the latest counts."""

    source: Source
    suggestions: Annotated[list[SuggestedItem], Field(min_length=1, max_length=5000)]
    add_classes: bool = Field(False, description="add classes that the project does not have")


class FinishBody(PersonBody):
    """The largest acceptable error rate of the model's labels, and the confidence level."""

    rate: Annotated[float, Field(ge=0.001, le=0.5)] = 0.05
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    class_: Number | None = Field(
        None, alias="class", description="in a multi-label project: the only class that the model answers"
    )


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
    description: Annotated[str, StringConstraints(max_length=1000), AfterValidator(_no_control)] | None = None
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


class LeaveBody(Body):
    """A closed page."""

    tab: Handle


class WishBody(PersonBody):
    """A class to check more often, and the number of checks."""

    class_: Number = Field(alias="class")
    checks: Annotated[StrictInt, Field(ge=0, le=1000)] = 10
    key: Key = None


class SettingsBody(PersonBody):
    """The settings to change; None leaves one as it is."""

    strategy: Annotated[str, StringConstraints(max_length=64)] | None = None
    check_every: Annotated[StrictInt, Field(ge=0, le=MOST_CHECKS)] | None = None
    names: bool | None = None
    network: Literal["auto", "on", "frozen"] | None = None


def changing(service: Service, arrivals: Arrivals | None, asks: bool) -> APIRouter:
    """Return the endpoints that change a project; answers return the person's next item.

    arrivals : accepts texts that other programs send; None if another program owns the items
    asks : everybody must enter a name
    """
    router, views, read = APIRouter(prefix="/api"), service.views, service.desk.read

    @router.post("/next")
    async def next_item(body: NextBody) -> dict[str, Any]:
        """Return the person's item: the one leased to them, or the best to ask next."""
        return await wrap_future(service.next(body.person, body.questions))

    @router.post("/label")
    async def label(body: LabelBody) -> dict[str, Any]:
        """Label an item with a class, update the model and return the next item."""
        return await wrap_future(service.label(body.person, body.item, body.class_, body.key))

    @router.post("/label_set")
    async def label_set(body: SetBody) -> dict[str, Any]:
        """Set the classes of an item in a multi-label project and return the next item."""
        said = body.present, body.absent
        return await wrap_future(service.label_set(body.person, body.item, *said, body.key))

    @router.post("/not")
    async def rule_out(body: LabelBody) -> dict[str, Any]:
        """Record a class that the item does not have; the item stays with the person."""
        return await wrap_future(service.rule_out(body.person, body.item, body.class_, body.key))

    @router.post("/skip")
    async def skip(body: ItemBody) -> dict[str, Any]:
        """Skip an item for now and return the next."""
        return await wrap_future(service.skip(body.person, body.item, body.key))

    @router.post("/cannot_tell")
    async def cannot_tell(body: ItemBody) -> dict[str, Any]:
        """Record that the person cannot decide and return the next item."""
        return await wrap_future(service.cannot_tell(body.person, body.item, body.key))

    @router.post("/none")
    async def none_of_these(body: ItemBody) -> dict[str, Any]:
        """Record that no class fits and return the next item."""
        return await wrap_future(service.none_of_these(body.person, body.item, body.key))

    @router.post("/undo")
    async def undo(body: UndoBody) -> dict[str, Any]:
        """Undo the person's last answer and return its item."""
        return await wrap_future(service.undo(body.person, body.saved, body.key))

    @router.post("/jump")
    async def jump(body: ItemBody) -> dict[str, Any]:
        """Give the person this item, to label or relabel it."""
        return await wrap_future(service.jump(body.person, body.item, body.key))

    @router.post("/label_many")
    async def many(body: ManyBody) -> dict[str, Any]:
        """Label several items with one class and return the next item; one undo reverts all of them."""
        made = label_many(service, body.person, body.items, body.class_, body.key, remove=body.remove)
        return await wrap_future(made)

    @router.post("/suggestions")
    async def suggestions(body: SuggestionsBody) -> dict[str, Any]:
        """Learn a source's suggestions as far as labels confirm the source; return how many are new."""
        said = [one.said for one in body.suggestions]
        return await wrap_future(suggest(service, body.person, body.source, said, body.add_classes))

    @router.post("/classes")
    async def add_class(body: ClassBody) -> dict[str, Any]:
        """Add a class."""
        return await wrap_future(service.classes.add(body.person, body.name, body.key, sure=body.sure))

    @router.patch("/classes/{number}")
    async def change_class(number: int, body: ChangeBody) -> dict[str, Any]:
        """Change a class's name, description, key or colour."""
        changes = body.model_dump(exclude={"person"})
        return await wrap_future(service.classes.change(body.person, number, **changes))

    @router.post("/classes/{number}/remove")
    async def remove_class(number: int, body: RemoveBody) -> dict[str, Any]:
        """Remove a class, or merge it into another."""
        return await wrap_future(service.classes.remove(body.person, number, body.into))

    @router.post("/classes/{number}/restore")
    async def restore_class(number: int, body: PersonBody) -> dict[str, Any]:
        """Restore a removed class with its labels."""
        return await wrap_future(service.classes.restore(body.person, number))

    @router.post("/classes/order")
    async def order_classes(body: OrderBody) -> dict[str, Any]:
        """Change the order of the classes."""
        return await wrap_future(service.classes.arrange(body.person, body.order))

    @router.post("/classes/undo")
    async def undo_classes(body: UndoClassesBody) -> dict[str, Any]:
        """Undo the last change of classes."""
        return await wrap_future(service.classes.undo(body.person, body.saved))

    @router.post("/wish")
    async def wish(body: WishBody) -> dict[str, Any]:
        """Check a class more often: draw checks among the items predicted as this class."""
        return await wrap_future(service.wish(body.person, body.class_, body.checks, body.key))

    @router.patch("/settings")
    async def settings(body: SettingsBody) -> dict[str, Any]:
        """Change the strategy, the rate of random checks, the use of class names, or fine-tuning."""
        changes = body.model_dump(exclude={"person"}, exclude_none=True)
        return await wrap_future(service.change_settings(body.person, changes))

    if arrivals is not None:

        @router.post("/items")
        async def send(body: SentBody) -> dict[str, Any]:
            """Embed texts with the project's encoder and add them to the pool; an id counts once."""
            sent = [Sent.of(one.text, one.id, one.fields) for one in body.items]
            joined = await to_thread(arrivals.send, sent)
            return {"ids": [one.id for one in sent], "joined": joined, "items": len(service.desk.ids)}

    @router.post("/here")
    async def here(body: HereBody) -> dict[str, Any]:
        """Record that a person has the page open; return whether they must enter a name first."""
        tab = Tab(body.person, body.browser, body.tab)
        known = {"named": body.named, "known": body.known, "asks": asks}
        return await wrap_future(read(lambda: views.presence.here(tab, **known)))

    @router.post("/leave")
    async def leave(body: LeaveBody) -> dict[str, Any]:
        """Record that a person has closed the page."""
        return await wrap_future(read(views.presence.leave, body.tab))

    @router.get("/finish")
    async def preview(
        rate: Rate = 0.05, confidence: Confidence = 0.95, class_: OneClass = None
    ) -> dict[str, Any]:
        """Return how many items the model would label, and how many confirmations that requires."""
        return await wrap_future(await to_thread(auto_label.preview, views, rate, confidence, class_))

    @router.post("/finish/start")
    async def start(body: FinishBody) -> dict[str, Any]:
        """Start confirmations: people check items drawn at random from those that the model would label."""
        return await wrap_future(
            await to_thread(auto_label.start, views, body.person, body.rate, body.confidence, body.class_)
        )

    @router.post("/finish")
    async def finish(body: PersonBody) -> dict[str, Any]:
        """Label the largest set of items that the confirmations certify with the model's classes."""
        return await wrap_future(auto_label.finish(views, body.person))

    @router.post("/finish/undo")
    async def take_back(body: PersonBody) -> dict[str, Any]:
        """End the confirmations; if none are running, remove all labels given by the model."""
        return await wrap_future(auto_label.take_back(views, body.person))

    return router
