"""One list of options: `LabelOptions`, the command and the function name the same ones."""

from dataclasses import fields
from inspect import signature
from typing import Any

import pytest

import everylabel as el
from everylabel.cli import label as command
from everylabel.projects.options import LabelOptions

OPTIONS = {field.name for field in fields(LabelOptions)}
BROUGHT = {"labels", "proposed", "framed", "rows"}  # by the caller, no options of a person
OF_COMMAND = {"import_file", "import_label_column", "import_id_column", "import_text_column"}
OF_COMMAND |= {"token_file", "proxy", "ray"}  # a session's process holds labels, tokens and features itself
OF_FUNCTION = {"display", "height"}  # of a frame in a notebook


def test_command_and_function_have_a_parameter_for_each_option() -> None:
    by_command = {*signature(command.label).parameters} - {"source"}
    by_function = {*signature(el.label).parameters} - {"source"}
    told = OPTIONS - BROUGHT
    assert told - by_command == set(), "the command lacks these options"
    assert by_command - told == set(), "LabelOptions lacks these options of the command"
    assert told - OF_COMMAND - by_function == set(), "everylabel.label lacks these options"
    assert by_function - OF_FUNCTION - (told - OF_COMMAND) == set(), "LabelOptions lacks these arguments"


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", 70_000), ("layout", "tsne"), ("strategy", "magic"), ("network", "off"), ("check_every", -1)],
)
def test_options_are_refused_when_they_are_made(name: str, value: Any) -> None:
    options = {name: value}
    with pytest.raises(el.EverylabelError, match=f"^--{name.replace('_', '-')} is .*; expected "):
        LabelOptions(**options)


def test_settings_are_those_that_are_given_by_their_names_in_the_log() -> None:
    assert LabelOptions().settings == {}
    assert LabelOptions(names_prior=False, check_every=0, tester="e\u0301").settings == {
        "names": False,
        "check_every": 0,
        "tester": "\xe9",
    }


def test_items_may_join_later_unless_all_must_be_known() -> None:
    assert LabelOptions().opening()["log"].sample
    assert LabelOptions(test="set").opening()["log"].sample
    assert not LabelOptions(test="20").opening()["log"].sample
