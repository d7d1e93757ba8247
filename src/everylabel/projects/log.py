"""A project's log: its state, and the events that a start writes to it (`open_log`).

A start writes the first event, labels from the source or a file, and settings, each once. An imported label
is not written again if it equals the last one imported from there for this person and item, even if people
answered since. A class is recognised by any name it ever had.

Each `events.Extended` records a hash of the features of the items that joined with it. If the features are
expected to differ (another model, rows with other content), the items are logged again with the new hash.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.cells import label_of
from everylabel.data.classes import (
    ClassList,
    check_class_count,
    class_names_in,
    clean_name,
    list_text,
    meant,
    names_in,
)
from everylabel.data.digests import features_digest
from everylabel.data.items import IdList, Items, Numbered, id_list, stored_ids
from everylabel.data.source_diff import Change, RecordedRows, compare
from everylabel.labelling.joining import class_number, imported_label, write_suggestions
from everylabel.labelling.model.training import ClassNames, Encoder
from everylabel.labelling.state.reducer import apply, apply_all
from everylabel.labelling.state.state import State, new_state
from everylabel.labelling.state.types import GIVEN, Suggestion, classes_of
from everylabel.labelling.views import offered
from everylabel.log import events
from everylabel.log.database import shown_place
from everylabel.log.events import ABOUT_ITEMS, Event
from everylabel.log.store import Store, StoreError
from everylabel.models.embedding.choose import knows_words
from everylabel.projects.features import EMBEDDER, MadeBy
from everylabel.projects.folder import log_at, remembered
from everylabel.projects.project import Project
from everylabel.selection.pool.sparse import all_but
from everylabel.selection.strategies import DEFAULT

if TYPE_CHECKING:
    from everylabel.projects.options import LabelOptions

IMPORTER = "import"  # the person of labels that came with the source
SOURCE, FILE = "source", "file"  # origins of imported labels
NAMES = "class-names.npz"  # in the project's folder
LONGEST_PERSON = 64  # characters of a name
SAYS_TEST = ("test", "true", "yes", "1")  # cells of a column that mark test items, in any case


class Label(NamedTuple):
    """An existing label of one item; person None if its author is unknown."""

    id: str
    label: str
    person: str | None = None


class Proposed(NamedTuple):
    """The class that a source that is not fully trusted suggests for one item."""

    id: str
    label: str
    source: str
    score: float | None = None
    probabilities: Mapping[str, float] | None = None  # probability of each class by the source


class OpenLog(NamedTuple):
    """A log to write to, the project with its items' ids in the log, and the state after all events."""

    store: Store
    project: Project
    state: State


def project_log(project: Project, store: str | None, *, write: bool = False) -> "closing[Store]":
    """Return a project's log, opened: in the given store, or a file in its folder."""
    return closing(log_at(project.folder, project.about, project, store, write=write))


def location_shown(project: Project, store: str | None) -> str:
    """Describe where a project is stored, without passwords."""
    return str(project.folder) if store is None else f"{shown_place(store)} and {project.folder}"


class _Writer:
    """Collects events to append and applies each to the state; `note` gets sentences for the user."""

    def __init__(self, state: State, note: Callable[[str], Any] = print) -> None:
        self.state, self.note, self.fresh = state, note, list[Event]()
        self.imported: dict[tuple[str, str, str], Any] = {}  # item, person, origin -> class or classes
        for entry in state.history.values():
            body = entry.body
            if (
                isinstance(body, events.Label | events.MultiLabel)
                and body.imported
                and entry.seq > state.withdrawn.get(entry.item, 0)
            ):
                self._note_imported(entry.person, body)

    def emit(self, person: str, body: events.Body) -> None:
        event = Event(self.state.seq + 1, time.time(), person, body)
        apply(self.state, event)
        self.fresh.append(event)
        if isinstance(body, events.Label | events.MultiLabel) and body.imported:
            self._note_imported(person, body)
        if isinstance(body, events.ContentChanged) and not body.confirmed:  # its labels are imported again
            self.imported = {key: value for key, value in self.imported.items() if key[0] != body.item}

    def _note_imported(self, person: str, body: events.Label | events.MultiLabel) -> None:
        for origin in (SOURCE, FILE) if body.imported is True else (str(body.imported),):
            self.imported[body.item, person, origin] = _class_or_classes(body)


@contextmanager
def open_log(
    project: Project,
    options: "LabelOptions",
    note: Callable[[str], Any],
    names: ClassNames | None = None,
) -> Iterator[OpenLog]:
    """Yield a project's log, up to date with its source and the options.

    note : called with sentences for the user
    names : vectors of class names
    """
    with project_log(project, options.store, write=True) as log:
        if log.note:
            note(log.note)
        yield bring_up_to_date(log, project, options, note, names)


def read_events(store: Store, source: Sequence[str]) -> State:
    """Return the state after all events of a log."""
    stored = store.read()
    return apply_all(new_state(stored, source), stored, store.shown)


def bring_up_to_date(
    store: Store,
    project: Project,
    options: "LabelOptions",
    note: Callable[[str], Any],
    names: ClassNames | None = None,
) -> OpenLog:
    """Write to a log what has changed in the source, and what the options ask for; see `open_log`.

    The items of the project join the pool; features that differ from before are refused unless that is
    expected. Labels of items with changed content are withdrawn, or kept by `confirm_labels`. With `review`,
    now or earlier, the labels of the source are suggestions.
    """
    known = store.items() or RecordedRows((), ())
    change = compare(known, project)
    unlabelled = not (change.only_appended or store.holds(ABOUT_ITEMS))
    text = change.check(project.source, options.accepts, unlabelled=unlabelled)
    if text is not None:
        note(text)
    project = replace(project, ids=change.keys)
    ids, separator = id_list(project.ids_here), project.options.label_separator
    state = read_events(store, ids)
    writer = _Writer(state, note)
    classes = project.classes if separator is None else class_names_in(project.classes)
    converted = _begin(writer, project.id, classes, options.settings)
    if not isinstance(ids, Numbered):
        joined = [event.body for event in store.glance("extended")]
        accepted = options.accepts or unlabelled or _features_may_differ(project)
        _join(writer, joined, ids, project.features, accepted, change.changed_keys)
    _change_settings(writer, options.settings)
    _define_classes(writer, classes, options.classes)
    _withdraw(writer, () if options.confirm_labels else change.changed_keys, options.confirm_labels)
    imported = _import_all(writer, project, options)
    if state.multi_label and separator is not None:
        _remove_joined(writer, converted, separator)
    _hold_out(writer, held_out_items(project, options.test))
    if names is not None:
        try:
            names.learn(names.missing(state))
        except EverylabelError as error:
            note(f"the model does not learn from class names: {error}")
    store.append(writer.fresh)
    renewed = known.renewed(project)
    if renewed != known:  # after the events about changed items are written
        store.set_items(renewed)
    withdrawn = [state.ids[item] for item in state.withdrawn_items()]
    if withdrawn:
        place = id_list(project.ids).position
        named = listed([project.known_as(place[name]) for name in withdrawn])
        note(
            f"{counted(len(withdrawn), 'item has', 'items have')} other content than when labelled: {named}; "
            "their labels do not count until somebody answers again, or --confirm-labels keeps them"
        )
    if imported:
        rest = "" if project.here is None else "; labels of items that are still being embedded follow"
        note(f"{counted(imported, 'label')} imported{rest}")
    return OpenLog(store, project, state)


def _features_may_differ(project: Project) -> bool:
    """Return whether features are expected to differ: another model or column, or the fit was removed."""
    before, now, place = remembered(project.folder), project.options, project.embedded_in
    named = ("model", "text_column", "image_column")
    if before is not None and any(getattr(before.options, name) != getattr(now, name) for name in named):
        return True
    return place is not None and (place / EMBEDDER).exists() and not (project.folder / EMBEDDER).exists()


def _begin(
    writer: _Writer, project_id: str, classes: Sequence[str], settings: dict[str, Any]
) -> Sequence[int]:
    """Write the first event, or convert between single-label and multi-label; return converted classes."""
    state = writer.state
    if state.seq == 0:
        check_class_count(classes)
        clean = list(dict.fromkeys(map(clean_name, classes)))
        writer.emit("", events.Project(clean, settings, seed=0, id=project_id or None))
        return ()
    if settings.get("multi_label", state.multi_label) == state.multi_label:
        return ()
    before = state.book.order
    _convert(writer, settings["multi_label"])
    return before


def _change_settings(writer: _Writer, settings: dict[str, Any]) -> None:
    """Write the settings that differ, and replace a strategy that cannot be used with several classes."""
    state = writer.state
    others = {name: value for name, value in settings.items() if state.settings[name] != value}
    if others:
        writer.emit("", events.Settings(**others))
    unfit = state.settings["strategy"]
    if state.multi_label and unfit not in offered(state):
        reason = f"strategy {unfit!r} is for one class per item"
        if "strategy" in settings:
            raise EverylabelError(f"{reason}; pass --strategy with one of {', '.join(offered(state))}")
        writer.emit("", events.Settings(strategy=DEFAULT))
        writer.note(f"{reason}: {DEFAULT!r} chooses from now on")


def _import_all(writer: _Writer, project: Project, options: "LabelOptions") -> int:
    """Write the labels and suggestions that differ from the last import; return the number of labels."""
    state, review, column = writer.state, options.review, project.options.label_column
    source = [Label(project.ids[i], project.classes[int(project.labels[i])]) for i in project.labelled]
    proposed, columns = list(options.proposed), options.suggestion_columns
    if state.multi_label and (review or proposed):
        raise EverylabelError(
            f"{'--review is' if review else 'suggestions are'} for projects with one class per item; leave "
            "it out with --multi-label, or import the labels of a source that you trust"
        )
    if review or GIVEN in state.suggestions:
        _check_review(writer, source)
        proposed += [Proposed(one.id, one.label, GIVEN) for one in source]
        columns, source = [*columns, *([column] if column else [])], []
    imported = _import(writer, source, SOURCE) + _import(writer, options.labels, FILE)
    suggested = _suggest(writer, proposed, columns)
    if suggested:
        what = ("label to review", "labels to review") if review else ("suggestion",)
        writer.note(
            f"{counted(suggested, *what)} imported; the model trusts them as far as answers confirm them"
        )
    return imported


def _check_review(writer: _Writer, source: Sequence[Label]) -> None:
    """Refuse a first review that comes too late or has no labels."""
    if GIVEN in writer.state.suggestions:
        return
    if not source:
        raise EverylabelError(
            "--review is given, and the source has no labels; expected --label-column with their column"
        )
    before = sum(origin == SOURCE for _, _, origin in writer.imported)
    if before:
        raise EverylabelError(
            f"--review is given, and {counted(before, 'label')} of the source were imported as answers "
            "of people before; expected a new project: --project ANOTHER.everylabel"
        )


def _hold_out(writer: _Writer, wanted: int | Sequence[str]) -> None:
    """Hold out items as a test set."""
    held_out = items_to_hold_out(writer.state, wanted)
    for name in held_out:
        writer.emit("", events.HeldOut(name))
    if held_out:
        many = counted(len(held_out), "item is", "items are")
        writer.note(f"{many} held out as a test set: the model never learns from them")


def _convert(writer: _Writer, multi_label: bool) -> None:
    """Convert between single-label and multi-label; back only while no item was given several classes."""
    state = writer.state
    if multi_label and state.suggestions:
        raise EverylabelError(
            "--multi-label is given, and the project learns from suggestions, which are for one class per "
            "item; export the labels and begin another project with them"
        )
    several = any(isinstance(entry.body, events.MultiLabel) for entry in state.history.values())
    if not multi_label and several:
        raise EverylabelError(
            "--single-label is given, and items of this project have several classes or none; export the "
            "labels and begin another project with them"
        )
    writer.emit("", events.Settings(multi_label=multi_label))
    if multi_label and state.labels:
        many = counted(len(state.labels), "label")
        writer.note(f"items may have several classes from now on; {many} so far say one class and no other")


def _remove_joined(writer: _Writer, converted: Sequence[int], separator: str) -> None:
    """Remove the classes of a converted project that only name several others and that no answer says."""
    state, removed = writer.state, list[str]()
    answered = {c for answers in state.answers.values() for one in answers for c in classes_of(one.value)}
    for number in converted:
        name = state.classes[number]
        parts = names_in(list_text(name, separator)).present
        if number not in answered and len(parts) > 1 and all(part in state.names for part in parts):
            writer.emit("", events.Remove(number))
            removed.append(name)
    if removed:
        many = counted(len(removed), "class is", "classes are")
        writer.note(
            f"{many} removed, since they name several others: {listed(removed)}; the page can restore them"
        )


def _define_classes(writer: _Writer, classes: Sequence[str], details: ClassList) -> None:
    """Add new classes, and set descriptions and keys that differ from the last import."""
    state = writer.state
    new = [name for name in map(clean_name, classes) if name not in state.names]
    if new:
        stay = f"; {counted(len(state.classes), 'class stays', 'classes stay')}" if state.classes else ""
        many = counted(len(new), "class is", "classes are")
        writer.note(f"{many} added: {listed(new)}{stay}{meant(new, state.names)}")
    for name in new:
        class_number(writer, name)
    for name, text in details.descriptions.items():
        number = class_number(writer, name)
        if state.imported_descriptions.get(number) != text:  # a description that people edited since stays
            writer.emit("", events.ClassChanged(number, description=text, imported=True))
    for name, key in details.keys.items():
        number = class_number(writer, name)
        if state.book.keys.get(number) != key:
            writer.emit("", events.ClassChanged(number, key=key))


def _withdraw(writer: _Writer, changed: Sequence[str], confirm: bool) -> None:
    """Withdraw the answers to changed items, or confirm all withdrawn answers."""
    state = writer.state
    for key in changed:
        if state.position.get(key) in state.answers:
            writer.emit("", events.ContentChanged(key))
    for item in state.withdrawn_items() if confirm else ():
        writer.emit("", events.ContentChanged(state.ids[item], confirmed=True))


def _join(
    writer: _Writer,
    joined: Sequence[events.Body],
    ids: IdList,
    features: np.ndarray,
    accepted: bool,
    changed: Sequence[str],
) -> None:
    """Log the items that joined the pool since the last start, and those whose features changed.

    joined : the events of items that joined before
    accepted : other features are not refused
    changed : ids of items with other content
    """
    state = writer.state
    other = _with_other_features(joined, ids, features)
    if other and not accepted:
        names = [name for names in other for name in names]
        raise EverylabelError(
            f"the features of {counted(len(names), 'item')} ({listed(names)}) are not those that were "
            "labelled on; expected the same numbers: was features.npy changed, or were the items embedded by "
            "another version of the model or its library? Put the old file back, remove features.npy of the "
            "project to embed the items again, or accept these with --accept-changes: labels stay, and the "
            "model learns them on the new features"
        )
    if other:  # record the current features of all items that joined
        members = set(state.ids)
        places = [i for i, name in enumerate(ids) if name in members]
        again = stored_ids([ids[i] for i in places])
        writer.emit("", events.Extended(again, features_digest(features, places)))
    unexplained = sum(len(names) for names in other if set(changed).isdisjoint(names))
    if unexplained and state.n_answers:
        writer.note(f"the features of {counted(unexplained, 'item')} have changed; labels stay")
    before = state.position if joined else {}  # logs of version 0.1 do not name the items that joined
    fresh = [] if joined and state.ids == ids else [i for i, name in enumerate(ids) if name not in before]
    if len(fresh) == len(ids) > 0:
        writer.emit("", events.Extended(stored_ids(ids), features_digest(features)))
    elif fresh:
        some = stored_ids([ids[i] for i in fresh])
        writer.emit("", events.Extended(some, features_digest(features[fresh])))


def _with_other_features(
    joined: Sequence[events.Body], ids: IdList, features: np.ndarray
) -> list[Sequence[str]]:
    """Return items whose features differ from those the log recorded, as far as that can be determined.

    They are grouped as they joined: one hash covers a group, so a single item cannot be determined. Groups
    with items that are gone cannot be compared.
    """
    place = ids.position
    later, found = set[str](), list[Sequence[str]]()
    bodies = [body for body in joined if isinstance(body, events.Extended)]
    for body in reversed(bodies):
        names = body.names
        whole = names == ids  # the usual case, without lookups
        known = later.isdisjoint(names) and (whole or all(name in place for name in names))
        places = None if whole else [place[name] for name in names] if known else []
        if known and names and features_digest(features, places) != body.digest:
            found.insert(0, names)
        if body is not bodies[0]:
            later.update(names)
    return found


def _import(writer: _Writer, labels: Iterable[Label], origin: str) -> int:
    """Write labels that differ from the last import from this origin; return their number."""
    ours = (label for label in labels if label.id in writer.state.position)
    last = {(label.id, _person(label.person)): label.label for label in ours}  # the last one counts
    for name in class_names_in(last.values()) if writer.state.multi_label else last.values():
        class_number(writer, name)  # add all classes before the first label denies some
    count = 0
    for (item, person), name in last.items():
        body = imported_label(writer.state, item, name, origin)
        if writer.imported.get((item, person, origin)) != _class_or_classes(body):
            writer.emit(person, body)
            count += 1
    return count


def _class_or_classes(body: events.Label | events.MultiLabel) -> Any:
    """Return the class or the present classes of an imported label, without its absent ones."""
    return body.class_ if isinstance(body, events.Label) else tuple(body.present)


def _suggest(writer: _Writer, proposed: Iterable[Proposed], columns: Sequence[str]) -> int:
    """Write suggestions that differ from before, one event per source; return their number."""
    by_source: dict[str, dict[str, Suggestion]] = {}
    for one in proposed:
        suggested = by_source.setdefault(_person(one.source), {})
        given = {class_number(writer, name): p for name, p in (one.probabilities or {}).items()}
        number, probs = class_number(writer, one.label), {c: p for c, p in given.items() if p}
        suggested[one.id] = Suggestion(number, one.score, probs)  # the last one counts
    return sum(
        write_suggestions(writer, IMPORTER, source, suggested, columns)
        for source, suggested in by_source.items()
    )


def _person(name: str | None) -> str:
    """Return a person's name with unprintable characters and extra spaces removed, as on the page."""
    shown = "".join(each if each.isprintable() else " " for each in name or "")
    return " ".join(shown.split())[:LONGEST_PERSON].strip() or IMPORTER


def held_out_items(items: Items, test: str | None) -> int | list[str]:
    """Return the number of test items to draw, or the ids that a column with this name marks as test."""
    if test is None:
        return 0
    if test.strip().isdigit():
        return int(test)
    if test not in items.columns:
        expected = listed([repr(name) for name in items.columns], 30) or "none: the source has no columns"
        raise EverylabelError(
            f"--test is {test!r}; expected a number of items, or one of the columns: {expected}"
        )
    found = [name for i, name in enumerate(items.ids) if is_for_test(items, i, test)]
    if not found:
        raise EverylabelError(
            f"--test is {test!r}, and no row there says {', '.join(SAYS_TEST)}; expected at least one"
        )
    return found


def is_for_test(items: Items, place: int, column: str) -> bool:
    """Return whether a column marks an item as a test item."""
    cells = items.columns.get(column, ())
    return place < len(cells) and label_of(cells[place]).strip().casefold() in SAYS_TEST


def items_to_hold_out(state: State, wanted: int | Sequence[str]) -> list[str]:
    """Return the ids to hold out now: those given, or unanswered ones drawn up to the wanted number."""
    if not isinstance(wanted, int):
        return [name for name in wanted if state.position.get(name, -1) not in {-1, *state.test}]
    missing = wanted - len(state.test)
    if missing <= 0:
        return []
    free = all_but(len(state.ids), sorted({*state.answers, *state.test}))
    if missing >= len(free):
        raise EverylabelError(
            f"--test is {wanted}, and {len(free):,} items have no answer; expected fewer, so that some are "
            "left to learn from, or a column that names test items"
        )
    rng = np.random.default_rng([state.seed, state.seq])
    return [state.ids[i] for i in free[rng.choice(len(free), missing, replace=False)]]


def read_state(project: Project, store: str | None) -> tuple[State, Sequence[str]]:
    """Return the state of a project without answers to changed rows, and the ids of all its rows."""
    with project_log(project, store) as log:
        known = log.items()
        change = Change(keys=project.ids) if known is None else compare(known, project)
        state = read_events(log, change.keys)
    _withdraw(_Writer(state), change.changed_keys, confirm=False)  # in memory only
    return state, change.keys


def class_names_of(project: Project) -> ClassNames:
    """Return the vectors of a project's class names, with a cache in its folder."""
    made, coming, width = project.made_by, project.coming, project.features.shape[1]
    model = project.options.model if made is None else made.model
    if project.kind == "image" or model is None or not knows_words(model):
        return ClassNames(None, project.folder / NAMES)

    alone = partial(MadeBy("text", model).embed, trust_code=project.trust_code)
    rows = alone if coming is None else coming.embedder.rows  # the model is loaded once

    def encode(phrases: Sequence[str]) -> np.ndarray:
        vectors = rows(list(phrases))
        if vectors.shape[1] != width:
            raise EverylabelError(
                f"model {model!r} has {vectors.shape[1]} features of a name, and the source {width}; "
                "expected --model with the one that embedded its texts, or --names-prior off"
            )
        return vectors

    return ClassNames(Encoder(model, encode), project.folder / NAMES)


def class_names(project: Project, store: str | None) -> set[str]:
    """Return every name that a class of the project has or ever had."""
    try:
        with project_log(project, store) as log:
            return {*class_names_in(project.classes), *read_events(log, project.ids).names}
    except StoreError:  # there is no log yet
        return set(class_names_in(project.classes))
