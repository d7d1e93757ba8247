"""A project's log: where it is, what it adds up to, and what is written to it before the server starts.

Written are its first event, labels that exist already, and settings, each once: a label is not if the last
one from there (the source, or files) of this person and item was the same, whatever people said since; a
class is known by any name it ever had. Imported labels are followed by a `refit`, so that the model starts
trained on them exactly.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.changes import compare
from everylabel.data.classes import check_class_count, clean_name, meant
from everylabel.data.digests import features_digest
from everylabel.data.id_list import IdList
from everylabel.data.known import Known
from everylabel.data.numbered import Numbered
from everylabel.labelling import events
from everylabel.labelling.applying import apply
from everylabel.labelling.events import Event
from everylabel.labelling.kept import Kept, Shelf
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.naming import Encoder, packed, phrases_of
from everylabel.labelling.packing import WHAT, kept_ledger, unpack, vouched
from everylabel.labelling.snapshot import Snapshot
from everylabel.projects.database.applied import take_all
from everylabel.projects.database.chain import Head
from everylabel.projects.database.store import Store, StoreError
from everylabel.projects.feature_check import are_made_anew, named_again, refuse, with_other_features
from everylabel.projects.held_out import held_out_items, to_set_aside
from everylabel.projects.labelled import SAID, by_log_names, reading, store_name, store_place
from everylabel.projects.project import Project

IMPORTER = "import"  # who gave labels that came with the source
SOURCE, FILE = "source", "file"  # where labels came from
LONGEST_PERSON = 64


class Label(NamedTuple):
    """One label of one item that exists already; person None where nothing says who gave it."""

    id: str
    label: str
    person: str | None = None


class _Writer:
    """Events to append, taken into a ledger as they are made."""

    def __init__(
        self, before: Sequence[Event], ids: Sequence[str], shown: str, past: Kept | None = None
    ) -> None:
        self.ledger, self.fresh = Ledger(ids), list[Event]()
        self.imported: dict[tuple[str, str, str], int] = {}  # item, person, from where -> class
        self.joined = IdList()
        if past is not None:
            self._go_on_from(unpack(past), ids)
        take_all(self._take, before, shown)
        self.block = self.ledger.seq + 1

    def _go_on_from(self, ledger: Ledger, ids: Sequence[str]) -> None:
        """Begin with what was kept of the log up to some event, and with items that have not joined yet."""
        self.ledger, self.joined = ledger, IdList(ledger.ids if ledger.joined else ())
        if ledger.ids != ids:
            ledger.ids.extend([name for name in ids if name not in ledger.position])
        for entry in map(ledger.history.__getitem__, ledger.history.imported()):
            if entry.seq > ledger.changed.get(entry.item, 0):
                self._note_imported(entry.person, entry.body)

    def emit(self, person: str, body: events.Body) -> None:
        event = Event(self.ledger.seq + 1, self.block, time.time(), person, body)
        self._take(event)
        self.fresh.append(event)

    def _take(self, event: Event) -> None:
        apply(self.ledger, event)
        body = event.body
        if isinstance(body, events.Extended):
            if len(self.joined):
                self.joined.extend([name for name in body.ids if name not in self.joined])
            else:
                self.joined = IdList(body.ids)
        self._note_imported(event.person, body)
        if isinstance(body, events.Changed):  # what the source or a file says of it now is news
            self.imported = {key: value for key, value in self.imported.items() if key[0] != body.item}

    def _note_imported(self, person: str, body: events.Body) -> None:
        if isinstance(body, events.Label) and body.imported:
            for origin in (SOURCE, FILE) if body.imported is True else (body.imported,):
                self.imported[body.item, person, origin] = body.class_


@contextmanager
def open_log(
    project: Project,
    store: str | None,
    settings: dict[str, Any],
    labels: Iterable[Label],
    descriptions: Mapping[str, str],
    accept: bool,
    note: Callable[[str], Any],
    encoder: Encoder | None = None,
    confirm: bool = False,
    class_keys: Mapping[str, str] = MappingProxyType({}),
    test: str | None = None,
    shelf: Shelf | None = None,
) -> Iterator[tuple[Store, Project]]:
    """Yield a project's log to write to, up to date with its source, and the project by the log's names.

    accept : let a source pass that is another one; labels of rows with other content are set aside
    note : gets what a person should know
    encoder : makes vectors of class names, as the texts were made
    confirm : labels of rows with other content fit
    class_keys : on the page, by class name
    test : how many items are never learned from, or the column that names them
    shelf : where a ledger may be that the log need not be read up to
    """
    with closing(opened_store(store_place(project, store), store_name(project, store), shelf, note)) as log:
        if log.told:
            note(log.told)
        known = log.items() or Known((), ())
        change = compare(known, project)
        unlabelled = not (change.only_appended or log.holds(SAID))
        told = change.check(project.source, accept or confirm, unlabelled=unlabelled)
        if told is not None:
            note(told)
        project = replace(project, ids=change.keys)
        imported = bring_up_to_date(
            log,
            project.ids_here,
            classes=project.classes,
            settings=settings,
            source=[Label(project.ids[i], project.classes[int(project.labels[i])]) for i in project.labelled],
            labels=labels,
            project=project.id,
            descriptions=descriptions,
            class_keys=class_keys,
            encoder=encoder,
            test=held_out_items(project, test),
            note=note,
            changed=change.changed_keys,
            confirm=confirm,
            known_as=lambda item: project.known_as(item if project.here is None else project.here[item]),
            features=None
            if isinstance(project.ids, Numbered)
            else project.features,  # which are known by a digest
            new_features=accept or confirm or unlabelled or are_made_anew(project),
            shelf=shelf,
        )
        if known.renewed(project) != known:  # after what was set aside is written down
            log.set_items(known.renewed(project))
        if imported:
            rest = "" if project.here is None else "; those of items that are yet to be embedded follow"
            note(f"{counted(imported, 'label')} imported{rest}")
        yield log, project


def opened_store(place: str, name: str, shelf: Shelf | None, note: Callable[[str], Any]) -> Store:
    """Return a log to write to; what a kept ledger vouches for is checked beside the work."""
    mark = vouched(shelf)

    def lost(error: StoreError) -> None:
        try:
            note(f"no more answers are taken: {error}")
        finally:
            if shelf is not None:
                shelf.discard(WHAT)  # the next start checks all first

    return Store(place, name, vouched=None if mark is None else Head(*mark), lost=lost)


def bring_up_to_date(
    store: Store,
    ids: Sequence[str],
    *,
    classes: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    source: Iterable[Label] = (),
    labels: Iterable[Label] = (),
    project: str = "",
    descriptions: Mapping[str, str] = MappingProxyType({}),
    class_keys: Mapping[str, str] = MappingProxyType({}),
    encoder: Encoder | None = None,
    test: int | Sequence[str] = 0,
    note: Callable[[str], Any] = print,
    changed: Sequence[str] = (),
    confirm: bool = False,
    known_as: Callable[[int], str] = str,
    features: np.ndarray | None = None,
    new_features: bool = False,
    shelf: Shelf | None = None,
) -> int:
    """Bring a log up to date with what the command says; return how many labels were imported.

    `source` are the labels that came with the items, `labels` those of files. `project` is the project's
    id, noted in the first event: see `store_name`. `encoder` makes vectors of class names; without it those
    that are there are taken away. `note` is told if it cannot. Labels of items with other content
    (`changed`) are set aside, or all taken back by `confirm`; `known_as` tells what people know an item by.
    `features` of the ids, which join the pool; others than before are refused, unless `new_features` are
    expected.
    `test` are items that are held out, by id or so many at random. `shelf` may have a ledger.
    """
    ids = IdList(ids)
    place = ids.position
    past = kept_ledger(shelf, store, place, ids, again=True)  # by the desk
    before = store.read(again=True) if past is None else store.read(past.seq)  # again by the desk
    writer = _Writer(before, ids, store.shown, past)
    settings = settings or {}
    if writer.ledger.seq == 0:
        check_class_count(classes)
        names = list(dict.fromkeys(map(clean_name, classes)))
        writer.emit("", events.Project(names, settings, seed=0, id=project or None))
    if features is not None:
        told = before if past is None else store.glance(events.Extended.kind)
        other = with_other_features(told, ids, features)
        if other and not new_features:
            raise refuse([name for names in other for name in names])
        if other:
            writer.emit("", named_again(writer.joined, ids, features))
        unexplained = sum(len(names) for names in other if set(changed).isdisjoint(names))
        if unexplained and writer.ledger.n_answers:
            note(f"the features of {counted(unexplained, 'item')} are others than before; labels stay")
        _join(writer, ids, features)
    others = {name: value for name, value in settings.items() if writer.ledger.settings[name] != value}
    if others:
        writer.emit("", events.Settings(**others))
    new = [name for name in map(clean_name, classes) if name not in writer.ledger.names]
    if new:
        there = listed(list(writer.ledger.classes), 12)
        stay = f"; those that were there stay: {there}" if there else ""
        many = counted(len(new), "class is", "classes are")
        note(f"{many} added: {listed(new, 12)}{stay}{meant(new, writer.ledger.names)}")
    for name in classes:
        _number(writer, name)
    for name, text in descriptions.items():
        number = _number(writer, name)
        if writer.ledger.imported_descriptions.get(number) != text:  # what people wrote since stays
            writer.emit("", events.Describe(number, text, imported=True))
    for name, key in class_keys.items():
        number = _number(writer, name)
        if writer.ledger.book.keys.get(number) != key:
            writer.emit("", events.ClassKey(number, key))
    set_aside = _set_aside(writer, () if confirm else changed, confirm)
    imported = _import(writer, source, SOURCE) + _import(writer, labels, FILE)
    held_out = to_set_aside(writer.ledger, test)
    for name in held_out:
        writer.emit("", events.HeldOut(name))
    if held_out:
        many = counted(len(held_out), "item is", "items are")
        note(f"{many} held out for testing: they are never learned from")
    if set_aside or imported or held_out:
        writer.emit("", events.Refit(writer.ledger.seq))
    _teach_names(writer, encoder, note)
    store.append(writer.fresh)
    left = [known_as(place[writer.ledger.ids[item]]) for item in writer.ledger.set_aside()]
    if left:
        note(
            f"{counted(len(left), 'item has', 'items have')} other content than when labelled: "
            f"{listed(left)}; what was said of them is set aside until they are answered again, or "
            "--confirm-labels says that it fits"
        )
    return imported


def _set_aside(writer: _Writer, changed: Sequence[str], confirm: bool) -> bool:
    """Set the answers to changed items aside, or take back what is aside; return whether there was any."""
    ledger, before = writer.ledger, writer.ledger.seq
    for key in changed:
        if ledger.position.get(key) in ledger.answers:
            writer.emit("", events.Changed(key))
    for item in ledger.set_aside() if confirm else ():
        writer.emit("", events.Confirmed(ledger.ids[item]))
    return ledger.seq > before


def _join(writer: _Writer, ids: Sequence[str], features: np.ndarray) -> None:
    """Write down which items are in the pool now and were not when the log was written last."""
    fresh = [] if writer.joined == ids else [i for i, name in enumerate(ids) if name not in writer.joined]
    if len(fresh) == len(ids) > 0:
        writer.emit("", events.Extended(ids, features_digest(features)))
    elif fresh:
        writer.emit("", events.Extended([ids[i] for i in fresh], features_digest(features[fresh])))


def _teach_names(writer: _Writer, encoder: Encoder | None, note: Callable[[str], Any]) -> None:
    """Write down the vectors of class names that have none yet, and take away those of another encoder."""
    ledger, ours = writer.ledger, None if encoder is None else encoder.name
    for number in [c for c, name in ledger.encoders.items() if name != ours]:
        writer.emit("", events.Named(number, (), "", ""))
    book = ledger.book
    wanted = {c: phrases_of(book.names[c], book.descriptions.get(c)) for c in book.present}
    wanted = {c: phrases for c, phrases in wanted.items() if ledger.phrases.get(c) != phrases}
    if encoder is not None and ledger.settings["names"] and wanted:
        try:
            vectors = encoder.encode([phrase for phrases in wanted.values() for phrase in phrases])
        except EverylabelError as error:
            note(f"class names do not teach the model: {error}")
            wanted = {}
        for number, phrases in wanted.items():
            some, vectors = vectors[: len(phrases)], vectors[len(phrases) :]
            writer.emit("", events.Named(number, phrases, packed(some), encoder.name))


def _number(writer: _Writer, name: str) -> int:
    """Return a class's number; a name never seen before is added."""
    clean = clean_name(name)
    if clean not in writer.ledger.names:
        check_class_count([*(writer.ledger.classes[c] for c in writer.ledger.book.order), clean])
        writer.emit(IMPORTER, events.NewClass(clean))
    return writer.ledger.names[clean]


def _import(writer: _Writer, labels: Iterable[Label], origin: str) -> int:
    """Write labels that are not what was imported last from there; return how many."""
    ours = (label for label in labels if label.id in writer.ledger.position)
    last = {(label.id, _person(label.person)): label.label for label in ours}  # of several, the last counts
    count = 0
    for (item, person), name in last.items():
        number = _number(writer, name)
        if writer.imported.get((item, person, origin)) != number:
            writer.emit(person, events.Label(item, number, imported=origin))
            count += 1
    return count


def _person(name: str | None) -> str:
    """Return a person's name as the page would take it; databases cannot hold every character."""
    shown = "".join(each if each.isprintable() else " " for each in name or "")
    return " ".join(shown.split())[:LONGEST_PERSON].strip() or IMPORTER


def read_state(project: Project, store: str | None, names: bool | None = None) -> Snapshot:
    """Return what a project's log adds up to; `names`, if given, says in its place whether names teach."""
    with reading(project, store) as log:
        stored, known, shown = log.read(), log.items(), log.shown
    ledger = Ledger(by_log_names(project, known).ids)
    take_all(lambda event: apply(ledger, event), stored, shown)
    if names and not ledger.vectors:
        raise EverylabelError(
            f"--names-prior is on, and project {project.name!r} has no class names that its model knows; "
            "leave it out"
        )
    return Snapshot.of(ledger, names)


def class_names(project: Project, store: str | None) -> set[str]:
    """Return every name that a class of the project has or had."""
    try:
        with reading(project, store) as log:
            return {*project.classes, *_Writer(log.read(), project.ids, log.shown).ledger.names}
    except StoreError:  # nothing is there yet
        return set(project.classes)
