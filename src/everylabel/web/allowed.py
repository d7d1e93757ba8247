"""Which image files may be shown: those of the source's own folder.

A table names its images by path, and a table may come from anybody: without this, one that names a picture of
the user's own, or a link to it, would show that to everybody who labels.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.display import Pictures
from everylabel.projects.project import Project
from everylabel.projects.trust import lies_in


class Allowed:
    """The folders whose files may be shown; none of them: all may."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self.folders = tuple(Path(folder).resolve() for folder in folders)

    def __contains__(self, path: Path) -> bool:
        """Return whether a file lies inside now, when all links are followed: a folder may become one."""
        return not self.folders or lies_in(path, self.folders)

    def outside(self, paths: Iterable[Path | None]) -> list[Path]:
        """Return the files that lie outside; each folder is looked at once, so that many take no longer."""

        @lru_cache(10_000)
        def folder_is(folder: Path) -> bool:
            return lies_in(folder, self.folders)

        def inside(path: Path) -> bool:
            return lies_in(path, self.folders) if path.is_symlink() else folder_is(path.parent)

        return [path for path in paths if path is not None and self.folders and not inside(path)]


EVERYTHING = Allowed(())


def allowed_images(project: Project, others: Sequence[Path] = ()) -> Allowed:
    """Return what may be shown of a project, besides what its user allows; refuse a project of others."""
    display = project.display
    home = display.home()
    if home is not None:  # each is refused when it is asked for
        return Allowed([home, *others])
    if not isinstance(display, Pictures) or project.about is None:
        return EVERYTHING
    own, show = Path(project.about.source), project.about.options.show
    allowed = Allowed([own if own.is_dir() else own.parent, *([Path(show).parent] if show else []), *others])
    files = (display.file(i) for i in range(len(display.images)))
    outside = [str(path) for path in allowed.outside(files)]
    if outside:
        folder = Path(outside[0]).resolve().parent
        raise EverylabelError(
            f"{len(outside):,} images lie outside the source's folder {str(allowed.folders[0])!r}: "
            f"{listed(outside)}; whoever labels would see them. If they may, add --images-in {folder}"
        )
    return allowed
