"""Decide which local models may be loaded, and which local files may be read.

A project's folder may come from anybody, and it remembers a model; loading a model can mean running its code.
So a local model is loaded only if the user names it, now or when the project was labelled on this machine
before. `models.json` among the user's own files records that together with the project's folder and id, so
that a different folder in the same place is not trusted. A name on the hub is as safe as any other.
The folder also remembers a source and a table to show. These are read only if they lie beside the project's
folder, or are named now. Otherwise a stranger's folder could show any file to the people who label, or call
any address.
"""

import json
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_state_path

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.data.datasets.catalog import dataset_key
from everylabel.log.database import PRIVATE
from everylabel.models.embedding.choose import local_place


class Trust(NamedTuple):
    """The model that the user names now, and whether it may run its own code."""

    model: str | None = None
    code: bool = False

    def check(self, model: str | None) -> None:
        """Refuse a local model unless the user names it."""
        if model is None or model == self.model or local_place(model) is None:
            return
        raise EverylabelError(
            f"the project remembers the model {model!r}, which lies on this machine and is not named by you; "
            f"expected --model {shlex.quote(model)} (model=) with label or predict, if you know what it is"
        )


NONE_NAMED = Trust()


def note_trust(folder: Path, project: str, trust: Trust) -> None:
    """Record that the user named a project's model; if that fails, they are asked again."""
    place = _record_path()
    if trust.model is None or local_place(trust.model) is None or trusted_before(folder, project) == trust:
        return
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = json.dumps({**_record(), _key(folder, project): [*trust]}, indent=1)
        write_atomically(place, lambda file: file.write(known.encode()), mode=PRIVATE)


def trusted_before(folder: Path, project: str) -> Trust:
    """Return the model that the user named for this project before on this machine."""
    known = _record().get(_key(folder, project))
    return (
        Trust(str(known[0]), known[1] is True) if isinstance(known, list) and len(known) == 2 else NONE_NAMED
    )


def _key(folder: Path, project: str) -> str:
    return f"{project} {_real(folder) or folder}"


def _record_path() -> Path:
    return user_state_path("everylabel", appauthor=False) / "models.json"


def _record() -> dict[str, Any]:
    try:
        known = json.loads(_record_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def check_source(folder: Path, source: str, *, private: bool = False) -> None:
    """Refuse a remembered source that is not beside the project's folder; an address never is.

    private : nobody else sees it, so that only sources that are not full local paths are refused
    """
    if not _may_be_read(source, [folder.absolute().parent], private) and dataset_key(source) is None:
        now, command = _now(source, folder), "" if private else "everylabel label "
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the source {source!r}, which {_where(source)} and is not "
            f"named by you; {_why(private)}. If that is meant, name both: "
            f"{command}{now} --project {shlex.quote(str(folder))}"
        )


def check_show(folder: Path, source: str, show: str, *, private: bool = False) -> None:
    """Refuse a remembered table to show that is neither beside the folder nor beside the source."""
    homes = [folder.absolute().parent, *([Path(source).parent] if Path(source).is_absolute() else [])]
    if not _may_be_read(show, homes, private):
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the table {show!r} to show, which {_where(show)} and "
            f"is not named by you; {_why(private)}. If that is meant, add "
            f"--show {_now(show, folder)}"
        )


def _may_be_read(place: str, homes: Sequence[Path], private: bool) -> bool:
    """Return whether a remembered path is absolute and, unless `private`, lies in one of these folders."""
    if not Path(place).is_absolute():  # an address, or relative to the current directory
        return False
    return private or lies_in(Path(place), [home for home in map(_real, homes) if home is not None])


def lies_in(place: Path, homes: Sequence[Path]) -> bool:
    """Return whether a path lies in one of these resolved folders after following all links."""
    real = _real(place)
    return real is not None and any(real.is_relative_to(home) for home in homes)


def _real(place: Path) -> Path | None:
    try:
        return place.resolve()
    except (OSError, RuntimeError, ValueError):  # a link to itself, or an invalid name
        return None


def _why(private: bool) -> str:
    return "everylabel would contact that address" if private else "everybody who labels would see it"


def _where(place: str) -> str:
    return "lies elsewhere" if "://" in place or os.path.lexists(place) else "is not there any more"


def _now(place: str, folder: Path) -> str:
    """Return the path to name: the file of that name beside the project, if the original has moved."""
    beside = folder.absolute().parent / Path(place).name
    moved = "://" not in place and not os.path.lexists(place) and os.path.lexists(beside)
    return shlex.quote(str(beside) if moved else place)
