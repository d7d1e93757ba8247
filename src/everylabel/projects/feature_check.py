"""Whether features are those that the log was written on: a replay gives the same numbers on these only.

An event notes a hash of the features of the items that joined with it (`events.Extended`). Where others are
expected (another model, rows with other content), the items are named again, with the hash of those of now.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.digests import features_digest
from everylabel.data.id_list import IdList
from everylabel.labelling.events import Event, Extended
from everylabel.projects.feature_files import is_fit
from everylabel.projects.options import Remembered, remembered
from everylabel.projects.project import Project


def with_other_features(
    log: Sequence[Event], ids: Sequence[str], features: np.ndarray
) -> list[Sequence[str]]:
    """Return items whose features are not those that the log notes; where some are gone, nobody can tell.

    They come in the groups that joined together: which of a group it is cannot be told.
    """
    place = IdList(ids).position
    later, found = set[str](), list[Sequence[str]]()
    bodies = [event.body for event in log if isinstance(event.body, Extended)]
    for body in reversed(bodies):
        names = body.ids
        whole = names == ids  # as most often: nothing has to be looked for
        known = later.isdisjoint(names) and (whole or all(name in place for name in names))
        places = None if whole else [place[name] for name in names] if known else []
        if known and names and features_digest(features, places) != body.digest:
            found.insert(0, names)
        if body is not bodies[0]:
            later.update(names)
    return found


def named_again(joined: Iterable[str], ids: Sequence[str], features: np.ndarray) -> Extended:
    """Return the event that notes the features that all who have joined have now."""
    there, place = set(joined), IdList(ids).position
    names = [name for name in ids if name in there]
    return Extended(names, features_digest(features, [place[name] for name in names]))


def are_made_anew(project: Project) -> bool:
    """Return whether features must be others than last time: by another model or column, or a fit removed."""
    before, now, place = remembered(project.folder), project.about, project.embedded_in
    other = before is not None and now is not None and _made_by(before) != _made_by(now)
    return other or (place is not None and is_fit(place) and not is_fit(project.folder))


def _made_by(about: Remembered) -> tuple[str | None, ...]:
    return about.options.model, about.options.text_column, about.options.image_column


def refuse(other: Sequence[str]) -> EverylabelError:
    """Return the error of features that nobody expects."""
    return EverylabelError(
        f"the features of {counted(len(other), 'item')} ({listed(list(other))}) are not those that were "
        "labelled on; expected the same numbers: was features.npy changed, or were the items embedded by "
        "another version of the model or its library? Put the old file back, or go on with these by "
        "--accept-changes: labels stay, and the model learns them on the new features"
    )
