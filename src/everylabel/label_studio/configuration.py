"""The labelling configuration of a Label Studio project: its choices, and the field of a task they are about.

Supported is one <Choices>, single or multiple, over <Text>, <HyperText> or <Image>, anywhere in the <View>;
other tags beside them are ignored. Any other configuration is refused, and the error says what is supported.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.classes import clean_name

KINDS = {"Text": "text", "HyperText": "text", "Image": "image"}
SUPPORTED = (
    'supported is one <Choices choice="single"> (or "multiple") with fixed <Choice value="..."> in it, over '
    'a <Text>, <HyperText> or <Image> whose value is one field of the tasks, such as "$text"'
)
_FIELD = re.compile(r"\$([^\s${}]+)")
_HINT = ": rename the choice in Label Studio's labelling configuration"


class Configuration(NamedTuple):
    """The question that a project asks.

    control, target : names of the Choices, and of the tag they are about
    tag, field : that tag, and the field of a task that it shows
    choices : class name -> the choice as Label Studio's results have it
    multiple : whether a task may have several choices, or none
    """

    control: str
    target: str
    tag: str
    field: str
    choices: dict[str, str]
    multiple: bool = False

    @property
    def kind(self) -> str:
        """The kind of items: text or image."""
        return KINDS[self.tag]

    @property
    def classes(self) -> list[str]:
        return list(self.choices)

    def class_of(self, choice: str) -> str:
        """Return the class of a choice; a choice that is not configured is a class of its name."""
        for name, known in self.choices.items():
            if choice == known:
                return name
        return clean_name(choice, _HINT)

    def result(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the choices of classes as Label Studio stores them: one result for all, or none at all."""
        value = {"choices": [self.choices.get(name, name) for name in names]}
        about = {"from_name": self.control, "to_name": self.target, "type": "choices"}
        return [{**about, "value": value}] if names else []


def read_configuration(xml: str, control: str | None = None) -> Configuration:
    """Return the question of a labelling configuration, or raise if it is not supported.

    control : the name of the Choices to use, where there are several
    """
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise EverylabelError(f"the labelling configuration is not XML ({error}); {SUPPORTED}") from error
    choices = _chosen([each for each in root.iter() if each.tag == "Choices"], control)
    name, target = choices.get("name", ""), choices.get("toName", "")
    _check(choices, name)
    shown = next((each for each in root.iter() if each.get("name") == target and each is not choices), None)
    if shown is None or shown.tag not in KINDS:
        what = "a tag that does not exist" if shown is None else f"<{shown.tag}>"
        raise EverylabelError(
            f"Choices {name!r} of the labelling configuration are about {what}; {SUPPORTED}"
        )
    several = choices.get("choice") == "multiple"
    return Configuration(name, target, shown.tag, _field(shown), _names(choices, name), several)


def _chosen(there: list[ElementTree.Element], control: str | None) -> ElementTree.Element:
    names = [each.get("name", "") for each in there]
    if not there:
        raise EverylabelError(f"the labelling configuration has no <Choices>; {SUPPORTED}")
    if control is None and len(there) > 1:
        raise EverylabelError(
            f"the labelling configuration has several <Choices>, {listed(names)}; say which by --control"
        )
    if control is not None and control not in names:
        raise EverylabelError(
            f"--control is {control!r}; expected a <Choices> of the labelling configuration: {listed(names)}"
        )
    return there[0 if control is None else names.index(control)]


def _check(choices: ElementTree.Element, name: str) -> None:
    other = choices.get("choice", "single") not in ("single", "single-radio", "multiple")
    parts = [
        ('choice="' + choices.get("choice", "") + '"', other),
        ("choices of each region", choices.get("perRegion", "false") == "true"),
        ("choices of each item", choices.get("perItem", "false") == "true"),
        ("choices from the tasks' data", choices.get("value", "").startswith("$")),
        ("several things they are about", "," in choices.get("toName", "")),
        ("choices within choices", any(each.find("Choice") is not None for each in choices.iter("Choice"))),
    ]
    wrong = [what for what, there in parts if there]
    if wrong:
        raise EverylabelError(f"Choices {name!r} of the labelling configuration have {wrong[0]}; {SUPPORTED}")


def _field(shown: ElementTree.Element) -> str:
    value = shown.get("value") or shown.get("valueList") or ""
    found = _FIELD.fullmatch(value.strip())
    if found is None or shown.get("valueList") or shown.get("valueType") == "url":
        odd = f"value={value!r}" + (' valueType="url"' if shown.get("valueType") == "url" else "")
        raise EverylabelError(f"<{shown.tag}> of the labelling configuration has {odd}; {SUPPORTED}")
    return found[1]


def _names(choices: ElementTree.Element, name: str) -> dict[str, str]:
    """Return the choices by class name; results have the alias in place of the value."""
    found: dict[str, str] = {}
    for each in choices.iter("Choice"):
        value = each.get("value") or ""
        found.setdefault(clean_name(value, _HINT), each.get("alias") or value)
    if not found:
        raise EverylabelError(
            f"Choices {name!r} of the labelling configuration have no <Choice>; {SUPPORTED}"
        )
    return found
