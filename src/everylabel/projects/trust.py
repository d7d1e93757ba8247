"""Which models of this machine may be loaded, and which files of it read.

A project's folder may come from anybody, and remembers a model; loading one can mean running it. So a model
that lies on this machine is loaded only if the user names it, now; a name on the hub is as safe as any other.
It also remembers a source, and a table that is shown: these are read if they lie beside the project's folder,
or are named now. Otherwise a stranger's folder could show whoever labels any file, or call any address.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.models.embedding.choose import local_place


class Trust(NamedTuple):
    """The model that the user names, now, and whether it may run code of its own."""

    model: str | None = None
    code: bool = False

    def check(self, model: str | None) -> None:
        """Refuse a model on this machine that the user does not name."""
        if model is None or model == self.model or local_place(model) is None:
            return
        raise EverylabelError(
            f"the project remembers the model {model!r}, which lies on this machine and is not named by you; "
            f"expected --model {shlex.quote(model)} (model=) with label or predict, if you know what it is"
        )


NONE_NAMED = Trust()


def check_source(folder: Path, source: str, *, private: bool = False) -> None:
    """Refuse a source that a project's folder remembers and that lies elsewhere; an address does.

    private : nobody else is shown it, so that only addresses are refused
    """
    if "://" in source or not (private or _lies_in(source, folder.absolute().parent)):
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the source {source!r}, which lies elsewhere and is not "
            "named by you; whoever labels would see it. If that is meant, name both: everylabel label "
            f"{shlex.quote(source)} --project {shlex.quote(str(folder))}"
        )


def check_show(folder: Path, source: str, show: str) -> None:
    """Refuse a table to show that a folder remembers and that lies neither beside it nor by the source."""
    if not any(_lies_in(show, home) for home in (folder.absolute().parent, Path(source).parent)):
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the table {show!r} to show, which lies elsewhere and is "
            f"not named by you; whoever labels would see it. If that is meant, add --show {shlex.quote(show)}"
        )


def _lies_in(place: str, home: Path) -> bool:
    """Return whether a place lies in a folder, links followed; what is no full path is a dataset's name."""
    if not Path(place).is_absolute():
        return "://" not in place
    try:
        return Path(place).resolve().is_relative_to(home.resolve())
    except (OSError, RuntimeError, ValueError):  # a link to itself, a name that none can have
        return False
