"""The tasks of a Label Studio project as a source: a table in the project's folder, with images beside it.

The table has a row for each task that ever existed, in order of arrival: a deleted task has left the pool by
an event, and the log still refers to it. So page, exports and predictions open the folder as any project.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, KeysView
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.data.cells import text_of
from everylabel.data.media import SUFFIXES
from everylabel.label_studio.api import Api, ApiError
from everylabel.label_studio.configuration import Configuration
from everylabel.projects.folder import OWN

ID = "id"
AT_ONCE = 4  # images fetched at a time
TIMEOUT = 30.0  # seconds for an image of another server
INVISIBLE = re.compile(r"<!--.*?-->|<(script|style|head)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
BLOCK = re.compile(r"</?(br|p|div|li|tr|td|th|section|article|pre|h[1-6])\b[^>]*>", re.IGNORECASE)
TAG = re.compile(r"<[/!]?[a-z][^>]*>", re.IGNORECASE)


class Tasks:
    """The table of tasks at `path`."""

    def __init__(self, api: Api, path: Path, configuration: Configuration) -> None:
        self.api, self.path, self.configuration = api, path, configuration
        self._contents = {row[ID]: row[self.column] for row in _read(path)}

    @property
    def names(self) -> KeysView[str]:
        """The ids of all tasks in the table."""
        return self._contents.keys()

    @property
    def column(self) -> str:
        """The column of texts, or of the paths of images."""
        return self.configuration.kind

    def take(self, tasks: Iterable[dict[str, Any]]) -> set[str]:
        """Update the table with tasks; return their ids."""
        there = {str(task["id"]): self._content(task) for task in tasks}
        if there and self.configuration.kind == "image":
            self._fetch(there)
        if any(self._contents.get(name) != content for name, content in there.items()):
            contents = self._contents | there
            self._write(contents)
            self._contents = contents
        return set(there)

    def _write(self, contents: dict[str, str]) -> None:
        self.path.parent.mkdir(mode=OWN, parents=True, exist_ok=True)
        rows = ({ID: name, self.column: content} for name, content in contents.items())
        lines = "".join(json.dumps(row) + "\n" for row in rows)  # ASCII: no special line separators
        write_atomically(self.path, lambda file: file.write(lines.encode()))

    def _content(self, task: dict[str, Any]) -> str:
        """Return the text of a task, or the address of its image."""
        data = task.get("data")
        value = data.get(self.configuration.field) if isinstance(data, dict) else None
        if self.configuration.tag == "HyperText":
            return plain_text(text_of(value))
        return text_of(value)

    def _fetch(self, places: dict[str, str]) -> None:
        """Replace addresses of images by paths of files; the next start repeats failed downloads."""
        folder = self.path.parent / "images"
        folder.mkdir(mode=OWN, parents=True, exist_ok=True)

        def fetched(name: str) -> None:
            mark = hashlib.sha256(places[name].encode()).hexdigest()[:12]  # another address, another file
            path = folder / f"{name}-{mark}{_suffix(places[name])}"
            if not path.exists():
                try:
                    content = self._image(places[name])
                    write_atomically(path, lambda file: file.write(content))
                except (EverylabelError, OSError, ValueError):
                    pass  # reported with all unreadable images
            places[name] = f"images/{path.name}"

        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(fetched, list(places)))

    def _image(self, place: str) -> bytes:
        """Return an image's content; only Label Studio itself gets the token."""
        if place.startswith(self.api.url + "/"):
            return self.api.file(place.removeprefix(self.api.url))
        if place.startswith("/"):
            return self.api.file(place)
        if urlsplit(place).scheme not in ("http", "https", "data"):
            raise ApiError(0, f"image {place!r:.80} has no http address")
        with urlopen(place, timeout=TIMEOUT) as reply:
            fetched: bytes = reply.read()
        return fetched


def _suffix(place: str) -> str:
    suffix = Path(urlsplit(place).path).suffix.lower()
    return suffix if suffix in SUFFIXES else ".png"  # readers look at the content, not at the name


def _read(path: Path) -> Iterator[dict[str, str]]:
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file)


def plain_text(html: str) -> str:
    """Return the visible text of HTML."""
    text = TAG.sub("", BLOCK.sub(" ", INVISIBLE.sub("", html)))
    return " ".join(unescape(text).split())
