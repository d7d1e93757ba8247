"""How a source is to be read: what a user passes, and what is kept from last time."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically

FILE = "project.json"
SHOWN = 8  # class names in a note
DECIDE = ("text_column", "image_column", "id_column", "show", "encoding")  # which items there are


@dataclass(frozen=True)
class Options:
    """Columns, class names and model; None where nothing is said."""

    text_column: str | None = None
    image_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    classes: tuple[str, ...] | None = None
    show: str | None = None
    model: str | None = None
    encoding: str | None = None

    def or_else(self, before: "Options") -> "Options":
        """Return these options, and those of before where these say nothing."""
        if self.text_column is not None or self.image_column is not None:  # one replaces the other
            before = replace(before, text_column=None, image_column=None)
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(before, **given)

    def besides(self, given: "Options") -> "Options":
        """Return those of these options of which `given` says nothing."""
        return replace(self, **{name: None for name, value in asdict(given).items() if value is not None})

    def differs(self, before: "Options") -> str:
        """Return in words what was another way last time, of all that decides which items there are."""
        names = [name for name in DECIDE if getattr(self, name) != getattr(before, name)]
        was = [(name, getattr(before, name)) for name in names]
        there = [f"{_option(name)} was {value}" for name, value in was if value is not None]
        return " and ".join(there or [f"there was no {_option(name)}" for name, _ in was])

    def arguments(self) -> str:
        """Return them as options of the command line, many classes in short."""
        pairs = [(name, value) for name, value in asdict(self).items() if value is not None]
        return " ".join(f"{_option(name)} {_plain(value)}" for name, value in pairs)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _plain(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    more = f",... ({len(value)} in all)" if len(value) > SHOWN else ""
    return ",".join(value[:SHOWN]) + more


class Remembered(NamedTuple):
    """What a folder knows of its project. Its log goes by `name`, whatever the source is called later.

    `id` tells it from others of that name, in a store they share.
    """

    source: str
    name: str
    options: Options
    id: str = ""


def remember(folder: Path, project: Remembered) -> None:
    """Note a project's source, name and options in its folder."""
    about = {"source": project.source, "name": project.name, "id": project.id, **asdict(project.options)}
    text = json.dumps(about, indent=1, ensure_ascii=False)
    write_atomically(folder / FILE, lambda file: file.write(text.encode()))


def remembered(folder: Path) -> Remembered | None:
    """Return what was noted last time; None where nothing was."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        known = {field.name: stored.get(field.name) for field in fields(Options)}
        classes: Sequence[str] | None = known.pop("classes")
        options = Options(**known, classes=None if classes is None else tuple(classes))
        return Remembered(str(stored["source"]), str(stored["name"]), options, str(stored.get("id") or ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EverylabelError(
            f"project file {str(path)!r} is damaged ({error!r}); remove it and pass the source's options "
            "again: labels are kept elsewhere"
        ) from error
