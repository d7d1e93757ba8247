"""The results of a session, while it runs and after its end: labels, tables and predictions.

Labels are added to the labelled table as a column; the result is the same kind of table. Predictions are for
the session's own items, or for new ones of the same kind.
"""

import os
from collections.abc import Callable, Sequence, Sized
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import is_missing, label_of
from everylabel.data.classes import clean_name, list_text, names_in
from everylabel.data.items import Items, Options
from everylabel.data.read import read
from everylabel.data.readers.memory import frame_of, read_memory
from everylabel.data.readers.table import NO_IDS
from everylabel.formats.records import label_records, named
from everylabel.formats.tables import Records, item_columns
from everylabel.labelling.model.training import FeatureTable, prepare
from everylabel.labelling.progress import accuracy
from everylabel.labelling.quality.accuracy import Interval
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import NONE
from everylabel.models.classifier import LaplaceClassifier
from everylabel.projects.predictions import classifier_of
from everylabel.projects.project import Project
from everylabel.web.server import Opened

Column = Sequence[str | None]


class SessionState(NamedTuple):
    """All items, the items in the pool (`here`), both in the order of the source, and their labels.

    version : the number of the last event
    accuracy : of the model on unlabelled items, as estimated last
    """

    project: Project
    here: Project
    label_set: LabelSet
    version: int
    accuracy: Interval | None

    def records(self) -> Records:
        """Return a row for each labelled item, with the columns of its source."""
        known = self.label_set
        return label_records(item_columns(self.here), known.labels, known.classes, known.by_model)

    @property
    def n_rows(self) -> int:
        """The number of rows of the source, with rows that were skipped."""
        rows = source_rows(self.project).values()
        return max([len(rows) + len(self.project.skipped), *(row + 1 for row in rows)])

    def column(self) -> list[str | None]:
        """Return the label of each row of the source, or None."""
        values: list[str | None] = [None] * self.n_rows
        for item, label in (self.label_set.by_model | self.label_set.labels).items():
            row = self.here.row(item)
            if row is not None:
                values[row] = named(label, self.label_set.classes)
        return values

    def model(self, rows: FeatureTable) -> LaplaceClassifier:
        """Return a classifier of unscaled features, trained on all labels and class names."""
        if len(self.label_set.classes) < 2 or (
            len(set(self.label_set.labels.values())) < 2 and not self.label_set.names
        ):
            raise EverylabelError("there are no labels of two classes yet; expected some: label on the page")
        ready = prepare(rows.of(self.label_set.ids))
        return classifier_of(ready, self.label_set)


def source_rows(items: Items) -> dict[int, int]:
    """Return the row in the source of each item that has one, by the item's position."""
    rows = map(items.row, range(len(items.ids)))
    return {i: row for i, row in enumerate(rows) if row is not None}


def state_of(opened: Opened) -> SessionState:
    """Return the state of an open project."""
    desk, project = opened.service.desk, opened.shown.project
    found = desk.read(lambda: (desk.label_set(), desk.state.seq, accuracy(desk.state)))
    label_set, version, figures = found.result()
    there = set(label_set.ids)
    here = project.without([i for i, name in enumerate(project.ids) if name not in there])
    return SessionState(project, here, label_set.seen_from(here.ids), version, _interval(figures))


def n_labels(opened: Opened) -> int:
    """Return the number of labelled items of an open project."""
    desk = opened.service.desk
    return int(desk.read(lambda: len(desk.state.labels) - desk.state.tally.by_class[NONE]).result())


def _interval(figures: dict[str, Any]) -> Interval | None:
    found: Sequence[Any] = [figures[name] for name in Interval._fields]
    return None if found[0] is None else Interval(*found)


def with_column(
    table: Any, name: str, values: Column, replace: bool = False, classes: Sequence[str] | None = None
) -> Any:
    """Return a table in memory with a column of texts or None.

    replace : replace an existing column of this name; a ClassLabel, or pandas' Categorical, stays one, with
        new classes at the end
    classes : of a multi-label project; a column of a dataset then holds lists of class numbers
    """
    frame = frame_of(table)
    if frame is None:
        raise EverylabelError(
            f"table is a {type(table).__name__}; expected one of pandas, polars, Arrow or datasets, or dicts"
        )
    if name in frame.names and not replace:
        raise EverylabelError(
            f"the table has a column {name!r} already (its columns are {listed(frame.names, 12)}); expected "
            "column= with another name"
        )
    if frame.rows != len(values):
        raise EverylabelError(
            f"the table has {frame.rows:,} rows, and the source {len(values):,}; expected the same rows"
        )
    values = list(values)
    library: Any = import_module(type(table).__module__.partition(".")[0])  # imported already
    match frame.kind:
        case "pandas":
            own = table[name].dtype if name in frame.names and classes is None else None
            kept = isinstance(own, library.CategoricalDtype)
            return table.assign(**{name: _categorical(library, own, values) if kept else values})
        case "polars":
            return table.with_columns(library.Series(name, values, dtype=library.String))
        case "arrow":
            column = library.array(values, library.string())
            if name not in frame.names:
                return table.append_column(name, column)
            return table.set_column(frame.names.index(name), name, column)
        case "dataset":
            return _dataset_with(table, library, name, values, classes)
        case "dicts":
            return [{**row, name: value} for row, value in zip(table, values, strict=True)]
        case _:  # a dict of columns
            return {**table, name: values}


def _categorical(pandas: Any, own: Any, values: Column) -> Any:
    """Return a column of texts or None as one of this categorical type, whose categories may be numbers."""
    known = {clean_name(label_of(category)): category for category in own.categories}
    given = [None if value is None else known.get(value, value) for value in values]
    categories = dict.fromkeys([*own.categories, *(value for value in given if value is not None)])
    return pandas.Categorical(given, categories=list(categories), ordered=own.ordered)


def _dataset_with(table: Any, datasets: Any, name: str, values: Column, classes: Sequence[str] | None) -> Any:
    """Return a dataset with a column of texts, of numbers of its ClassLabel, or of lists of such numbers."""
    own = table.features.get(name)
    kept = table if own is None else table.remove_columns([name])
    if classes is not None:
        number = {each: c for c, each in enumerate(classes)}
        lists = [
            None if value is None else [number[each] for each in names_in(list_text(value)).present]
            for value in values
        ]
        feature = datasets.Sequence(datasets.ClassLabel(names=list(classes)))
        return kept.add_column(name, lists, feature=feature)
    if not isinstance(own, datasets.ClassLabel):
        return kept.add_column(name, values, feature=datasets.Value("string"))
    names = list(dict.fromkeys([*own.names, *(value for value in values if value is not None)]))
    numbers = [None if value is None else names.index(value) for value in values]
    return kept.add_column(name, numbers, feature=datasets.ClassLabel(names=names))


Encode = Callable[[Any], np.ndarray]  # from items to features
Encoder = Callable[[], Encode | None]


def features_of(items: Any, state: SessionState, rows: FeatureTable, encoder: Encoder) -> np.ndarray:
    """Return features (n, d) of items, one row per item; NaN for unreadable items.

    items : None for the session's own, in the order of the source
    encoder : returns the function that embeds items; None if the source is features
    """
    if items is None:
        return _own(state, rows, encoder)
    project, width = state.project, rows.features.shape[1]
    blank = _blank(items, project)
    if blank is not None:
        return np.full((blank, width), np.nan)
    new = _read(items, project)
    if new.features is not None:
        found = np.asarray(new.features, np.float64)
    else:
        encode = encoder()
        if encode is None:
            raise EverylabelError(
                f"items are of kind {new.kind!r}, and the model was made from features that came with the "
                f"source; expected features (n, {width}), made the same way"
            )
        if new.kind != project.kind:
            raise EverylabelError(f"items are of kind {new.kind!r}; expected {project.kind!r}")
        found = encode(new.items).astype(np.float64)
    if found.shape[1] not in (0, width):
        raise EverylabelError(
            f"items have {found.shape[1]} features; expected {width}, as the labelled items have"
        )
    whole = np.full((len(new.ids) + len(new.skipped), width), np.nan)
    if found.shape[1]:
        whole[list(source_rows(new).values())] = found
    return whole


def _own(state: SessionState, rows: FeatureTable, encoder: Encoder) -> np.ndarray:
    """Return features of the session's own items; items outside the pool are embedded."""
    project = state.project
    whole = np.full((state.n_rows, rows.features.shape[1]), np.nan)
    missing = source_rows(project)
    known = {i: missing.pop(i) for i in list(missing) if project.ids[i] in rows}
    whole[list(known.values())] = rows.of([project.ids[i] for i in known])
    encode = encoder() if missing else None
    if encode is not None:
        found = encode(project.some(list(missing)))
        if found.shape[1]:
            whole[list(missing.values())] = found
    return whole


def _blank(items: Any, project: Project) -> int | None:
    """Return the number of new items if all are empty; else None."""
    if (
        isinstance(items, str | os.PathLike)
        or not isinstance(items, Sized)
        or getattr(items, "shape", None) == ()
    ):
        return None
    frame = frame_of(items)
    if frame is None:
        return len(items) if _all_empty(items) else None
    own = project.options
    named = own.text_column or own.image_column
    looked_at = [named] if named in frame.names else frame.names
    return frame.rows if all(_all_empty(frame.column(name)) for name in looked_at if name) else None


def _all_empty(values: Any) -> bool:
    return all(is_missing(value) or (isinstance(value, str) and not value.strip()) for value in values)


def _read(items: Any, project: Project) -> Items:
    """Return new items, read with the options of the project."""
    own = project.options
    usual = Options(own.text_column, own.image_column, id_column=NO_IDS)
    if isinstance(items, str | os.PathLike):
        path = Path(items)
        if not path.exists():
            raise EverylabelError(
                f"items is {str(items)!r:.80}, which is not a file; expected a list: [{items!r:.40}]"
            )
        return read(str(path.absolute()), usual)
    frame = frame_of(items)
    if frame is None:
        return read_memory(items, Options())
    named = usual.text_column or usual.image_column
    return read_memory(items, usual if named in frame.names else Options(id_column=NO_IDS))
