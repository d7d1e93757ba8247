"""A ledger from what was kept and the events since is that of a replay from zero, field by field."""

from array import array
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from everylabel.data.id_list import IdList, Places
from everylabel.labelling import events, keys
from everylabel.labelling.agreement import Agreement
from everylabel.labelling.answers import Answers
from everylabel.labelling.applying import apply
from everylabel.labelling.class_book import ClassBook
from everylabel.labelling.columns import Numbers
from everylabel.labelling.curve import Curve
from everylabel.labelling.desk import Desk
from everylabel.labelling.events import Body, Event
from everylabel.labelling.kept import Kept
from everylabel.labelling.keys import Keys
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.naming import packed as packed_vectors
from everylabel.labelling.packing import WHAT, kept_ledger, pack, unpack
from everylabel.labelling.record import Record
from everylabel.labelling.records import IMPORT
from everylabel.labelling.refit import refit
from everylabel.projects.log import Label, bring_up_to_date
from everylabel.projects.model_file import ModelFile
from tests.labelling.desks import fingerprint, label, service
from tests.labelling.test_replay import busy

IDS = [f"item {i}" for i in range(12)]
PEOPLE = ["anna", "ben", IMPORT]
SOURCE = {*IDS, "late", "later"}


def plain(value: Any) -> Any:
    """Return what can be compared."""
    if isinstance(value, Numbers | Answers | Places | dict):
        return [(key, plain(some)) for key, some in value.items()]
    if isinstance(value, Record):
        own = {name: some for name, some in vars(value).items() if name not in ("ids", "columns")}
        return list(value), [value.shown(i) for i in range(len(value))], [value.of(i) for i in range(14)], {
            name: plain(some) for name, some in own.items() if not isinstance(some, array)
        }  # fmt: skip
    if isinstance(value, Keys):
        return list(value.since(0)), [value.get(key) for key, _ in value.since(0)]
    if isinstance(value, Curve):
        return value.points()
    if isinstance(value, Agreement | ClassBook):
        return [plain(some) for name, some in vars(value).items() if name != "present"]
    if isinstance(value, IdList):
        return list(value)
    if isinstance(value, np.ndarray | array):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(some) for some in value]
    return value


def state(ledger: Ledger) -> dict[str, Any]:
    """Return all that a ledger holds; what is there from the start is `ids`."""
    return {name: plain(some) for name, some in vars(ledger).items() if name not in ("source", "given")}


def anything(made: Ledger, rng: np.random.Generator) -> tuple[str, Body]:
    """Return something that may happen now."""

    def one(of: Any) -> Any:
        return of[int(rng.integers(len(of)))]

    person, item, book, yes = one(PEOPLE), one([*IDS, "gone"]), made.book, bool(rng.integers(2))
    number, other = one(book.present), one(book.present)
    guess, sure = one([None, number]), one([None, 0.1, 1 / 3])
    last, seq = made.last(person), made.seq
    answer = events.Label(item, number, guess, sure, yes)
    vectors = packed_vectors(rng.normal(size=(1, 3)).astype(np.float32))
    may: list[Body] = [
        *[answer] * 12,
        *[events.Out(item, one(["check", "chosen"]), expected=sure, among=guess, share=sure)] * 6,
        *(events.Label(item, number, imported=one(["source", "file", True])),) * 2,
        *(events.Label(item, number, bulk=one([*made.bulks, seq + 1])),) * 2,
        *(events.Label(item, number, truth=True), events.CannotTell(item, yes), events.Skip(item, yes)),
        *(events.NoneOfThese(item, guess, sure, yes), events.Not(item, number, guess, sure)),
        *(events.Release(item), events.HeldOut(item), events.Finished(item, number, 0.5, yes)),
        *(events.Unfinished(item), events.Changed(item), events.Confirmed(item), events.Left(item, yes)),
        *(events.Wish(number, int(rng.integers(3))), events.Rename(number, f"name {seq}")),
        *(events.Settings(annotators_per_item=int(rng.integers(1, 4))), events.Describe(number, "x", yes)),
        *(events.ClassKey(number, "k"), events.Colour(number, "red"), events.Arrange(list(book.order[::-1]))),
        *(events.Named(number, ["a"], vectors, "words"), events.Named(number, [], "", "")),
        *(
            events.Refit(max(1, seq - 2), one([None, yes]), one([None, 5])),
            events.Extended(["late", "z"], ""),
        ),
        *(events.Assessed(len(made.labels), 3, 0.5, gain=sure), events.Sent(1 + int(rng.integers(seq)))),
    ]
    may += [events.NewClass(f"class {seq}")] * (len(book.order) < 6)
    may += [events.Remove(number, one([None, other if other != number else None]))] * (len(book.order) > 2)
    may += [events.Restore(one(list(book.removed)))] if book.removed else []
    may += [events.UndoClasses(one(made.class_changes).seq)] * 2 if made.class_changes else []
    may += [] if last is None else [events.Undo(last.seq)] * 4
    return person, one(may)


def some_events(seed: int, n: int = 250) -> list[Event]:
    """Return a log of n events that fit."""
    rng, made = np.random.default_rng(seed), Ledger(IDS, SOURCE)
    begin = events.Project(["a", "b", "c"], {"annotators_per_item": 2}, 3)
    log = [Event(1, 1, 0.0, "", begin), Event(2, 2, 0.0, "", events.Extended(IDS, ""))]
    for event in log:
        apply(made, event)
    while len(log) < n:
        person, body = anything(made, rng)
        key = (None, f"key \u00fc {made.seq}", str(UUID(int=made.seq)))[int(rng.integers(3))]
        log.append(Event(made.seq + 1, made.seq + 1, 1e9 + made.seq / 3, person, body, key))
        apply(made, log[-1])
    return log


def replayed(log: list[Event], made: Ledger | None = None) -> Ledger:
    made = Ledger(IDS, SOURCE) if made is None else made
    for event in log:
        apply(made, event)
    return made


class Marks:
    """A log that has digests, and no events."""

    def mark(self, seq: int) -> str:
        return f"digest {seq}"


def through_a_file(ledger: Ledger, folder: Path) -> Kept:
    shelf = ModelFile(folder, pytest.fail)
    shelf.put(pack(ledger).kept(Marks()), WHAT)
    kept = kept_ledger(shelf, Marks(), SOURCE, IDS)
    assert kept is not None
    return kept


@pytest.mark.parametrize("seed", range(12))
def test_a_kept_ledger_and_the_events_since_are_a_replay_from_zero(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "LATELY", 16)
    log = some_events(seed)
    zero = state(replayed(log))
    for at in np.random.default_rng(seed).choice(len(log), 4, replace=False).tolist():
        kept = through_a_file(replayed(log[: at + 1]), tmp_path)
        made = unpack(kept, SOURCE)
        assert state(made) == state(replayed(log[: at + 1]))
        assert state(replayed(log[at + 1 :], made)) == zero
        assert kept.arrays["text"].dtype == np.uint8


def test_the_logs_above_fill_every_field() -> None:
    empty, full = state(Ledger(IDS, SOURCE)), [state(replayed(some_events(seed))) for seed in range(12)]
    same = {name for name in empty if all(each[name] == empty[name] for each in full)}
    assert same == set()
    assert {field.name for field in fields(Ledger)} <= {*empty, "given", "source"}


def test_keys_are_found_among_many() -> None:
    made = Keys()
    for i in range(3 * keys.LATELY + 7):
        made.add(f"key {i % 9000}", i)  # some come again
    twin = {f"key {i % 9000}": i for i in range(3 * keys.LATELY + 7)}
    assert all(made.get(key) == seq for key, seq in twin.items())
    assert made.get("another") is None
    assert len(made) == 3 * keys.LATELY + 7


def test_keys_of_any_kind_whatever_their_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "LATELY", 7)
    monkeypatch.setattr(keys, "_digest", lambda stored: len(stored) % 3)
    one = str(UUID(int=2**127 + 5))
    odd = [
        "",
        "\udcff",
        "\u00ff",
        one.upper(),
        f"{{{one}}}",
        f"{one} ",
        one.replace("-", ""),
        f"{one[:-1]}g",
        one,
    ]
    sent = [*odd, *(str(UUID(int=i)) for i in range(40)), *(f"key {i}" for i in range(40)), one, "key 3", ""]
    made, twin = Keys(), dict[str, int]()
    for i, key in enumerate(sent):
        made.add(key, i)
        twin[key] = i
        assert [made.get(each) for each in sent] == [twin.get(each) for each in sent]
    assert list(made.since(0)) == list(zip(sent, range(len(sent)), strict=True))
    again = Keys.unpacked(made.packed())
    assert [again.get(each) for each in sent] == [twin[each] for each in sent]
    assert list(again.since(5)) == list(made.since(5))


@pytest.mark.parametrize("change", [{"made_by": "another"}, {"log": "another"}, {"seq": 0}, {"seq": 7}])
def test_a_ledger_of_another_log_or_version_is_left_alone(change: dict[str, Any], tmp_path: Path) -> None:
    notes: list[str] = []
    shelf = ModelFile(tmp_path, notes.append)
    shelf.put(pack(replayed(some_events(0))).kept(Marks())._replace(**change), WHAT)
    assert kept_ledger(shelf, Marks(), SOURCE, IDS) is None
    assert len(notes) == ("made_by" not in change)


def test_a_ledger_of_other_items_is_left_alone(tmp_path: Path) -> None:
    shelf = ModelFile(tmp_path, pytest.fail)
    shelf.put(pack(replayed(some_events(0))).kept(Marks()), WHAT)
    assert kept_ledger(shelf, Marks(), SOURCE - {IDS[3]}, IDS) is None  # one is gone
    assert kept_ledger(shelf, Marks(), SOURCE | {"gone"}, IDS) is None  # one is back
    assert kept_ledger(shelf, Marks(), SOURCE | {"new"}, IDS) is not None


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_ledger_is_left_alone(damage: Callable[[Path], None], tmp_path: Path) -> None:
    notes: list[str] = []
    shelf = ModelFile(tmp_path, notes.append)
    shelf.put(pack(replayed(some_events(0))).kept(Marks()), WHAT)
    damage(shelf.path(WHAT))
    assert kept_ledger(shelf, Marks(), SOURCE, IDS) is None
    assert "the ledger that was kept is left alone" in notes[0]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("then_kept", [True, False])
def test_a_start_reads_the_events_since_alone(
    exact: bool, then_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everylabel.labelling.learner.EXACT_UP_TO", 10**8 if exact else 0)
    monkeypatch.setattr("everylabel.labelling.desk.PACKED_EVERY", 1)
    shelf, rng = ModelFile(tmp_path, pytest.fail), np.random.default_rng(0)
    with service(tmp_path / "log", check_every=4, annotators_per_item=2, shelf=shelf) as made:
        busy(made, rng, 8)
        refit(made.desk, keep=True)
        kept = shelf.get(WHAT)
        assert kept is not None
        busy(made, rng, 3)
        if then_kept:
            made.desk.keep()
            kept = shelf.get(WHAT)
            model = shelf.get()
            assert kept is not None
            assert (model is None) == exact
            assert model is None or model.seq == kept.seq  # both from one moment
        busy(made, rng, 3)
        before, whole = fingerprint(made), state(made.desk.ledger)
    after = _reads(monkeypatch)
    with service(tmp_path / "log", shelf=shelf) as made:
        assert fingerprint(made) == before
        assert state(made.desk.ledger) == whole
    assert after[-1] == kept.seq > 1
    shelf.path().unlink(missing_ok=True)
    with service(tmp_path / "log", shelf=shelf) as made:  # without the model
        assert fingerprint(made) == before
        assert state(made.desk.ledger) == whole
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before
        assert state(made.desk.ledger) == whole
    assert after[-1] == 0


def _reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the events after which desks will read."""
    after: list[int] = []
    replayed = Desk._replayed

    def noting(desk: Desk, prepared: Any, past: Kept | None) -> Any:
        after.append(0 if past is None else past.seq)
        return replayed(desk, prepared, past)

    monkeypatch.setattr(Desk, "_replayed", noting)
    return after


def test_a_ledger_of_a_long_log_is_kept_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everylabel.labelling.desk.PACKED_EVERY", 1)
    monkeypatch.setattr("everylabel.labelling.desk.PACKED_SHARE", 2)
    with service(tmp_path / "log", shelf=ModelFile(tmp_path, pytest.fail)) as made:
        label(made, 12)
        refit(made.desk, keep=True)
        kept = made.desk.ledger.trained
        label(made, 3)
        assert made.desk.read(made.desk.pack).result() is None
        label(made, kept)
        packed = made.desk.read(made.desk.pack).result()
        assert packed.seq >= 2 * kept


def test_a_ledger_behind_the_last_training_is_not_begun_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = ModelFile(tmp_path, pytest.fail)
    with service(tmp_path / "log", shelf=shelf) as made:
        label(made, 12)
        refit(made.desk)
        label(made, 3)
        shelf.put(made.desk.read(lambda: pack(made.ledger)).result().kept(made.desk.log), WHAT)
        label(made, 2)
        before = fingerprint(made)
    after = _reads(monkeypatch)
    with service(tmp_path / "log", shelf=shelf) as made:
        assert fingerprint(made) == before
    assert after[0] > 0 == after[-1]


def test_what_is_written_before_a_start_is_the_same_from_a_kept_ledger(tmp_path: Path) -> None:
    shelf = ModelFile(tmp_path, pytest.fail)
    with service(tmp_path / "log", shelf=shelf) as made:
        log, ids = made.desk.log, list(made.desk.ids)
        given: dict[str, Any] = {"classes": ["0", "new"], "settings": {"check_every": 3}, "note": str}
        given["source"] = [Label(ids[0], "1"), Label(ids[1], "2")]
        bring_up_to_date(log, ids, **given)  # type: ignore[arg-type]
        ledger = made.desk.ledger
        for event in log.read(ledger.seq):
            apply(ledger, event)
        shelf.put(pack(ledger).kept(log), WHAT)
        n = ledger.seq
        assert bring_up_to_date(log, ids, shelf=shelf, **given) == 0  # type: ignore[arg-type]
        assert log.read(n) == []
        given["source"][0] = Label(ids[0], "2")
        assert bring_up_to_date(log, ids, shelf=shelf, **given) == 1  # type: ignore[arg-type]
        assert [event.body.kind for event in log.read(n)] == ["label", "refit"]
