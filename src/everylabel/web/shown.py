"""What is shown of an item, by its id; the project behind it is another one when its source has grown."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import label_of
from everylabel.data.digests import UNREADABLE
from everylabel.data.display import fields_of
from everylabel.data.id_list import IdList
from everylabel.data.items import Items
from everylabel.data.numbered import Numbered
from everylabel.data.pictures import Picture
from everylabel.labelling.refused import Refused
from everylabel.projects.project import Project
from everylabel.web.addresses import image_url
from everylabel.web.allowed import EVERYTHING, Allowed

NAMES_OF_LABELS = {"label", "labels", "class", "category", "target", "y"}


class Shown:
    """The items of a project as the page sees them."""

    def __init__(
        self, project: Project, fields: Sequence[str] | None = None, allowed: Allowed = EVERYTHING
    ) -> None:
        """Show a project.

        fields : the columns beside an item, all but those of labels unless given
        allowed : the images that may be shown
        """
        check_fields(project, fields)
        self._fields = fields
        self._allowed = allowed
        self.become(project)

    def become(self, project: Project) -> None:
        """Show this project from now on."""
        self._told, self._bare = _labels_of(project), _folders_are_classes(project)
        self._ids = IdList(project.ids)
        self._now = project, self._ids.position

    def grow(self, project: Project, more: Items) -> None:
        """Show this project from now on: the one before and more texts, without a look at all of it."""
        before = self.project
        may = {name for name in project.columns if name in self._told or name not in before.columns}
        self._told = _labels_of(replace(project, columns={name: more.columns.get(name, ()) for name in may}))
        self._now = project, self._now[1]
        self._ids.extend(more.ids)  # whoever finds a name finds it in this project

    @property
    def project(self) -> Project:
        return self._now[0]

    def place(self, name: str) -> int | None:
        """Return where an item stands; None if there is none of this name."""
        return self._now[1].get(name)

    def item(self, name: str) -> dict[str, Any]:
        """Return an item as the API gives it; `name` is what people know it by."""
        project, place = self._find(name)
        item = project.display.item(place)
        image = image_url(name, self.digest(name)) if item["image"] else None
        fields = [pair for pair in item["fields"] if pair[0] not in self._told]
        if self._fields is not None:
            fields = fields_of({each: project.columns[each] for each in self._fields}, place)
        known = {"id": name, "name": self.name(name), "kind": project.kind}
        return {**known, **item, "fields": fields, "image": image}

    def name(self, name: str) -> str:
        """Return what people know an item by."""
        project, place = self._find(name)
        return self._without_folder(project.known_as(place))

    def text(self, name: str) -> str:
        """Return a short text to search in and to show in lists."""
        project, place = self._find(name)
        return self._without_folder(project.display.text(place))

    def _find(self, name: str) -> tuple[Project, int]:
        """Return where an item stands, and in which project."""
        project, position = self._now
        place = position[name]
        if place >= len(project.ids):  # it has grown in between
            project, position = self._now
            place = position[name]
        return project, place

    def _without_folder(self, name: str) -> str:
        return name.rpartition("/")[2] if self._bare else name

    def digest(self, name: str) -> str:
        """Return a hash of what an item's image shows now."""
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
        """Return whether an item's image lies where images may; nothing of others is read."""
        file = project.display.file(place)
        return file is None or file in self._allowed


def check_fields(project: Project, fields: Sequence[str] | None) -> None:
    """Refuse fields that are no columns of the source."""
    unknown = [name for name in fields or () if name not in project.columns]
    if unknown:
        raise EverylabelError(
            f"--fields names {listed(unknown)}; expected some of {listed(list(project.columns), 12)}"
        )


def _labels_of(project: Project) -> set[str]:
    """Return the columns that hold labels, by their name or since they hold nothing but names of classes.

    A column is looked through up to the first value that is no class.
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
    """Return whether the folder that an image lies in would tell its class."""
    if project.kind != "image" or isinstance(project.ids, Numbered):
        return False
    asked = project.about is not None and project.about.options.label_column == "folder"
    folders = {str(name).rpartition("/")[0].rpartition("/")[2] for name in project.ids} - {""}
    return asked or (bool(folders) and folders <= set(project.classes))
