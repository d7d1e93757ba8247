"""How the page shows an item, looked up by id, and the guidelines beside it.

When the source grows, `replace_project` replaces the project. Images are shown only from the source's own
folder. A table names its images by path and may come from anybody: without this limit, a path or a link to
one of the user's private pictures would show it to everybody who labels.

Guidelines are a Markdown file, made safe to show. A project keeps a copy and shows it when no file is named:
a remembered path could point to any file. HTML and pictures in the file are not rendered, and links may use
only http, https and mailto, so the guidelines cannot make the page run or fetch anything.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from markdown_it import MarkdownIt

from everylabel.core.errors import EverylabelError, listed
from everylabel.core.files import write_atomically
from everylabel.data.cells import label_of
from everylabel.data.digests import UNREADABLE
from everylabel.data.display import Pictures, fields_of
from everylabel.data.items import Items, Numbered, id_list
from everylabel.data.media import Picture
from everylabel.labelling.state.types import Refused
from everylabel.log.database import PRIVATE
from everylabel.projects.folder import lies_in
from everylabel.projects.project import Project

NAMES_OF_LABELS = {"label", "labels", "class", "category", "target", "y"}
COPY, NONE = "guidelines.md", "none"
SAFE = ("http", "https", "mailto")


def allowed_images(project: Project, others: Sequence[Path] = ()) -> list[Path]:
    """Return the folders whose images may be shown: the source's own and `others`; [] for no limit.

    Images outside are refused: those of shards one by one, when they are requested, others at once.
    """
    display = project.display
    if not isinstance(display, Pictures):
        return []
    home = display.home()
    if home is not None:
        return _resolved([home, *others])
    own, show = Path(project.source), project.options.show
    allowed = _resolved(
        [own if own.is_dir() else own.parent, *([Path(show).parent] if show else []), *others]
    )
    files = (display.file(i) for i in range(len(display.images)))
    outside = [str(file) for file in files if file is not None and not lies_in(file, allowed)]
    if outside:
        folder = Path(outside[0]).resolve().parent
        raise EverylabelError(
            f"{len(outside):,} images lie outside the source's folder {str(allowed[0])!r}: "
            f"{listed(outside)}; everybody who labels would see them. To allow this, add --images-in {folder}"
        )
    return allowed


def _resolved(folders: Iterable[str | Path]) -> list[Path]:
    return [Path(folder).resolve() for folder in folders]


class ItemView:
    """The items of a project as the page sees them."""

    def __init__(
        self,
        project: Project,
        fields: Sequence[str] | None = None,
        allowed: Sequence[Path] = (),
        hidden: Sequence[str] = (),
    ) -> None:
        """Show a project.

        fields : the columns to show beside an item; default: all except label columns
        allowed : the folders whose images may be shown, from `allowed_images`; () for no limit
        hidden : columns that are never shown, since they would give away the answer to a check
        """
        check_fields(project, fields)
        self._hidden = {*hidden}
        self._fields = None if fields is None else [name for name in fields if name not in self._hidden]
        self._allowed = allowed
        self.replace_project(project)

    def replace_project(self, project: Project) -> None:
        """Replace the project that is shown."""
        self._revealing, self._bare = _labels_of(project) | self._hidden, _folders_are_classes(project)
        self._now = project, id_list(project.ids).position

    @property
    def project(self) -> Project:
        return self._now[0]

    def place(self, name: str) -> int | None:
        """Return an item's position by id; None if there is none."""
        return self._now[1].get(name)

    def content(self, names: Sequence[str]) -> Sequence[Any]:
        """Return the content of items, by id, as input for an encoder."""
        project, places = self._now
        return project.some([places[name] for name in names])

    def item(self, name: str) -> dict[str, Any]:
        """Return an item as the API sends it."""
        project, place = self._find(name)
        item = project.display.item(place)
        image = image_url(name, self.digest(name)) if item["image"] else None
        fields = [pair for pair in item["fields"] if pair[0] not in self._revealing]
        if self._fields is not None:
            fields = fields_of({each: project.columns[each] for each in self._fields}, place)
        known = {"id": name, "name": self.name(name), "kind": project.kind}
        return {**known, **item, "fields": fields, "image": image}

    def name(self, name: str) -> str:
        """Return an item's name for people: its own id or its row number."""
        project, place = self._find(name)
        return self._without_folder(project.known_as(place))

    def text(self, name: str) -> str:
        """Return a short text to search in and to show in lists."""
        project, place = self._find(name)
        return self._without_folder(project.display.text(place))

    def _find(self, name: str) -> tuple[Project, int]:
        """Return the current project and an item's position in it."""
        project, position = self._now
        return project, position[name]

    def _without_folder(self, name: str) -> str:
        return name.rpartition("/")[2] if self._bare else name

    def digest(self, name: str) -> str:
        """Return a hash of the current content of an item's image."""
        project, place = self._find(name)
        return project.display.digest(place) if self.may_show(project, place) else UNREADABLE

    def picture(self, name: str) -> Picture:
        """Return an item's image, or refuse and say why there is none."""
        project, i = self._find(name)
        if not self.may_show(project, i):
            file = project.display.file(i)
            raise Refused(404, "no_image", f"image {file} lies outside the source's folder")
        try:
            return project.display.picture(i)
        except EverylabelError as error:
            raise Refused(404, "no_image", str(error)) from error

    def may_show(self, project: Items, place: int) -> bool:
        """Return whether an item's image is in an allowed folder; a file outside is never read.

        Each call follows links, since they may change.
        """
        file = project.display.file(place)
        return file is None or not self._allowed or lies_in(file, self._allowed)


def image_url(item: str, digest: str) -> str:
    """Return the URL of an item's image; it changes with the content, so that caches stay correct."""
    return f"/api/image/{quote(item, safe='')}?content={digest}"


def check_fields(project: Project, fields: Sequence[str] | None) -> None:
    """Refuse fields that are not columns of the source."""
    unknown = [name for name in fields or () if name not in project.columns]
    if unknown:
        raise EverylabelError(
            f"--fields names {listed(unknown)}; expected some of {listed(list(project.columns), 12)}"
        )


def _labels_of(project: Project) -> set[str]:
    """Return the columns that hold labels: by their name, or because all values are class names.

    A column is scanned up to the first value that is not a class.
    """
    named = {name for name in project.columns if name.lower() in NAMES_OF_LABELS}
    known = {"", *project.classes}
    others = ((name, values) for name, values in project.columns.items() if name not in named)
    return named | {
        name
        for name, values in others
        if project.classes and all(label_of(value).strip() in known for value in values)
    }


def _folders_are_classes(project: Project) -> bool:
    """Return whether an image's folder would give away its class."""
    if project.kind != "image" or isinstance(project.ids, Numbered):
        return False
    asked = project.options.label_column == "folder"
    folders = {str(name).rpartition("/")[0].rpartition("/")[2] for name in project.ids} - {""}
    return asked or (bool(folders) and folders <= set(project.classes))


def rendered(text: str) -> str:
    """Return Markdown as safe HTML: only text, lists, tables, code and external links."""
    return str(_Maker("commonmark", {"html": False}).enable("table").disable("image").render(text))


class _Maker(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return urlsplit(url.strip().lower()).scheme in SAFE


def read_guidelines(folder: Path, named: Path | None = None) -> str:
    """Return Markdown: of the named file, nothing if that is "none", by default the copy of the last file."""
    path = folder / COPY if named is None else named
    if str(path) == NONE or (named is None and (path.is_symlink() or not path.is_file())):
        return ""  # a link in an untrusted project could show any of the user's files
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EverylabelError(
            f"--guidelines {str(path)!r} cannot be read ({error}); expected a Markdown file in UTF-8"
        ) from error


def keep_guidelines(folder: Path, text: str) -> None:
    """Save the guidelines for the next start."""
    write_atomically(folder / COPY, lambda file: file.write(text.encode()), mode=PRIVATE)
