"""What is shown of an item, by its id; the project behind it is another one when its source has grown."""

from collections.abc import Sequence
from typing import Any

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import label_of
from everylabel.data.display import Images, fields_of
from everylabel.data.id_list import IdList
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
        self._now = project, IdList(project.ids).position

    @property
    def project(self) -> Project:
        return self._now[0]

    def place(self, name: str) -> int | None:
        """Return where an item stands; None if there is none of this name."""
        return self._now[1].get(name)

    def item(self, name: str) -> dict[str, Any]:
        """Return an item as the API gives it; `name` is what people know it by."""
        project, position = self._now
        item = project.display.item(position[name])
        image = image_url(name, self.digest(name)) if item["image"] else None
        fields = [pair for pair in item["fields"] if pair[0] not in self._told]
        if self._fields is not None:
            fields = fields_of({each: project.columns[each] for each in self._fields}, position[name])
        known = {"id": name, "name": self.name(name), "kind": project.kind}
        return {**known, **item, "fields": fields, "image": image}

    def name(self, name: str) -> str:
        """Return what people know an item by."""
        project, position = self._now
        return self._without_folder(project.known_as(position[name]))

    def text(self, name: str) -> str:
        """Return a short text to search in and to show in lists."""
        project, position = self._now
        return self._without_folder(project.display.text(position[name]))

    def _without_folder(self, name: str) -> str:
        return name.rpartition("/")[2] if self._bare else name

    def digest(self, name: str) -> str:
        """Return a hash of what an item's image shows now."""
        project, position = self._now
        return project.display.digest(position[name])

    def picture(self, name: str) -> Picture:
        """Return an item's image, or refuse and say why there is none."""
        project, position = self._now
        display, i = project.display, position[name]
        if isinstance(display, Images) and display.images[i] not in self._allowed:
            raise Refused(404, "no_image", f"image {display.images[i]} lies outside the source's folder")
        try:
            return display.picture(i)
        except EverylabelError as error:
            raise Refused(404, "no_image", str(error)) from error


def check_fields(project: Project, fields: Sequence[str] | None) -> None:
    """Refuse fields that are no columns of the source."""
    unknown = [name for name in fields or () if name not in project.columns]
    if unknown:
        raise EverylabelError(
            f"--fields names {listed(unknown)}; expected some of {listed(list(project.columns), 12)}"
        )


def _labels_of(project: Project) -> set[str]:
    """Return the columns that hold labels, by their name or since they hold nothing but names of classes.

    A column is looked through up to the first value that is no class: every item that is sent asks this.
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
