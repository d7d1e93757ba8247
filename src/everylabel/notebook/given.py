"""Arguments of `label` that come in several forms."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import ClassList, class_list


def classes_of(given: Any, encoding: str | None) -> ClassList:
    """Return the classes that are named; a string is what the command takes."""
    if given is None or isinstance(given, str):
        return class_list(given, encoding)
    names = list(given) if isinstance(given, Iterable) else [given]
    told = list(given.values()) if isinstance(given, Mapping) else []
    _check_strings("classes", [*names, *told])
    return ClassList(names, dict(zip(names, told, strict=True)) if told else {}, {})


def fields_of(given: Any) -> list[str] | None:
    """Return columns; one by itself is no sequence of letters."""
    if given is None:
        return None
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    _check_strings("fields", names)
    return names


def folders_of(given: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[Path]:
    """Return folders; one by itself is no sequence of letters."""
    return [Path(given)] if isinstance(given, str | os.PathLike) else [*map(Path, given)]


def _check_strings(what: str, names: Sequence[Any]) -> None:
    odd = [each for each in names if not isinstance(each, str)]
    if odd:
        raise EverylabelError(
            f"{what} has {odd[0]!r:.80}, a {type(odd[0]).__name__}; expected names that are strings"
        )
