"""The snapshot holds the whole state, and is used only for its own log and items."""

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.data.items import IdList, stored_ids
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.retrainer import Snapshots, decode, digest, encode
from everylabel.labelling.model.training import Rows
from everylabel.labelling.state.reducer import apply, apply_all
from everylabel.labelling.state.state import State, new_state
from everylabel.log import events
from everylabel.log.events import Event
from everylabel.log.store import Store
from everylabel.projects.log import read_events
from tests.labelling.desks import FEATURES, IDS
from tests.labelling.test_events import ROWS

N_ITEMS = 40
SOME = IDS[:N_ITEMS]
LATER = time.time()  # no lease ends while a test runs


def every_kind() -> list[Event]:
    """Return a log with an event of every kind, by several people, some with keys."""
    people = ["anna", "ben", "me"]
    bodies = [events.from_row(kind, stored) for kind, stored in ROWS]
    return [
        Event(
            seq, 100.0 + seq, "me" if seq < 30 else people[seq % 3], body, f"key {seq}" if seq % 4 else None
        )
        for seq, body in enumerate(bodies, 1)
    ]


def fields(state: State) -> dict[str, Any]:
    """Return all fields of a state as plain values, in the order in which a dict has them."""
    found = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    order = {name: list(value) for name, value in found.items() if isinstance(value, dict)}
    classes = {"book": repr(state.book), "class_changes": repr(state.class_changes)}  # compared by identity
    return {**found, **classes, "ids": list(state.ids), "order": order, "by_item": state.by_item}


def random_log(seed: int, n: int = 300) -> list[Event]:
    """Return a random log of three people."""
    rng, state, made = np.random.default_rng(seed), State(SOME), list[Event]()
    first: list[events.Body] = [
        events.Project(["a", "b", "c"], {"annotators_per_item": 2}, seed=3),
        events.Extended(SOME, "digest"),
    ]
    for i in range(n):
        person, item = str(rng.choice(["anna", "ben", "me"])), SOME[int(rng.integers(N_ITEMS))]
        number, flag, last = int(rng.integers(3)), bool(rng.integers(2)), state.last(person)
        may: list[events.Body] = [
            events.Label(item, number, guess=number, sure=float(rng.random()), check=flag),
            events.Label(item, number, imported="source"),
            events.Label(item, number, bulk=state.seq + 1),
            events.Label(item, number, truth=True),
            events.NoneOfThese(item, guess=None, sure=0.25),
            events.Not(item, class_=number),
            events.CannotTell(item),
            events.Skip(item, flag),
            events.Leased(
                item, "check" if flag else "chosen", expected=0.5, among=1 if flag else None, share=0.5
            ),
            events.Release(item),
            events.ContentChanged(item, confirmed=flag),
            events.AutoLabel(item, number, 0.75, audit=flag),
            events.AutoLabel(item, sure=0.75, present=[number]),
            events.AutoLabel(item),
            events.Promise(0.05, 0.95, kept=flag, class_=number),
            events.HeldOut(item),
            events.Missing(item, back=flag),
            events.Wish(number, 3),
            events.Settings(annotators_per_item=1 + number),
            events.ClassChanged(number, name=f"name {i}", description="some", key="k", colour="#000000"),
            events.Remove(2, 1) if 2 not in state.book.removed else events.Restore(2),
            events.NewClass(f"class {i}"),
            events.Assessed(labels=3, checks=1, expected=0.5),
            *([] if last is None else [events.Undo(last.seq)] * 3),
        ]
        body = first[i] if i < len(first) else may[int(rng.integers(len(may)))]
        made.append(Event(i + 1, LATER + i, person, body, f"key {i}" if flag else None))
        apply(state, made[-1])
    return made


def reduced(log: list[Event]) -> State:
    return apply_all(new_state(log, SOME), log, "the log")


def test_a_state_comes_back_with_every_field() -> None:
    state = apply_all(State(["0", "1", "2", "3"]), every_kind(), "the log")
    assert state.labels
    again = decode(encode(state))
    assert fields(again) == fields(state)
    assert digest(again) == digest(state)
    for field in dataclasses.fields(state):
        if field.name != "ids":
            assert type(getattr(again, field.name)) is type(getattr(state, field.name)), field.name


@pytest.mark.parametrize("ids", [["0", "1", "2"], ["a", "b"], []])
def test_items_can_join_a_state_that_comes_back(ids: list[str]) -> None:
    """Also where ids are row numbers, which are stored as their count."""
    log = [
        Event(1, 0.0, "", events.Project(["a"], {}, seed=0)),
        Event(2, 0.0, "", events.Extended(stored_ids(ids), "digest")),
        Event(3, 0.0, "", events.Extended(["new", "3"], "digest")),
    ]
    source = [*ids, "new", "3"]
    whole = apply_all(new_state(log, source), log, "the log")
    again = decode(encode(apply_all(new_state(log, source), log[:2], "the log")))
    again.source = IdList(source).position
    assert fields(apply_all(again, log[2:], "the log")) == fields(whole)
    assert list(again.ids) == source


@pytest.mark.parametrize("seed", range(4))
def test_a_state_that_comes_back_continues_as_the_first_would(seed: int) -> None:
    log = random_log(seed)
    for cut in (1, 2, 60, 150, 299):
        state = decode(encode(reduced(log[:cut])))
        state.source = IdList(SOME).position
        whole = reduced(log)
        assert fields(apply_all(state, log[cut:], "the log")) == fields(whole)
        assert digest(state) == digest(whole)


def test_an_empty_state_comes_back() -> None:
    assert fields(decode(encode(State([])))) == fields(State([]))


def test_other_states_have_other_digests() -> None:
    log = random_log(0)
    digests = [digest(reduced(log[:n])) for n in range(1, 60)]
    assert len(set(digests)) == len(digests)
    assert digest(reduced(log[:50])) == digests[49]


@contextmanager
def opened(path: Path, log: list[Event]) -> Iterator[Store]:
    store = Store(path, "test")
    try:
        store.append(log)
        yield store
    finally:
        store.close()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a folder with a log and a snapshot of it."""
    with opened(tmp_path / "log", random_log(1, 80)) as store:
        desk = Desk(Rows(SOME, FEATURES[:N_ITEMS], ready=True), store)
        try:
            Snapshots(tmp_path).save(desk)
        finally:
            desk.close()
    return tmp_path


def test_a_start_with_a_snapshot_equals_one_without(saved: Path) -> None:
    with opened(saved / "log", []) as store:
        store.append([Event(81, 0.0, "me", events.Label(SOME[7], 1), "later")])
        found = Snapshots(saved).state(store, SOME)
        assert found is not None
        assert found.seq == 80
        with_it, without = read_events(store, SOME, Snapshots(saved)), read_events(store, SOME)
        assert fields(with_it) == fields(without)
        assert digest(with_it) == digest(without)
        assert with_it.seq == 81


def test_without_a_snapshot_the_log_is_read(tmp_path: Path) -> None:
    with opened(tmp_path / "log", random_log(1, 80)) as store:
        assert Snapshots(tmp_path).state(store, SOME) is None
        assert Snapshots(tmp_path).mean() is None
        assert read_events(store, SOME, Snapshots(tmp_path)).seq == 80


@pytest.mark.parametrize("n", [79, 80, 90])
def test_a_snapshot_of_another_log_is_not_used(saved: Path, n: int) -> None:
    with opened(saved / "another", random_log(2, n)) as store:
        assert Snapshots(saved).state(store, SOME) is None
        assert fields(read_events(store, SOME, Snapshots(saved))) == fields(read_events(store, SOME))


def test_a_snapshot_that_is_ahead_of_its_log_is_not_used(saved: Path) -> None:
    with opened(saved / "shorter", random_log(1, 80)[:60]) as store:  # a backup that was brought back
        assert Snapshots(saved).state(store, SOME) is None


def test_a_snapshot_is_not_used_where_items_are_gone_or_back(saved: Path) -> None:
    with opened(saved / "log", []) as store:
        assert Snapshots(saved).state(store, SOME[1:]) is None
        more = Snapshots(saved).state(store, [*SOME[::-1], "new"])  # more items, in another order
        assert more is not None
        assert list(more.ids) == SOME
        assert fields(read_events(store, SOME[1:], Snapshots(saved))) == fields(read_events(store, SOME[1:]))
        store.append([Event(81, 0.0, "", events.Extended(["late"], "digest"))])
        desk = Desk(Rows(SOME, FEATURES[:N_ITEMS], ready=True), store)  # without the late one
        Snapshots(saved).save(desk)
        desk.close()
        assert Snapshots(saved).state(store, SOME) is not None
        assert Snapshots(saved).state(store, [*SOME, "late"]) is None  # it is back
        assert list(read_events(store, [*SOME, "late"], Snapshots(saved)).ids) == [*SOME, "late"]


def damaged(content: bytes) -> dict[str, bytes]:
    head, _, rest = content.partition(b"\n")
    header = json.loads(head)
    return {
        "empty": b"",
        "no header": rest,
        "cut off": content[:-10],
        "a byte turned": content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
        "not JSON": b"{" + content,
        "a list": b"[]\n" + rest,
        "another format": json.dumps(header | {"format": header["format"] + 1}).encode() + b"\n" + rest,
        "another event": json.dumps(header | {"seq": 79}).encode() + b"\n" + rest,
        "no chain": json.dumps(header | {"seq": 1000, "chain": ""}).encode() + b"\n" + rest,
        "no number": json.dumps({k: v for k, v in header.items() if k != "seq"}).encode() + b"\n" + rest,
    }


@pytest.mark.parametrize("damage", damaged(b'{"format": 1, "seq": 80}\n' + bytes(50)))
def test_a_damaged_snapshot_is_not_used(saved: Path, damage: str) -> None:
    path = saved / "state.snapshot"
    path.write_bytes(damaged(path.read_bytes())[damage])
    with opened(saved / "log", []) as store:
        assert Snapshots(saved).state(store, SOME) is None
        assert read_events(store, SOME, Snapshots(saved)).seq == 80


def test_a_snapshot_that_cannot_be_read_is_reported(saved: Path) -> None:
    told: list[str] = []
    (saved / "state.snapshot").unlink()
    (saved / "state.snapshot").mkdir()
    with opened(saved / "log", []) as store:
        assert Snapshots(saved, told.append).state(store, SOME) is None
    (sentence,) = told
    assert "state.snapshot' cannot be read" in sentence
    assert sentence.endswith("; reading the log")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", None])
def test_a_damaged_mean_is_not_used(saved: Path, content: bytes | None) -> None:
    path = saved / "model.mean.npz"
    assert Snapshots(saved).mean() is not None
    path.write_bytes(path.read_bytes()[:-30] if content is None else content)
    assert Snapshots(saved).mean() is None


def test_only_the_owner_can_read_the_caches(saved: Path) -> None:
    for name in ("state.snapshot", "model.mean.npz"):
        assert (saved / name).stat().st_mode & 0o777 == 0o600
