"""A project's folder: what it remembers of the last start, the source and options that a start uses, its log.

`recognise` looks into the log before a project is opened: which of its rows is which item.

`project.json` in the folder saves source, name, id and options for the next start (`remember`, `remembered`).
The folder may come from anybody. So the source and the table to show that it remembers are read only if they
lie beside it, or are named now: otherwise it could show any file to the people who label, or call any
address.
"""

import json
import os
import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

from everylabel.core.errors import EverylabelError, counted
from everylabel.core.files import write_atomically
from everylabel.data.datasets.catalog import dataset_key
from everylabel.data.items import Items, Options, Sent, with_sent
from everylabel.data.read import dataset_name
from everylabel.data.source_diff import compare
from everylabel.log import events
from everylabel.log.database import PRIVATE, digest, shown_place
from everylabel.log.events import ABOUT_ITEMS
from everylabel.log.store import NoLog, Store, StoreError

ENDING = ".everylabel"
FILE = "project.json"  # source, name, id and options of a project, in its folder
IN_MEMORY = "items in memory"  # source that no folder can name: `open_project` gets a reader for it
STORE = "labels.sqlite"  # the log, in the project's folder
OWN = 0o700  # mode of a folder that other users cannot read


class Remembered(NamedTuple):
    """The saved data of a project's folder. The log is found by `name`, even if the source is renamed.

    `id` distinguishes projects of the same name in a shared store. `log` identifies the log in the folder by
    the time it was begun; "" if there is none, or if an earlier version began it. `stored` is a hash of the
    last `--store`, which may hold a password, and the same mark of its log.
    """

    source: str
    name: str
    options: Options
    id: str = ""
    log: str = ""
    stored: str = ""

    def log_in(self, store: str | None) -> str:
        """Return the mark of the log that was used in a store (None: the folder); "" if none is known."""
        if store is None:
            return self.log
        name, _, mark = self.stored.partition(" ")
        return mark if name == digest(store) else ""

    def with_log(self, store: str | None, mark: str) -> "Remembered":
        """Return the same data with the mark of the log in use now."""
        return self._replace(log=mark) if store is None else self._replace(stored=f"{digest(store)} {mark}")


def remember(folder: Path, project: Remembered) -> None:
    """Save a project's source, name and options in its folder."""
    about = {name: getattr(project, name) for name in ("source", "name", "id", "log", "stored")}
    text = json.dumps(about | asdict(project.options), indent=1, ensure_ascii=False)
    write_atomically(folder / FILE, lambda file: file.write(text.encode()), mode=PRIVATE)


def remembered(folder: Path) -> Remembered | None:
    """Return the saved data of a folder; None if there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        stored_options = {field.name: stored.get(field.name) for field in fields(Options)}
        classes: Sequence[str] | None = stored_options.pop("classes")
        options = Options(**stored_options, classes=None if classes is None else tuple(classes))
        known = (str(stored.get(name) or "") for name in ("id", "log", "stored"))
        return Remembered(str(stored["source"]), str(stored["name"]), options, *known)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EverylabelError(
            f"project file {str(path)!r} is damaged ({error!r}); remove it and pass the source's options "
            "again: labels are kept elsewhere"
        ) from error


def located(
    source: str | os.PathLike[str], folder: str | os.PathLike[str] | None, given: Options
) -> tuple[Path, Remembered]:
    """Return the project's folder, and its source (a full path, or a dataset's name), name and options."""
    path = Path(source)
    if is_project(source):
        before = remembered(path)
        if before is None:
            raise EverylabelError(
                f"folder {str(source)!r} holds no project.json; expected a source, or a project's folder"
            )
        if before.source == IN_MEMORY:
            raise EverylabelError(
                f"the items of {str(source)!r} were in Python's memory; expected them again: continue with "
                f"everylabel.label(items, folder={str(source)!r})"
            )
        options = given.or_else(before.options)
        if folder is not None and Path(folder).absolute() != path.absolute():  # read as there, kept here
            return located(before.source, folder, options)
        return path.absolute(), before._replace(options=options, id=before.id or _new_id(before.source))
    own = Path(f"{path.absolute()}{ENDING}" if folder is None else folder)
    if str(source) == IN_MEMORY:
        where = IN_MEMORY
    elif path.exists():
        where = str(path.absolute())
    elif dataset_key(str(source)) is None and remembered(own) is not None:
        raise source_gone(str(source), own)
    else:
        where = dataset_name(str(source))
    place = Path(f"{where}{ENDING}" if folder is None else folder).absolute()
    before = remembered(place)
    if before is not None and before.source == str(source):  # a dataset, even if a file here has its name
        where = before.source
    name = place.name.removesuffix(ENDING) if where == IN_MEMORY else Path(where).name
    if before is None:
        return place, Remembered(where, name, given, _new_id(where))
    if folder is not None and Path(before.source).name != Path(where).name:  # same name: it was moved
        raise EverylabelError(
            f"--project {str(place)!r} belongs to {before.source!r}; expected another folder for {where!r}"
        )
    options = given.or_else(before.options)
    return place, before._replace(source=where, options=options, id=before.id or _new_id(where))


def is_project(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a project's folder, which remembers the real source."""
    path = Path(source)
    return path.name.endswith(ENDING) and path.is_dir()


def _new_id(where: str) -> str:
    """Return a random id that distinguishes projects of the same name; "" for a dataset."""
    return secrets.token_hex(6) if Path(where).is_absolute() or where == IN_MEMORY else ""


def source_gone(source: str, folder: Path) -> EverylabelError:
    """Return the error for a source that is not where it was."""
    name = Path(source).name
    return EverylabelError(
        f"source {source!r} no longer exists; its project {str(folder)!r} has all labels: put {name!r} "
        f"back, or name its new path and --project {shlex.quote(str(folder))}"
    )


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Create a folder; if the block fails and the folder is new and empty, remove it again."""
    there = folder.exists()
    try:
        folder.mkdir(mode=OWN, parents=True, exist_ok=True)
    except OSError as error:
        raise EverylabelError(
            f"folder {str(folder)!r} cannot be made ({error.strerror}); choose another by --project"
        ) from error
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


def check_source(folder: Path, source: str, *, reading: bool = False) -> None:
    """Refuse a remembered source that is not beside the project's folder; an address never is.

    reading : nobody else sees it, so it may be anywhere on this machine
    """
    if dataset_key(source) is None and not _may_be_read(source, [folder.absolute().parent], reading):
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the source {source!r}, which is not beside it and not "
            "named by you; everybody who labels would see it. If that is meant, name both: everylabel label "
            f"{shlex.quote(source)} --project {shlex.quote(str(folder))}"
        )


def check_show(folder: Path, source: str, show: str, *, reading: bool = False) -> None:
    """Refuse a remembered table to show that is neither beside the folder nor beside the source."""
    homes = [folder.absolute().parent, *([Path(source).parent] if Path(source).is_absolute() else [])]
    if not _may_be_read(show, homes, reading):
        raise EverylabelError(
            f"the project {str(folder)!r} remembers the table {show!r} to show, which is not beside it and "
            "not named by you; everybody who labels would see it. If that is meant, add "
            f"--show {shlex.quote(show)}"
        )


def _may_be_read(place: str, homes: Sequence[Path], reading: bool) -> bool:
    """Return whether a remembered path is absolute and, unless `reading`, lies in one of these folders."""
    absolute = Path(place).is_absolute()  # else an address, or relative to the current directory
    return absolute and (reading or lies_in(Path(place), [home.resolve() for home in homes]))


def lies_in(place: Path, homes: Sequence[Path]) -> bool:
    """Return whether a path lies in one of these resolved folders after following all links."""
    try:
        real = place.resolve()
    except (OSError, RuntimeError, ValueError):  # a link to itself, or an invalid name
        return False
    return any(real.is_relative_to(home) for home in homes)


@dataclass(frozen=True)
class LogUse:
    """How `open_project` uses the log, which gives items their ids; a changed source is refused.

    store : a file's path or postgresql://...; None: labels.sqlite in the project's folder
    accept : accept a changed source, and another log unless `own_log` is given
    needed : the log is only read: refuse if there is none, and report changes of the source in a note
    own_log : how to continue without the project's own log, which is then needed even if changes are accepted
    sample : embed only a sample and the items that have joined before, where that helps
    """

    store: str | None = None
    accept: bool = False
    needed: bool = False
    own_log: str = ""
    sample: bool = False


def log_at(folder: Path, about: Remembered, items: Items, store: str | None, *, write: bool = False) -> Store:
    """Return the log of items, opened: in the given store, or a file in the project's folder."""
    place = str(folder / STORE) if store is None else store
    return Store(place, log_name(about.name, about.id, items, store), write=write)


def log_name(name: str, own_id: str, items: Items, store: str | None) -> str:
    """Return the name of a log in a store: the project's name, plus its id if another project has that name.

    A log belongs to another project if its first event records another id and its items are not ours. So a
    project whose folder was created again finds its log by its items.
    """
    if store is None or not own_id:
        return name
    try:
        with closing(Store(store, name, write=False)) as log:
            first, before = log.first(), log.items()
    except StoreError:  # there is no log yet, or opening it reports the problem
        return name
    owner = first.body.id if first is not None and isinstance(first.body, events.Project) else None
    ours = owner in (None, own_id) or (before is not None and compare(before, items).only_appended)
    return name if ours else f"{name} {own_id}"


def log_mark(log: Store) -> str:
    """Return a mark that distinguishes a log from others: the time it was begun."""
    first = log.first()
    return "" if first is None else repr(first.at)


def recognise(
    items: Items, folder: Path, now: Remembered, before: Remembered | None, use: LogUse
) -> tuple[Items, list[int] | None]:
    """Return items with their ids in the log, and the positions of those needed at once; None: all.

    now, before : the data of the project's folder at this start, and at the last one

    Errors of reading a log (another program holds it, a later version wrote it) are passed on unchanged: it
    may be the right log, which no backup should replace.
    """
    mark = before.log_in(use.store) if before is not None and (use.own_log or not use.accept) else ""
    try:
        log = log_at(folder, now, items, use.store)
    except NoLog:
        _check_mark("", mark, folder, use)
        if use.needed:
            raise
        return items, [] if use.sample else None
    with closing(log):
        found, known, labelled = log_mark(log), log.items(), log.holds(ABOUT_ITEMS)
        _check_mark(found, mark, folder, use)
        bodies = [event.body for event in log.glance("extended")]
    extended = [body for body in bodies if isinstance(body, events.Extended)]
    if known is not None:
        items = with_sent(items, _sent(extended, now.source), now.options.text_column)
        change = compare(known, items)
        cause = "" if before is None else now.options.differs(before.options)
        reads = use.needed and not change.others  # rows of shards cannot be matched if they changed
        note = change.check(now.source, use.accept or reads, cause, unlabelled=not labelled)
        if use.needed and note is not None:  # otherwise `open_log` reports it
            items = replace(items, notes=(*items.notes, note))
        items = replace(items, ids=change.keys, replaced=not (labelled or change.only_appended))
    if not use.sample or items.features is not None:
        return items, None
    joined = {name for body in extended for name in body.names}
    if found and not joined:  # version 0.1 recorded no items that joined
        return items, None
    return items, [i for i, name in enumerate(items.ids) if name in joined]


def _check_mark(found: str, mark: str, folder: Path, use: LogUse) -> None:
    """Refuse to start a new log if the project's log is gone, empty or another one.

    found : the mark of the log that is there, "" if there is none; mark : of the project's log, if known
    """
    if not mark or found == mark:
        return
    place = str(folder / STORE) if use.store is None else use.store
    is_there = "://" in place or Path(place).exists()
    instead = use.own_log or "add --accept-changes"
    what = "is another one" if found else "holds nothing of it" if is_there else "is gone"
    raise EverylabelError(
        f"the log {shown_place(place)}, with the labels of this project, {what}; restore it or a backup "
        f"(everylabel doctor checks it). To continue without its labels, {instead}"
    )


def _sent(extended: list[events.Extended], source: str) -> list[Sent]:
    """Return the items that were sent to a project, in the order in which they arrived."""
    found = [one for body in extended for one in body.sent or ()]
    sent = [Sent(str(one["id"]), str(one["text"]), one.get("fields") or {}) for one in found]
    if sent and not Path(source).exists() and Path(source).is_absolute():
        many = counted(len(sent), "item was", "items were")
        raise EverylabelError(
            f"source {source!r} no longer exists ({many} sent to its project, but those are not "
            "enough to open it); expected the source: put it back"
        )
    return sent
