"""Starts of a project whose items are only ids and features: no source, no files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.data.classes import UNLABELLED, ClassList
from everylabel.data.display import Columns
from everylabel.data.items import Items, Options
from everylabel.labelling.model.training import ClassNames
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import State
from everylabel.log import events
from everylabel.log.events import Event
from everylabel.log.store import Store
from everylabel.projects.folder import Remembered
from everylabel.projects.log import Label, bring_up_to_date
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project


def start(
    store: Store,
    ids: Sequence[str],
    *,
    classes: Sequence[str] = (),
    source: Sequence[Label] = (),
    columns: Columns | None = None,
    features: np.ndarray | None = None,
    separator: str | None = None,
    descriptions: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    names: ClassNames | None = None,
    note: Callable[[str], Any] = lambda _: None,
    **options: Any,
) -> State:
    """Bring a log up to date with items and options, and return the state.

    source : the labels that come with the items
    features : (n, d); by default one zero for each item
    settings : of the log, by their names there
    options : further fields of `LabelOptions`
    """
    place, all_classes = {name: i for i, name in enumerate(ids)}, list(classes)
    all_classes += [one.label for one in source if one.label not in all_classes]
    all_classes = list(dict.fromkeys(all_classes))
    labels = np.full(len(ids), UNLABELLED)
    for one in source:
        labels[place[one.id]] = all_classes.index(one.label)
    made = Items(
        ids,
        "features",
        ids,
        labels,
        tuple(all_classes),
        features=np.zeros((len(ids), 1), np.float32) if features is None else features,
        columns=columns or {},
    )
    about = Remembered("", "test", Options(label_column="kind", label_separator=separator))
    project = Project(**vars(made) | {"folder": Path("nowhere"), "about": about})
    given = {"names_prior" if name == "names" else name: value for name, value in (settings or {}).items()}
    lease_seconds = given.pop("lease_seconds", None)
    given["classes"] = ClassList(None, dict(descriptions or {}), {})
    state = bring_up_to_date(store, project, LabelOptions(**given | options), note, names).state
    if lease_seconds is not None:  # -1 lets leases end at once; a start refuses it
        event = Event(state.seq + 1, 0.0, "", events.Settings(lease_seconds=lease_seconds))
        apply(state, event)
        store.append([event])
    return state
