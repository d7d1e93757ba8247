"""A project's log: its place, its state, and the events that a start writes to it.

`check_labelled` and `joined_before` look into the log before a project is opened: which of its rows is which
item. `open_log` then writes what has changed. Each `events.Extended` records a hash of the features of the
items that joined with it. If the features are expected to differ (another model, rows with other content),
the items are logged again with the new hash.

A start writes the first event, labels from the source or a file, and settings, each once. An imported label
is not written again if it equals the last one imported from there for this person and item, even if people
answered since. A class is recognised by any name it ever had.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.cells import label_of
from everylabel.data.classes import (
    check_class_count,
    class_names_in,
    clean_name,
    list_text,
    meant,
    names_in,
)
from everylabel.data.digests import features_digest
from everylabel.data.items import IdList, Items, Numbered, Sent, id_list, stored_ids, with_sent
from everylabel.data.source_diff import Change, RecordedRows, compare
from everylabel.labelling.joining import class_number, imported_label, write_suggestions
from everylabel.labelling.model.training import ClassNames
from everylabel.labelling.state.reducer import apply, apply_all
from everylabel.labelling.state.state import State, new_state
from everylabel.labelling.state.types import GIVEN, Suggestion, classes_of
from everylabel.labelling.views import offered
from everylabel.log import events
from everylabel.log.database import shown_place
from everylabel.log.events import ABOUT_ITEMS, Event
from everylabel.log.store import Damaged, NoLog, Store, StoreError
from everylabel.projects.features import EMBEDDER, word_encoder
from everylabel.projects.project import Begin, Check, Opening, Project, remembered
from everylabel.selection.pool.sparse import all_but
from everylabel.selection.strategies import DEFAULT

if TYPE_CHECKING:
    from everylabel.projects.options import LabelOptions

IMPORTER = "import"  # the person of labels that came with the source
SOURCE, FILE = "source", "file"  # origins of imported labels
STORE = "labels.sqlite"  # in the project's folder
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


def check_labelled(
    store: str | None, *, accept: bool = False, needed: bool = False, own_log: str = ""
) -> Check:
    """Return a check for `open_project`: it gives items the log's ids and refuses a changed source.

    accept : accept a changed source, and another log unless `own_log` is given
    needed : the log is only read: refuse if there is none, and report changes of the source in a note
    own_log : how to continue without the project's own log, which is then needed even if changes are accepted
    """

    def check(opening: Opening) -> Items | None:
        place = str(opening.folder / STORE) if store is None else store
        before = opening.before
        if before is not None and before.log_in(store) and (own_log or not accept):
            name = log_name(before.name, before.id, opening.items, store)
            _check_log_there(place, name, before.log_in(store), own_log or "add --accept-changes")
        if not needed and "://" not in place and not Path(place).exists():
            return None
        now, items = opening.now, opening.items
        try:
            with closing(Store(place, log_name(now.name, now.id, items, store), write=False)) as log:
                known, sent, labelled = log.items(), sent_before(log), log.holds(ABOUT_ITEMS)
        except StoreError as error:
            if needed or isinstance(error, Damaged):
                raise
            return None  # a database without our tables yet; the server reports other problems
        if known is None:
            return None
        cause = "" if before is None else now.options.differs(before.options)
        if sent and not Path(now.source).exists() and Path(now.source).is_absolute():
            many = counted(len(sent), "item was", "items were")
            raise EverylabelError(
                f"source {now.source!r} no longer exists ({many} sent to its project, but those are not "
                "enough to open it); expected the source: put it back"
            )
        items = with_sent(items, sent, now.options.text_column)
        change = compare(known, items)
        reads = needed and not change.others  # rows of shards cannot be matched if they changed
        note = change.check(now.source, accept or reads, cause, unlabelled=not labelled)
        if needed and note is not None:  # otherwise `open_log` reports it
            items = replace(items, notes=(*items.notes, note))
        return replace(items, ids=change.keys, replaced=not (labelled or change.only_appended))

    return check


def log_mark(log: Store) -> str:
    """Return a mark that distinguishes a log from others: the time it was begun."""
    first = log.first()
    return "" if first is None else repr(first.at)


def _check_log_there(place: str, name: str, mark: str, without: str) -> None:
    """Refuse to start a new log if the project's log is gone, empty or another one.

    Errors of reading a log (another program holds it, a later version wrote it) are passed on unchanged: it
    may be the right log, which no backup should replace.
    """
    try:
        with closing(Store(place, name, write=False)) as log:
            found = log_mark(log)
    except NoLog:
        found = ""
    if found != mark:
        is_there = "://" in place or Path(place).exists()
        what = "is another one" if found else "holds nothing of it" if is_there else "is gone"
        raise EverylabelError(
            f"the log {shown_place(place)}, with the labels of this project, {what}; restore it or a backup "
            f"(everylabel doctor checks it). To continue without its labels, {without}"
        )


def sent_before(log: Store) -> list[Sent]:
    """Return the items that were sent to a project, in the order in which they arrived."""
    joined = (event.body for event in log.glance("extended"))
    bodies = [one for body in joined if isinstance(body, events.Extended) for one in body.sent or ()]
    return [Sent(str(one["id"]), str(one["text"]), one.get("fields") or {}) for one in bodies]


def joined_before(store: str | None) -> Begin:
    """Return a function for `open_project` that finds the items needed at once: those in the pool already."""

    def begin(opening: Opening) -> list[int] | None:
        place, now = str(opening.folder / STORE) if store is None else store, opening.now
        try:
            with closing(Store(place, log_name(now.name, now.id, opening.items, store), write=False)) as log:
                begun, bodies = log.first() is not None, [event.body for event in log.glance("extended")]
        except NoLog:  # there is no log yet
            return []
        joined = {name for body in bodies if isinstance(body, events.Extended) for name in body.names}
        if begun and not joined:  # written by the version before
            return None
        return [i for i, name in enumerate(opening.items.ids) if name in joined]

    return begin


def project_log(project: Project, store: str | None, *, write: bool = False) -> "closing[Store]":
    """Return a project's log, opened: in the given store, or a file in its folder."""
    place = str(project.folder / STORE) if store is None else store
    return closing(Store(place, log_name(project.name, project.id, project, store), write=write))


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


def location_shown(project: Project, store: str | None) -> str:
    """Describe where a project is stored, without passwords."""
    return str(project.folder) if store is None else f"{shown_place(store)} and {project.folder}"


class _Writer:
    """Collects events to append and applies each to the state."""

    def __init__(self, state: State) -> None:
        self.state, self.fresh = state, list[Event]()
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
            self.imported[body.item, person, origin] = _said(body)


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
    store, confirm = options.store, options.confirm_labels
    with project_log(project, store, write=True) as log:
        if log.note:
            note(log.note)
        known = log.items() or RecordedRows((), ())
        change = compare(known, project)
        unlabelled = not (change.only_appended or log.holds(ABOUT_ITEMS))
        text = change.check(project.source, options.accepts, unlabelled=unlabelled)
        if text is not None:
            note(text)
        project = replace(project, ids=change.keys)
        multi = project.options.label_separator is not None
        state, imported = bring_up_to_date(
            log,
            project.ids_here,
            classes=class_names_in(project.classes) if multi else project.classes,
            settings=options.settings,
            source=[Label(project.ids[i], project.classes[int(project.labels[i])]) for i in project.labelled],
            labels=options.labels,
            proposed=options.proposed,
            suggestion_columns=options.suggestion_columns,
            review=options.review,
            label_column=project.options.label_column,
            label_separator=project.options.label_separator,
            project=project.id,
            descriptions=options.classes.descriptions,
            class_keys=options.classes.keys,
            names=names,
            test=held_out_items(project, options.test),
            note=note,
            changed=change.changed_keys,
            confirm=confirm,
            known_as=lambda item: project.known_as(item if project.here is None else project.here[item]),
            features=None if isinstance(project.ids, Numbered) else project.features,
            new_features=options.accepts or unlabelled or _features_may_differ(project),
        )
        if known.renewed(project) != known:  # after the events about changed items are written
            log.set_items(known.renewed(project))
        if imported:
            rest = "" if project.here is None else "; labels of items that are still being embedded follow"
            note(f"{counted(imported, 'label')} imported{rest}")
        yield OpenLog(log, project, state)


def _features_may_differ(project: Project) -> bool:
    """Return whether features are expected to differ: another model or column, or the fit was removed."""
    before, now, place = remembered(project.folder), project.options, project.embedded_in
    named = ("model", "text_column", "image_column")
    if before is not None and any(getattr(before.options, name) != getattr(now, name) for name in named):
        return True
    return place is not None and (place / EMBEDDER).exists() and not (project.folder / EMBEDDER).exists()


def read_events(store: Store, source: Sequence[str]) -> State:
    """Return the state after all events of a log."""
    stored = store.read()
    return apply_all(new_state(stored, source), stored, store.shown)


def bring_up_to_date(
    store: Store,
    ids: Sequence[str],
    *,
    classes: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    source: Iterable[Label] = (),
    labels: Iterable[Label] = (),
    proposed: Iterable[Proposed] = (),
    suggestion_columns: Sequence[str] = (),
    review: bool = False,
    label_column: str | None = None,
    label_separator: str | None = None,
    project: str = "",
    descriptions: Mapping[str, str] = MappingProxyType({}),
    class_keys: Mapping[str, str] = MappingProxyType({}),
    names: ClassNames | None = None,
    test: int | Sequence[str] = 0,
    note: Callable[[str], Any] = print,
    changed: Sequence[str] = (),
    confirm: bool = False,
    known_as: Callable[[int], str] = str,
    features: np.ndarray | None = None,
    new_features: bool = False,
) -> tuple[State, int]:
    """Write the changes that a command asks for to a log; return the state and the number of imported labels.

    `source` holds the labels that came with the items, `labels` those from files. `project` is the project's
    id, recorded in the first event: see `log_name`. Labels of items with changed content (`changed`) are
    withdrawn, or all restored by `confirm`; `known_as` names an item for people. The items of `features` join
    the pool; features that differ from before are refused unless `new_features`. `test` holds the ids of test
    items, or their number to draw at random. `proposed` holds suggestions, read from `suggestion_columns` if
    they came with the source. With `review`, now or earlier, the labels of `source` (in `label_column`) are
    suggestions.
    """
    ids = id_list(ids)
    state = read_events(store, ids)
    writer, settings = _Writer(state), settings or {}
    converted: Sequence[int] = ()
    if state.seq == 0:
        check_class_count(classes)
        clean = list(dict.fromkeys(map(clean_name, classes)))
        writer.emit("", events.Project(clean, settings, seed=0, id=project or None))
    elif settings.get("multi_label", state.multi_label) != state.multi_label:
        converted = state.book.order
        _convert(writer, settings["multi_label"], note)
    if features is not None:
        _join(writer, store, ids, features, new_features, changed, note)
    others = {name: value for name, value in settings.items() if state.settings[name] != value}
    if others:
        writer.emit("", events.Settings(**others))
    if state.multi_label and state.settings["strategy"] not in offered(state):
        unfit, fit = state.settings["strategy"], offered(state)
        reason = f"strategy {unfit!r} is for one class per item"
        if "strategy" in settings:
            raise EverylabelError(f"{reason}; pass --strategy with one of {', '.join(fit)}")
        writer.emit("", events.Settings(strategy=DEFAULT))
        note(f"{reason}: {DEFAULT!r} chooses from now on")
    _define_classes(writer, classes, descriptions, class_keys, note)
    _withdraw(writer, () if confirm else changed, confirm)
    proposed = list(proposed)
    if state.multi_label and (review or proposed):
        raise EverylabelError(
            f"{'--review is' if review else 'suggestions are'} for projects with one class per item; leave "
            "it out with --multi-label, or import the labels of a source that you trust"
        )
    if review or GIVEN in state.suggestions:
        given = _given(writer, list(source), review)
        proposed, source = [*proposed, *given], ()
        suggestion_columns = [*suggestion_columns, *([label_column] if label_column else [])]
    imported = _import(writer, source, SOURCE) + _import(writer, labels, FILE)
    if state.multi_label and label_separator is not None:
        _remove_joined(writer, converted, label_separator, note)
    suggested = _suggest(writer, proposed, suggestion_columns)
    if suggested:
        what = ("label to review", "labels to review") if review else ("suggestion",)
        note(f"{counted(suggested, *what)} imported; the model trusts them as far as answers confirm them")
    held_out = items_to_hold_out(state, test)
    for name in held_out:
        writer.emit("", events.HeldOut(name))
    if held_out:
        many = counted(len(held_out), "item is", "items are")
        note(f"{many} held out as a test set: the model never learns from them")
    if names is not None:
        try:
            names.learn(names.missing(state))
        except EverylabelError as error:
            note(f"the model does not learn from class names: {error}")
    store.append(writer.fresh)
    left = [known_as(ids.position[state.ids[item]]) for item in state.withdrawn_items()]
    if left:
        note(
            f"{counted(len(left), 'item has', 'items have')} other content than when labelled: "
            f"{listed(left)}; their labels do not count until somebody answers again, or "
            "--confirm-labels keeps them"
        )
    return state, imported


def _convert(writer: _Writer, multi_label: bool, note: Callable[[str], Any]) -> None:
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
        note(f"items may have several classes from now on; {many} so far say one class and no other")


def _remove_joined(
    writer: _Writer, converted: Sequence[int], separator: str, note: Callable[[str], Any]
) -> None:
    """Remove the classes of a converted project that only name several others and that no answer says."""
    state, removed = writer.state, list[str]()
    said = {c for answers in state.answers.values() for one in answers for c in classes_of(one.value)}
    for number in converted:
        name = state.classes[number]
        parts = names_in(list_text(name, separator)).present
        if number not in said and len(parts) > 1 and all(part in state.names for part in parts):
            writer.emit("", events.Remove(number))
            removed.append(name)
    if removed:
        many = counted(len(removed), "class is", "classes are")
        note(f"{many} removed, since they name several others: {listed(removed)}; the page can restore them")


def _define_classes(
    writer: _Writer,
    classes: Sequence[str],
    descriptions: Mapping[str, str],
    class_keys: Mapping[str, str],
    note: Callable[[str], Any],
) -> None:
    """Add new classes, and set descriptions and keys that differ from the last import."""
    state = writer.state
    new = [name for name in map(clean_name, classes) if name not in state.names]
    if new:
        stay = f"; {counted(len(state.classes), 'class stays', 'classes stay')}" if state.classes else ""
        many = counted(len(new), "class is", "classes are")
        note(f"{many} added: {listed(new)}{stay}{meant(new, state.names)}")
    for name in new:
        class_number(writer, name)
    for name, text in descriptions.items():
        number = class_number(writer, name)
        if state.imported_descriptions.get(number) != text:  # a description that people edited since stays
            writer.emit("", events.ClassChanged(number, description=text, imported=True))
    for name, key in class_keys.items():
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
    store: Store,
    ids: IdList,
    features: np.ndarray,
    new_features: bool,
    changed: Sequence[str],
    note: Callable[[str], Any],
) -> None:
    """Log the items that joined the pool since the last start, and those whose features changed."""
    state = writer.state
    joined = [event.body for event in store.glance("extended")]
    other = _with_other_features(joined, ids, features)
    if other and not new_features:
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
        note(f"the features of {counted(unexplained, 'item')} have changed; labels stay")
    before = state.position if joined else {}  # logs of version 0.1 do not name the items that joined
    fresh = [] if joined and state.ids == ids else [i for i, name in enumerate(ids) if name not in before]
    if len(fresh) == len(ids) > 0:
        writer.emit("", events.Extended(stored_ids(ids), features_digest(features)))
    elif fresh:
        some = stored_ids([ids[i] for i in fresh])
        writer.emit("", events.Extended(some, features_digest(features[fresh])))


def _with_other_features(joined: Sequence[object], ids: IdList, features: np.ndarray) -> list[Sequence[str]]:
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
        if writer.imported.get((item, person, origin)) != _said(body):
            writer.emit(person, body)
            count += 1
    return count


def _said(body: events.Label | events.MultiLabel) -> Any:
    """Return the class or the present classes of an imported label, without its absent ones."""
    return body.class_ if isinstance(body, events.Label) else tuple(body.present)


def _suggest(writer: _Writer, proposed: Iterable[Proposed], columns: Sequence[str]) -> int:
    """Write suggestions that differ from before, one event per source; return their number."""
    by_source: dict[str, dict[str, Suggestion]] = {}
    for one in proposed:
        said = by_source.setdefault(_person(one.source), {})
        given = {class_number(writer, name): p for name, p in (one.probabilities or {}).items()}
        probs = {number: p for number, p in given.items() if p}
        said[one.id] = Suggestion(class_number(writer, one.label), one.score, probs)  # the last one counts
    return sum(
        write_suggestions(writer, IMPORTER, source, said, columns) for source, said in by_source.items()
    )


def _given(writer: _Writer, source: Sequence[Label], review: bool) -> list[Proposed]:
    """Return the source's labels as suggestions; refuse a review that comes too late or has no labels."""
    if review and GIVEN not in writer.state.suggestions:
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
    return [Proposed(one.id, one.label, GIVEN) for one in source]


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
    if project.coming is not None:
        encoder = project.coming.encoder()
    else:
        model, width = project.options.model, project.features.shape[1]
        encoder = word_encoder(project.kind, project.embedded_in, model, width, project.trust_code)
    return ClassNames(encoder, project.folder / NAMES)


def class_names(project: Project, store: str | None) -> set[str]:
    """Return every name that a class of the project has or ever had."""
    try:
        with project_log(project, store) as log:
            return {*class_names_in(project.classes), *read_events(log, project.ids).names}
    except StoreError:  # there is no log yet
        return set(class_names_in(project.classes))
