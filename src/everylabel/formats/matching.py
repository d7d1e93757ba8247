"""Labels of a file, and which of a project's items its entries mean; shared by all that is imported."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from everylabel.core.errors import listed
from everylabel.projects.log import Label
from everylabel.projects.project import Project


@dataclass
class Imported:
    """Labels, in the file's order; names of what matches no item; how many entries had nothing to take."""

    labels: list[Label] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order they come up."""
        return tuple(dict.fromkeys(label.label for label in self.labels))

    def __str__(self) -> str:
        items = len({label.id for label in self.labels})
        parts = [f"{len(self.labels):,} labels of {items:,} items"]
        if self.unmatched:
            parts.append(f"{len(self.unmatched):,} match no item: {listed(self.unmatched)}")
        parts += [f"{count:,} skipped ({reason})" for reason, count in self.skipped.items()]
        return "; ".join(parts)


class Matcher:
    """Finds the items that an entry of a file means: by id, by text, by the image's name."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.position = {name: i for i, name in enumerate(project.ids)}

    def find(self, ids: Iterable[str], texts: Iterable[str]) -> list[str]:
        """Return ids of items; an id does not count if the text beside it is another item's."""
        texts = [text.strip() for text in texts if text.strip()]
        by_text = next((self._texts[text] for text in texts if text in self._texts), [])
        for name in ids:
            if name in self.position and (not by_text or name in by_text):
                return [name]
        return by_text or next(
            (self._files[key] for text in texts for key in _ends(text) if key in self._files), []
        )

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        by_key: dict[str, list[str]] = {}
        if self.project.kind == "text":
            for i, name in enumerate(self.project.ids):
                by_key.setdefault(str(self.project.display.item(i)["text"]).strip(), []).append(name)
        return by_key

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """Names of files without their folders, where only one item has that name."""
        by_key: dict[str, list[str]] = {}
        if self.project.kind == "image":
            for i, name in enumerate(self.project.ids):
                for key in {name, PurePosixPath(self.project.display.text(i)).name}:
                    by_key.setdefault(key, []).append(name)
        return {key: names for key, names in by_key.items() if len(names) == 1}


def _ends(text: str) -> list[str]:
    """Return names an uploaded or local file may be known by: path, name, name without upload mark."""
    path = text.split("?d=")[-1].removeprefix("/")
    name = PurePosixPath(path).name
    return [path, name, re.sub(r"^[0-9a-f]{8}-", "", name)]
