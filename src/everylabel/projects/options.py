"""What a project's folder knows of it: source, name, id, and how the source was read last time."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.data.options import Options
from everylabel.projects.own_files import check_own_files
from everylabel.projects.sealed_files import Unsealed, read_sealed, write_sealed

FILE = "project.json"


class Remembered(NamedTuple):
    """What a folder knows of its project. Its log goes by `name`, whatever the source is called later.

    `id` tells it from others of that name, in a store they share. `log` tells the log in the folder from
    others, by when it was begun; "" where none was, or by an earlier version.
    """

    source: str
    name: str
    options: Options
    id: str = ""
    log: str = ""


def remember(folder: Path, project: Remembered) -> None:
    """Note a project's source, name and options in its folder."""
    about = {"source": project.source, "name": project.name, "id": project.id, "log": project.log}
    about |= asdict(project.options)
    write_sealed(folder / FILE, about, indent=1)


def remembered(folder: Path) -> Remembered | None:
    """Return what was noted last time, None where nothing was; a folder that holds links is refused."""
    check_own_files(folder)
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = read_sealed(path)
        stored_options = {field.name: stored.get(field.name) for field in fields(Options)}
        classes: Sequence[str] | None = stored_options.pop("classes")
        options = Options(**stored_options, classes=None if classes is None else tuple(classes))
        known = (str(stored.get(name) or "") for name in ("id", "log"))
        return Remembered(str(stored["source"]), str(stored["name"]), options, *known)
    except Unsealed as error:
        raise EverylabelError(f"project file {str(path)!r} is damaged: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EverylabelError(
            f"project file {str(path)!r} is damaged ({error!r}); remove it and pass the source's options "
            "again: labels are kept elsewhere"
        ) from error
