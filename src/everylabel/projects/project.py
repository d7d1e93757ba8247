"""A project: the items of a source with their features, how they are shown, and a folder.

`project.json` in the folder saves source, name, id and options for the next start (`remember`, `remembered`).
The folder may come from anybody. So the source and the table to show that it remembers are read only if they
lie beside it, or are named now: otherwise it could show any file to the people who label, or call any
address.
"""

import json
import os
import secrets
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everylabel.core.checks import FAR, outlying_rows
from everylabel.core.errors import EverylabelError, and_more, counted, listed
from everylabel.core.files import write_atomically
from everylabel.data.classes import check_class_count, class_names_in, clean_name, is_list, no_labels
from everylabel.data.datasets.catalog import dataset_key
from everylabel.data.items import Items, Options
from everylabel.data.media import why_unreadable
from everylabel.data.read import dataset_name, read
from everylabel.data.readers.table import NO_IDS
from everylabel.labelling.desk import Generation
from everylabel.log.database import PRIVATE, digest
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.arrivals import Growing, growing
from everylabel.projects.features import (
    Progress,
    features_of,
    is_begun,
    kept_items,
    made_by,
    record_of,
    replace_features,
)

ENDING = ".everylabel"
FILE = "project.json"  # source, name, id and options of a project, in its folder
IN_MEMORY = "items in memory"  # source that no folder can name: `open_project` gets a reader for it
OWN = 0o700  # mode of a folder that other users cannot read
SHOWN = 5  # maximum number of omitted images to name


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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Project(Items):
    """Items to label with their features, and the data of the project's folder.

    features : (n, d), may be memory-mapped
    folder : contains its store and features
    about : its source, name, id and options, which `keep` saves for the next start
    embedded_in : folder of the features if they were embedded, else None
    coming : embeds the items that have no features yet; None if all have
    here : position of the item of each row of features; None: all items in order
    trust_code : whether the model may run its own code
    generation : the fine-tuned encoder that made the features, if any
    """

    features: np.ndarray
    folder: Path
    about: Remembered
    embedded_in: Path | None = None
    coming: Growing | None = None
    here: Sequence[int] | None = None
    trust_code: bool = False
    generation: Generation | None = None

    @property
    def name(self) -> str:
        """The name of the log, shown on the page."""
        return self.about.name

    @property
    def source(self) -> str:
        """The source: a full path, or a dataset's name."""
        return self.about.source

    @property
    def id(self) -> str:
        """The id that distinguishes it from others of the same name."""
        return self.about.id

    @property
    def options(self) -> Options:
        """The options with which the source was read."""
        return self.about.options

    @property
    def ids_here(self) -> Sequence[str]:
        """The ids of the items that have features, in the order of the rows."""
        return self.ids if self.here is None else [self.ids[i] for i in self.here]

    def without_features(self) -> "Project":
        """Return the project without features, for code that only reads the items."""
        return self.with_items(self)

    def with_items(self, items: Items) -> "Project":
        """Return the project with other items and no features, for code that only reads them."""
        shown = {one.name: getattr(items, one.name) for one in fields(Items)}
        none = {"features": np.zeros((len(items), 0), np.float32), "here": None}
        return replace(self, **shown | none)

    def embedder(self) -> Embedder | None:
        """Return an embedder for further items; None if the features came with the source."""
        if self.coming is not None:
            return self.coming.embedder
        if self.embedded_in is None:
            return None
        moved = record_of(self.embedded_in) is None  # to the project's folder, by `keep`
        kind, model, fit = made_by(self.folder if moved else self.embedded_in)
        return Embedder(kind, model, self.trust_code, fit)

    def keep(self) -> None:
        """Save source and options for the next start, and let the new features replace older ones."""
        if self.embedded_in is not None:
            replace_features(self.folder, self.embedded_in)
        remember(self.folder, self.about)

    def blind(self) -> "Project":
        """Return the project with its labels as the truth of a simulated person, and no labels."""
        if self.truth is not None:
            return replace(self, labels=no_labels(len(self)))
        check_true_labels(self.source, self)
        return replace(self, truth=self.labels, labels=no_labels(len(self)))


class Opening(NamedTuple):
    """A project before anything is embedded: its folder, its options now and last time, and its items."""

    folder: Path
    now: Remembered
    before: Remembered | None
    items: Items


def check_true_labels(source: str, items: Items) -> None:
    """Refuse a source without labels, before it is embedded for nothing."""
    if items.truth is None and not items.labelled:
        raise EverylabelError(
            f"source {source!r} has no true labels; expected --label-column with their column"
        )


def needs_labels(opening: Opening) -> None:
    """Check a source whose labels are the truth, as `Check` of `open_project`."""
    check_true_labels(opening.now.source, opening.items)


Check = Callable[[Opening], Items | None]  # the arguments `check`, `begin` and `reader` of `open_project`
Begin = Callable[[Opening], Sequence[int] | None]
Reader = Callable[[str, Options], Items]


def open_project(
    source: str | os.PathLike[str],
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    classes: Sequence[str] | None = None,
    show: str | os.PathLike[str] | None = None,
    model: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
    long_rows: str | None = None,
    label_separator: str | None = None,
    progress: Progress | None = None,
    check: Check | None = None,
    begin: Begin | None = None,
    keep: bool = True,
    trust_model_code: bool = False,
    reader: Reader = read,
    fields: str | None = None,
    reading: bool = False,
    embed: bool = True,
) -> Project:
    """Return a source as a project with memory-mapped features; items without features are embedded.

    Parameters that are not named below are those of `data.items.Options` and `everylabel.embed`; options
    that are not given are taken from the last time, if the folder has any.

    source : as in `everylabel label`. With the folder of an existing project and another `folder`, that
        project's source is read with its options and saved to `folder`. IN_MEMORY if only `reader` has the
        items.
    folder : where features and labels are stored; by default SOURCE.everylabel beside the source
    progress : called with the number of rows embedded so far and of all rows
    check : called after reading the source, before anything is embedded or written; may refuse it, or return
        the items with their ids in a log
    begin : if given, only a sample is embedded where that helps: see `Project.coming`. It is called
        like `check` and returns the positions of items needed at once; None: all.
    keep : save the options for the next start. False leaves that to `Project.keep`.
    reader : reads the source, a full path or a dataset's name, as the options say
    reading : the items are shown to nobody else, so a remembered source may be anywhere on this machine; if
        it is gone, use the features in the folder, with empty items
    embed : False: only labels are needed, so items get no features
    """
    shown = show if show is None or "://" in str(show) else Path(show).absolute()
    names = None if classes is None else tuple(classes)
    columns = text_column, image_column, label_column, id_column
    given = Options(
        *columns,
        names,
        None if shown is None else str(shown),
        model,
        encoding,
        long_rows,
        label_separator,
        fields,
    )
    own = Path(f"{Path(source).absolute()}{ENDING}")
    if reading and folder is None and not Path(source).exists() and remembered(own) is not None:
        source = own  # only its folder is left
    place, about = located(source, folder, given)
    where, options = about.source, about.options
    before = remembered(place)
    if before is not None and Path(where).is_absolute() and not Path(where).exists():
        kept = kept_items(place, options) if reading else None
        if kept is None:
            raise _gone(where, place)
        reader = partial(_as_kept, kept)
    home = place
    if _is_project(source):
        home = Path(source).absolute()
        check_source(home, where, reading=reading)
    if options.show is not None and given.show is None:
        check_show(home, where, options.show, reading=reading)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        items = with_clean_classes(_read(reader, where, options, given))
        about = about._replace(options=replace(options, **items.chosen))  # type: ignore[arg-type]
        if check is not None:
            items = check(Opening(place, about, before, items)) or items
        at_once = None
        if begin is not None and items.features is None:
            at_once = begin(Opening(place, about, before, items))
        if not embed and items.features is None:
            items = replace(items, features=np.zeros((len(items), 0), np.float32))
        with _made(place) if embed else nullcontext():
            project = _with_features(items, about, place, trust_model_code, progress, at_once)
    unsaid = options.besides(given).arguments()
    again = [f"options as last time: {unsaid}"] if unsaid else []
    warned = (str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    notes = dict.fromkeys((*again, *notes_on(items), *items.advice, *project.notes, *warned))  # each once
    project = replace(project, notes=tuple(notes))
    if keep:
        project.keep()
    return project


def located(
    source: str | os.PathLike[str], folder: str | os.PathLike[str] | None, given: Options
) -> tuple[Path, Remembered]:
    """Return the project's folder, and its source (a full path, or a dataset's name), name and options."""
    path = Path(source)
    if _is_project(source):
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
    if str(source) == IN_MEMORY:
        where = IN_MEMORY
    elif path.exists() or dataset_key(str(source)) is not None:
        where = str(path.absolute()) if path.exists() else dataset_name(str(source))
    else:
        own = Path(f"{path.absolute()}{ENDING}" if folder is None else folder)
        if remembered(own) is not None:
            raise _gone(str(source), own)
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


def _read(reader: Reader, where: str, options: Options, given: Options) -> Items:
    """Return the items of a source; an error about a remembered column names its option."""
    try:
        items = reader(where, options)
    except EverylabelError as error:
        unsaid = options.besides(given)
        for name in ("text_column", "image_column", "label_column", "id_column"):
            if f"column {getattr(unsaid, name)!r} is not in " in str(error):
                option = f"--{name.replace('_', '-')}"
                raise EverylabelError(
                    f"{error} ({option} is as last time: pass {option} with another)"
                ) from error
        raise
    if items.kind == "image" and Path(where).is_dir():
        for name in ("text_column", "image_column", "id_column"):
            value = getattr(given, name)
            if value not in (None, NO_IDS):
                raise EverylabelError(
                    f"--{name.replace('_', '-')} is {value!r} and source {where!r} is a folder of images, "
                    "which has no columns; leave it out"
                )
    return items


def _gone(source: str, folder: Path) -> EverylabelError:
    """Return the error for a source that is not where it was."""
    name = Path(source).name
    return EverylabelError(
        f"source {source!r} no longer exists; its project {str(folder)!r} has all labels: put {name!r} "
        f"back, or name its new path and --project {shlex.quote(str(folder))}"
    )


def _as_kept(kept: Items, source: str, options: Options) -> Items:
    return kept


def _is_project(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a project's folder, which remembers the real source."""
    path = Path(source)
    return path.name.endswith(ENDING) and path.is_dir()


def with_clean_classes(items: Items) -> Items:
    """Return items with class names normalised as on the page; names that become equal are merged."""
    lists = {text for text in items.classes if is_list(text)}  # lists of several classes are clean already
    check_class_count(class_names_in(items.classes))
    return items.renamed([name if name in lists else clean_name(name) for name in items.classes])


def _new_id(where: str) -> str:
    """Return a random id that distinguishes projects of the same name; "" for a dataset."""
    return secrets.token_hex(6) if Path(where).is_absolute() or where == IN_MEMORY else ""


def _with_features(
    items: Items,
    about: Remembered,
    folder: Path,
    trust_code: bool,
    progress: Progress | None,
    needed: Sequence[int] | None = None,
) -> Project:
    """Return items as a project; embed items without features and leave out unreadable images.

    needed : positions that must be embedded, besides a sample; None: all
    """
    known = {"folder": folder, "about": about, "trust_code": trust_code}
    if items.features is not None:
        return Project(**vars(items) | known | {"notes": outliers(items, items.features)})
    if needed is not None and not is_begun(folder):
        coming = growing(items, about.options, folder, trust_code)
        if coming is not None:
            here, rows = coming.begin(needed, progress)
            return Project(**vars(items) | known | {"features": rows, "here": here, "coming": coming})
    features, broken, place, notes = features_of(items, about.options, folder, trust_code, progress)
    if broken:
        notes = (*notes, left_out(items, broken))
        items = items.without(broken)
    own = {"features": features, "notes": notes, "embedded_in": place}
    return Project(**vars(items) | known | own)


def outliers(items: Items, features: np.ndarray) -> tuple[str, ...]:
    """Return a note about rows so large that the model cannot distinguish the others."""
    far = outlying_rows(features) if isinstance(features, np.ndarray) else ()
    if not len(far):
        return ()
    many = counted(len(far), "row of the features is", "rows of the features are")
    named = listed([items.known_as(int(i)) for i in far])
    return (f"{many} more than {FAR:,} times as large as most: {named}; expected numbers of one scale, since "
            "the model can hardly distinguish the other rows. Correct or remove what is wrong",)  # fmt: skip


def notes_on(items: Items) -> tuple[str, ...]:
    """Return the notes about a source that was read, including omitted empty texts."""
    if not items.skipped:
        return items.notes
    n = len(items.skipped)
    what = "texts is empty and was" if n == 1 else "texts are empty and were"
    empty = f"{n} of {n + len(items)} {what} left out: {listed(list(items.skipped))}"
    return (*items.notes, empty)


def left_out(items: Items, broken: Sequence[int]) -> str:
    """Return a sentence about the images that cannot be read, with Pillow's reason if known."""
    named = [items.known_as(i) + why_unreadable(items.items[i]) for i in broken[:SHOWN]]
    many = counted(len(broken), "image cannot be read and is", "images cannot be read and are")
    return f"{many} left out: {and_more(named, len(broken))}"


@contextmanager
def _made(folder: Path) -> Iterator[None]:
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
