"""What is shown of an item, by its id; the project behind it is another one when its source has grown."""

from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.pictures import Picture
from everylabel.labelling.refused import Refused
from everylabel.projects.project import Project
from everylabel.web.addresses import image_url


class Shown:
    """The items of a project as the page sees them."""

    def __init__(self, project: Project) -> None:
        self.become(project)

    def become(self, project: Project) -> None:
        """Show this project from now on."""
        self._now = project, {name: i for i, name in enumerate(project.ids)}

    @property
    def project(self) -> Project:
        return self._now[0]

    def item(self, name: str) -> dict[str, Any]:
        """Return an item as the API gives it; `name` is what people know it by."""
        project, position = self._now
        item = project.display.item(position[name])
        image = image_url(name, self.digest(name)) if item["image"] else None
        known_as = project.known_as(position[name])
        return {"id": name, "name": known_as, **item, "image": image, "kind": project.kind}

    def name(self, name: str) -> str:
        """Return what people know an item by."""
        project, position = self._now
        return project.known_as(position[name])

    def text(self, name: str) -> str:
        """Return a short text to search in and to show in lists."""
        project, position = self._now
        return project.display.text(position[name])

    def digest(self, name: str) -> str:
        """Return a hash of what an item's image shows now."""
        project, position = self._now
        return project.display.digest(position[name])

    def picture(self, name: str) -> Picture:
        """Return an item's image, or refuse and say why there is none."""
        project, position = self._now
        try:
            return project.display.picture(position[name])
        except EverylabelError as error:
            raise Refused(404, "no_image", str(error)) from error
