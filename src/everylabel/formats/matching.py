"""Imported labels, and matching the entries of a file to a project's items."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from everylabel.core.errors import counted, listed
from everylabel.data.cells import text_of
from everylabel.projects.log import Label
from everylabel.projects.project import Project


@dataclass
class Imported:
    """Labels in the file's order, names of entries that match no item, and counts of skipped entries."""

    labels: list[Label] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order they come up."""
        return tuple(dict.fromkeys(label.label for label in self.labels))

    def __str__(self) -> str:
        items = len({label.id for label in self.labels})
        parts = [f"{counted(len(self.labels), 'label')} of {counted(items, 'item')}"]
        if self.unmatched:
            many = counted(len(self.unmatched), "matches", "match")
            parts.append(f"{many} no item: {listed(self.unmatched)}")
        parts += [f"{count:,} skipped ({reason})" for reason, count in self.skipped.items()]
        twice = self.contradicted()
        if twice:
            many = counted(len(twice), "item has", "items have")
            parts.append(f"{many} several labels, the last was taken: {listed(twice)}")
        return "; ".join(parts)

    def contradicted(self) -> list[str]:
        """Return a description of each item with several labels by one person (or by nobody named)."""
        last: dict[tuple[str, str | None], str] = {}
        before: dict[tuple[str, str | None], str] = {}
        for item, label, person in self.labels:
            if last.get((item, person), label) != label:
                before[item, person] = last[item, person]
            last[item, person] = label
        return [f"{key[0]} ({last[key]!r}, not {other!r})" for key, other in before.items()]


class Matcher:
    """Finds the items of an entry of a file: by id, by text, by the image's name."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._ids: dict[str | None, dict[str, str]] = {}

    def find(
        self, ids: Iterable[str], texts: Iterable[str], row: str = "", id_column: str | None = None
    ) -> list[str]:
        """Return items by the log's names; an id or a row counts only if the text, if any, is that item's.

        id_column : the file's column of ids
        """
        texts = [text.strip() for text in texts if text.strip()]
        by_text = next((self._texts[text] for text in texts if text in self._texts), [])
        if id_column not in self._ids:
            self._ids[id_column] = self._by_id(id_column)
        known = self._ids[id_column]
        for key in [*(known[name] for name in ids if name in known), *self._rows.get(row, ())]:
            if not by_text or key in by_text:
                return [key]
        return by_text or next(
            (self._files[key] for text in texts for key in _ends(text) if key in self._files), []
        )

    def _by_id(self, id_column: str | None) -> dict[str, str]:
        """Return the log's names of items by the source's own ids, or by rows if it has none.

        If the file's column of ids is another column of the source, by its unique values.
        """
        project = self.project
        if id_column in project.columns and id_column != project.id_column:
            names = [text_of(value).strip() for value in project.columns[id_column or ""]]
        else:
            names = [project.known_as(i) for i in range(len(project.ids))]
        there = Counter(names)
        return {name: key for name, key in zip(names, project.ids, strict=True) if there[name] == 1}

    @cached_property
    def _rows(self) -> dict[str, tuple[str]]:
        rows = ((self.project.row(i), key) for i, key in enumerate(self.project.ids))
        return {str(row): (key,) for row, key in rows if row is not None}

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        by_key: dict[str, list[str]] = {}
        if self.project.kind == "text":
            for i, name in enumerate(self.project.ids):
                by_key.setdefault(str(self.project.display.item(i)["text"]).strip(), []).append(name)
        return by_key

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """Items by the name of their file, without folders, where the name is unique."""
        by_key: dict[str, list[str]] = {}
        if self.project.kind == "image":
            for i, name in enumerate(self.project.ids):
                for key in {self.project.known_as(i), PurePosixPath(self.project.display.text(i)).name}:
                    by_key.setdefault(key, []).append(name)
        return {key: names for key, names in by_key.items() if len(names) == 1}


def _ends(text: str) -> list[str]:
    """Return possible names of an uploaded or local file: path, name, name without upload prefix."""
    path = text.split("?d=")[-1].removeprefix("/")
    name = PurePosixPath(path).name
    return [path, name, re.sub(r"^[0-9a-f]{8}-", "", name)]
