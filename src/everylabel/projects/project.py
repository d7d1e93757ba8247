"""A project: the items of a source with their features, how they are shown, and a folder (`folder.py`)."""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.checks import FAR, outlying_rows
from everylabel.core.errors import EverylabelError, and_more, counted, listed
from everylabel.data.classes import check_class_count, class_names_in, clean_name, is_list, no_labels
from everylabel.data.items import Items, Options
from everylabel.data.media import why_unreadable
from everylabel.data.read import read
from everylabel.data.readers.table import NO_IDS
from everylabel.labelling.desk import Generation
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.arrivals import Growing, growing
from everylabel.projects.features import (
    MadeBy,
    Progress,
    features_of,
    is_begun,
    kept_items,
    made_by,
    record_of,
    replace_features,
)
from everylabel.projects.folder import (
    ENDING,
    LogUse,
    Remembered,
    check_show,
    check_source,
    is_project,
    located,
    made_folder,
    recognise,
    remember,
    remembered,
    source_gone,
)

SHOWN = 5  # maximum number of omitted images to name
Reader = Callable[[str, Options], Items]


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

    @property
    def made_by(self) -> MadeBy | None:
        """The encoder of the features; None if they came with the source."""
        if self.coming is not None:
            return self.coming.made_by
        if self.embedded_in is None:
            return None
        moved = record_of(self.embedded_in) is None  # to the project's folder, by `keep`
        return made_by(self.folder if moved else self.embedded_in)

    def embedder(self) -> Embedder | None:
        """Return an embedder for further items; None if the features came with the source."""
        if self.coming is not None:
            return self.coming.embedder
        made = self.made_by
        return None if made is None else Embedder(made.kind, made.model, self.trust_code, made.fit)

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


def check_true_labels(source: str, items: Items) -> None:
    """Refuse a source without labels, before it is embedded for nothing."""
    if items.truth is None and not items.labelled:
        raise EverylabelError(
            f"source {source!r} has no true labels; expected --label-column with their column"
        )


def open_project(
    source: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    trust_model_code: bool = False,
    progress: Progress | None = None,
    log: LogUse | None = None,
    check: Callable[[str, Items], Any] | None = None,
    keep: bool = True,
    reader: Reader = read,
    reading: bool = False,
    embed: bool = True,
    **options: Any,
) -> Project:
    """Return a source as a project with memory-mapped features; items without features are embedded.

    source : as in `everylabel label`. With the folder of an existing project and another `folder`, that
        project's source is read with its options and saved to `folder`. IN_MEMORY if only `reader` has the
        items.
    folder : where features and labels are stored; by default SOURCE.everylabel beside the source
    trust_model_code : whether the model may run its own code
    progress : called with the number of rows embedded so far and of all rows
    log : how the log is used; None: it is not, and all items are embedded
    check : called with the source and its items before anything is embedded or written; may refuse them
    keep : save the options for the next start. False leaves that to `Project.keep`.
    reader : reads the source, a full path or a dataset's name, as the options say
    reading : the items are shown to nobody else, so a remembered source may be anywhere on this machine; if
        it is gone, use the features in the folder, with empty items
    embed : False: only labels are needed, so items get no features
    options : fields of `data.items.Options`; those not given are taken from the last time, if there was one
    """
    given = _given(options)
    own = Path(f"{Path(source).absolute()}{ENDING}")
    if reading and folder is None and not Path(source).exists() and remembered(own) is not None:
        source = own  # only its folder is left
    place, about = located(source, folder, given)
    where, before, kept = about.source, remembered(place), None
    if before is not None and Path(where).is_absolute() and not Path(where).exists():
        kept = kept_items(place, about.options) if reading else None
        if kept is None:
            raise source_gone(where, place)
    home = place
    if is_project(source):
        home = Path(source).absolute()
        check_source(home, where, reading=reading)
    if about.options.show is not None and given.show is None:
        check_show(home, where, about.options.show, reading=reading)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        items = with_clean_classes(_read(reader, about, given) if kept is None else kept)
        unsaid = about.options.besides(given).arguments()
        about = about._replace(options=replace(about.options, **items.chosen))  # type: ignore[arg-type]
        if check is not None:
            check(where, items)
        needed = None
        if log is not None:
            items, needed = recognise(items, place, about, before, log)
        if not embed and items.features is None:
            items = replace(items, features=np.zeros((len(items), 0), np.float32))
        with made_folder(place) if embed else nullcontext():
            project = _with_features(items, about, place, trust_model_code, progress, needed)
    again = [f"options as last time: {unsaid}"] if unsaid else []
    warned = (str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    notes = dict.fromkeys((*again, *notes_on(items), *items.advice, *project.notes, *warned))  # each once
    project = replace(project, notes=tuple(notes))
    if keep:
        project.keep()
    return project


def _given(options: dict[str, Any]) -> Options:
    """Return the options of `open_project`, with a full path of the table to show."""
    show, classes = options.get("show"), options.get("classes")
    if show is not None and "://" not in str(show):
        options["show"] = str(Path(show).absolute())
    if classes is not None:
        options["classes"] = tuple(classes)
    return Options(**options)


def _read(reader: Reader, about: Remembered, given: Options) -> Items:
    """Return the items of a source; an error about a remembered column names its option."""
    where = about.source
    try:
        items = reader(where, about.options)
    except EverylabelError as error:
        unsaid = about.options.besides(given)
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


def with_clean_classes(items: Items) -> Items:
    """Return items with class names normalised as on the page; names that become equal are merged."""
    lists = {text for text in items.classes if is_list(text)}  # lists of several classes are clean already
    check_class_count(class_names_in(items.classes))
    return items.renamed([name if name in lists else clean_name(name) for name in items.classes])


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
