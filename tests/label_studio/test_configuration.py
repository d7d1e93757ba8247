"""Supported labelling configurations are read; others are refused in a sentence."""

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.configuration import read_configuration

CHOICES = '<Choices name="c" toName="t" {}><Choice value="a"/><Choice value="b"/></Choices>'
TEXT = '<Text name="t" value="$text"/>'


def view(*parts: str) -> str:
    return f"<View>{''.join(parts)}</View>"


def test_choices_over_a_text_anywhere_in_the_view() -> None:
    nested = view(
        "<Header value='x'/>", view(view(TEXT)), "<TextArea name='n' toName='t'/>", view(CHOICES.format(""))
    )
    found = read_configuration(nested)
    assert (found.control, found.target, found.tag, found.field, found.kind) == (
        "c",
        "t",
        "Text",
        "text",
        "text",
    )
    assert found.choices == {"a": "a", "b": "b"}


@pytest.mark.parametrize(("tag", "kind"), [("HyperText", "text"), ("Image", "image")])
def test_html_and_images_are_supported(tag: str, kind: str) -> None:
    found = read_configuration(
        view(f'<{tag} name="t" value="$the.field"/>', CHOICES.format('choice="single"'))
    )
    assert (found.tag, found.kind, found.field) == (tag, kind, "the.field")


def test_names_of_any_characters_and_aliases() -> None:
    odd = ["größe & 大きさ", "<tag>", 'it\'s "quoted"', "عربى", "a  b", "😀"]
    escaped = [name.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;") for name in odd]
    inner = "".join(f'<Choice value="{name}"/>' for name in escaped)
    found = read_configuration(
        view(TEXT, f'<Choices name="c" toName="t">{inner}<Choice value="long name" alias="short"/></Choices>')
    )
    assert found.classes == ["größe & 大きさ", "<tag>", 'it\'s "quoted"', "عربى", "a b", "😀", "long name"]
    assert found.choices["a b"] == "a  b"  # as Label Studio has it
    assert (found.choices["long name"], found.class_of("short")) == ("short", "long name")
    assert found.class_of("unheard of") == "unheard of"


def test_multiple_choices_are_supported() -> None:
    found = read_configuration(view(TEXT, CHOICES.format('choice="multiple"')))
    assert found.multiple
    assert not read_configuration(view(TEXT, CHOICES.format(""))).multiple
    (both,) = found.result(["a", "b"])
    assert (both["from_name"], both["value"]) == ("c", {"choices": ["a", "b"]})
    assert found.result([]) == []


REFUSED = {
    "not XML": "<View>",
    "no Choices": view(TEXT),
    "another kind": view(TEXT, CHOICES.format('choice="ranked"')),
    "regions": view(TEXT, CHOICES.format('perRegion="true"')),
    "items": view(TEXT, CHOICES.format('perItem="true"')),
    "from data": view(TEXT, '<Choices name="c" toName="t" value="$options"/>'),
    "of two": view(TEXT, '<Choices name="c" toName="t,u"><Choice value="a"/></Choices>'),
    "nested": view(
        TEXT, '<Choices name="c" toName="t"><Choice value="a"><Choice value="b"/></Choice></Choices>'
    ),
    "none": view(TEXT, '<Choices name="c" toName="t"></Choices>'),
    "audio": view('<Audio name="t" value="$audio"/>', CHOICES.format("")),
    "nothing": view(CHOICES.format("")),
    "two fields": view('<Text name="t" value="$a and $b"/>', CHOICES.format("")),
    "fixed": view('<Text name="t" value="always the same"/>', CHOICES.format("")),
    "address": view('<Text name="t" value="$text" valueType="url"/>', CHOICES.format("")),
    "list": view('<Image name="t" valueList="$images"/>', CHOICES.format("")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_configuration_is_refused(case: str) -> None:
    with pytest.raises(EverylabelError, match=r"supported is one <Choices choice=\"single\">"):
        read_configuration(REFUSED[case])


def test_one_of_several_choices_must_be_named() -> None:
    several = view(TEXT, CHOICES.format(""), '<Choices name="d" toName="t"><Choice value="x"/></Choices>')
    with pytest.raises(EverylabelError, match=r"several <Choices>, c, d; say which by --control"):
        read_configuration(several)
    assert read_configuration(several, "d").classes == ["x"]
    with pytest.raises(EverylabelError, match=r"--control is 'e'; expected a <Choices> .* c, d"):
        read_configuration(several, "e")


def test_invalid_class_name_is_refused() -> None:
    with pytest.raises(EverylabelError, match=r"class name is ' '.* rename the choice"):
        read_configuration(view(TEXT, '<Choices name="c" toName="t"><Choice value=" "/></Choices>'))
