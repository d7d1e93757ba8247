"""Options for reading a source."""

import shlex
from dataclasses import asdict, dataclass, replace
from typing import Any

from everylabel.data.label_lists import SEPARATOR

SHOWN = 8  # class names in a note
DECIDE = ("text_column", "image_column", "show", "encoding", "long_rows")  # decide which items exist


@dataclass(frozen=True)
class Options:
    """Columns, class names and model; None where an option is not given."""

    text_column: str | None = None
    image_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    classes: tuple[str, ...] | None = None
    show: str | None = None
    model: str | None = None
    encoding: str | None = None
    long_rows: str | None = None
    label_separator: str | None = None  # labels are lists: items may have several classes
    fields: str | None = None  # columns shown beside an item, as given

    def or_else(self, before: "Options") -> "Options":
        """Return these options, with unset ones filled from `before`."""
        if self.text_column is not None or self.image_column is not None:  # one replaces the other
            before = replace(before, text_column=None, image_column=None)
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(before, **given)

    def besides(self, given: "Options") -> "Options":
        """Return the options that `given` leaves unset."""
        return replace(self, **{name: None for name, value in asdict(given).items() if value is not None})

    def differs(self, before: "Options") -> str:
        """Return a message on the options in DECIDE that differ from `before`."""
        names = [name for name in DECIDE if getattr(self, name) != getattr(before, name)]
        was = [(name, getattr(before, name)) for name in names]
        there = [f"{_option(name)} was {value}" for name, value in was if value is not None]
        return " and ".join(there or [f"there was no {_option(name)}" for name in names])

    def arguments(self) -> str:
        """Return the options as command-line arguments; a long list of classes is shortened."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        switches = ["--multi-label"] if "label_separator" in given else []  # one implies the other
        if given.get("label_separator") == SEPARATOR:
            del given["label_separator"]
        return " ".join([*switches, *(f"{_option(name)} {_typed(value)}" for name, value in given.items())])


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _typed(value: Any) -> str:
    """Return a value quoted for a shell; of many class names only the first ones."""
    if not isinstance(value, tuple):
        return shlex.quote(str(value))
    names = ",".join(f'"{name}"' if "," in name else name for name in value[:SHOWN])
    return f"{names},... ({len(value)} in all)" if len(value) > SHOWN else shlex.quote(names)
