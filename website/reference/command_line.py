"""The reference of the command line, from the definitions of the commands."""

import re
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.main import get_command

from everylabel.cli import app

KINDS = {str: "text", int: "number", float: "number", Path: "path"}


def page() -> str:
    """Return the page of all commands."""
    command = get_command(app)
    parts = [
        "# Command line",
        f"{command.help} `everylabel COMMAND --help` prints the same.",
    ]
    functions = [each.callback for each in app.registered_commands]
    for (name, each), function in zip(command.commands.items(), functions, strict=True):  # type: ignore[attr-defined]
        parts += _described(name, each, get_type_hints(function))
    return "\n\n".join(parts) + "\n"


def _described(name: str, command: Any, types: dict[str, Any]) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join(["everylabel", name, *(_usage(one) for one in arguments), "[OPTIONS]"])
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", (command.help or "").strip())
    rows = [f"| `{_usage(one)}` | {_cell(one.help)} | |" for one in arguments]
    rows += [f"| {_names(one, types[one.name])} | {_cell(one.help)} | {_default(one)} |" for one in options]
    table = "\n".join(["| option | meaning | default |", "|---|---|---|", *rows])
    return [f"## everylabel {name}", text, f"```\n{usage}\n```", table]


def _usage(argument: Any) -> str:
    text = (argument.metavar or argument.name).upper().rstrip(".") + ("..." if argument.nargs == -1 else "")
    return text if argument.required else f"[{text}]"


def _names(option: Any, kind: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else f" {_kind(kind)}"
    return names + takes + (f" ({', '.join(_variables(option))})" if option.envvar else "")


def _kind(kind: Any) -> str:
    """Return the kind of value of an option, or its choices."""
    one_of = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) is Literal:
        return " \\| ".join(f"`{value}`" for value in one_of)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " \\| ".join(f"`{choice.value}`" for choice in kind)
    if get_origin(kind) is list:
        return f"{_kind(one_of[0])}, repeatable"
    return _kind(one_of[0]) if one_of else f"*{KINDS[kind]}*"


def _variables(option: Any) -> list[str]:
    names = [option.envvar] if isinstance(option.envvar, str) else option.envvar
    return [f"`{name}`" for name in names]


def _default(option: Any) -> str:
    value = option.default
    if option.required:
        return "required"
    if value is None or value == [] or value == () or callable(value):
        return ""
    if isinstance(value, bool):
        return ("on" if value else "off") if option.secondary_opts else ""
    return f"`{getattr(value, 'value', value)}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
