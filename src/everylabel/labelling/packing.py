"""A ledger as plain data, so that a start need not read the whole log: JSON and arrays, no code.

It is a shortcut, never the truth, as a kept model is (`kept.py`): one that does not fit this very log up to
its place in it, and the items of now, is left alone, and the log is replayed from its first event.
"""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.id_list import IdList
from everylabel.labelling import events
from everylabel.labelling.agreement import Agreement
from everylabel.labelling.answers import Answers
from everylabel.labelling.class_book import ClassBook
from everylabel.labelling.columns import Numbers, as_column
from everylabel.labelling.curve import Curve
from everylabel.labelling.events import Event, from_row, to_row
from everylabel.labelling.kept import Kept, Marked, Shelf
from everylabel.labelling.keys import Keys
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.record import Record
from everylabel.labelling.records import Check, ClassChange, Drawn, Lease, Tally

FORMAT = 3  # another number where the same events give another ledger, or it is written otherwise
WHAT = "ledger"  # on a shelf
AS_IT_IS = (  # fields that JSON holds
    *("seq", "names", "n_names", "names_hold", "settings", "seed", "handed", "n_changes", "n_answers"),
    *("trained", "told_by", "joined", "by_person", "not_wanted"),
)
PAIRS = ("aside", "changed", "finished", "test_labels", "wishes", "by_class")  # numbers by number
NUMBERS = ("audits", "left", "doubted", "wanting", "disputed", "test")  # in their order
NONE = np.iinfo(np.int64).min


class Packed(NamedTuple):
    """Copies of all that a ledger holds: what JSON can hold once `text` is called, and arrays."""

    seq: int
    text: Callable[[], str]
    arrays: dict[str, np.ndarray]

    def kept(self, log: Marked) -> Kept:
        """Return what goes on a shelf."""
        arrays = {**self.arrays, "text": np.frombuffer(self.text().encode(), np.uint8)}
        return Kept(self.seq, log.mark(self.seq), "", maker(), arrays)


def maker() -> str:
    """Return what makes a ledger of events."""
    from everylabel import __version__

    return f"ledger {FORMAT}, everylabel {__version__}"


def pack(ledger: Ledger) -> Packed:
    """Return copies of all that a ledger holds; quick, for the desk's thread."""
    plain: dict[str, Any] = {name: _copied(getattr(ledger, name)) for name in AS_IT_IS}
    record = ledger.history
    plain |= {
        "given": len(ledger.given),
        "ids": _as_few(ledger.ids),
        "absent": list(ledger.absent),
        "people": list(record.people),
        "origins": list(record.origins),
        "book": ledger.book,
        "class_changes": list(ledger.class_changes),
        "phrases": list(ledger.phrases.items()),
        "encoders": list(ledger.encoders.items()),
        "imported_descriptions": list(ledger.imported_descriptions.items()),
        "leases": list(ledger.leases.items()),
        "holder": list(ledger.holder.items()),
        "shown": [(*whose, seq) for whose, seq in ledger.shown.items()],
        "skipped": [(item, list(some)) for item, some in ledger.skipped.items()],
        "requests": list(ledger.requests.values()),
        "assessed": list(ledger.assessed),
        "tally": ledger.tally,
        "agreement": _copied(ledger.agreement.__dict__),
        "done": list(ledger.done),
    }
    arrays = {name: _pairs(getattr(ledger, name)) for name in PAIRS}
    arrays |= {name: np.array(list(getattr(ledger, name)), np.int64) for name in NUMBERS}
    arrays |= {"undone": np.array(sorted(ledger.undone), np.int64)}
    arrays |= {f"vectors {number}": np.array(some) for number, some in ledger.vectors.items()}
    parts = {"record": record.packed(), "keys": ledger.keys.packed(), "answers": ledger.answers.packed()}
    arrays |= {f"{part} {name}": some for part, packed in parts.items() for name, some in packed.items()}
    arrays |= {"latest": record.latest.packed(), "labels": ledger.labels.packed()}
    arrays |= {"first": ledger.first.packed(), "curve": ledger.curve.packed()}
    arrays |= _lists("done", range(len(ledger.done)), ledger.done.values())
    arrays |= _lists("bulks", ledger.bulks, ledger.bulks.values())
    checks = list(ledger.checks.values())
    arrays["checks"] = np.array(
        [(c.seq, c.item, c.guess, _or(c.among, NONE)) for c in checks], np.int64
    ).reshape(-1, 4)
    arrays["check shares"] = np.array([check.share for check in checks], np.float64)
    drawn = list(ledger.checked.items())
    arrays["checked"] = np.array([(item, _or(each.among, NONE)) for item, each in drawn], np.int64).reshape(
        -1, 2
    )
    arrays["checked shares"] = np.array([_or(each.share, np.nan) for _, each in drawn], np.float64)
    return Packed(ledger.seq, lambda: json.dumps(plain, default=_as_json), arrays)


def unpack(kept: Kept, source: Container[str] | None = None) -> Ledger:
    """Return the ledger that was packed; source : see `Ledger`."""
    try:
        return _unpacked(kept, source)
    except (LookupError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise EverylabelError(
            f"the ledger that was kept is not as this version writes it ({type(error).__name__}: {error}); "
            f"delete {WHAT}.kept.npz in the project's folder: it is made anew from the log"
        ) from error


def _unpacked(kept: Kept, source: Container[str] | None) -> Ledger:
    arrays, plain = kept.arrays, _plain(kept)
    ids = _ids(plain)
    ledger = Ledger(ids, source)
    ledger.given = ids[: plain["given"]]
    for name in AS_IT_IS:
        kind = type(getattr(ledger, name))
        setattr(ledger, name, Counter(plain[name]) if kind is Counter else plain[name])
    for name in PAIRS:
        pairs: dict[int, int] = dict(arrays[name].tolist())
        setattr(ledger, name, Counter(pairs) if name == "by_class" else pairs)
    for name in NUMBERS:
        setattr(ledger, name, dict.fromkeys(arrays[name].tolist()))
    ledger.undone, ledger.absent = set(arrays["undone"].tolist()), set(plain["absent"])
    ledger.book = _book(plain["book"])
    ledger.class_changes = [_class_change(each) for each in plain["class_changes"]]
    ledger.phrases = {number: tuple(some) for number, some in plain["phrases"]}
    ledger.encoders, ledger.holder = dict(plain["encoders"]), dict(plain["holder"])
    ledger.imported_descriptions = dict(plain["imported_descriptions"])
    ledger.vectors = {int(n[8:]): some for n, some in arrays.items() if n.startswith("vectors ")}
    ledger.leases = {person: Lease(*lease) for person, lease in plain["leases"]}
    ledger.shown = {(item, person): seq for item, person, seq in plain["shown"]}
    ledger.skipped = {item: [(seq, who) for seq, who in some] for item, some in plain["skipped"]}
    ledger.requests = {row[0]: _event(*row) for row in plain["requests"]}
    ledger.assessed = [_assessed(each) for each in plain["assessed"]]
    ledger.tally, ledger.agreement = Tally(*plain["tally"]), _agreement(plain["agreement"])
    ledger.keys = Keys.unpacked(_part(arrays, "keys"))
    latest, columns = Numbers.unpacked(arrays["latest"]), _part(arrays, "record")
    people, origins = plain["people"], plain["origins"]
    ledger.history = Record.unpacked(ledger.ids, people, origins, latest, columns)
    ledger.answers = Answers.unpacked(ledger.history, _part(arrays, "answers"))
    ledger.labels, ledger.first = Numbers.unpacked(arrays["labels"]), Numbers.unpacked(arrays["first"])
    ledger.curve = Curve.unpacked(arrays["curve"])
    ledger.done = dict(zip(plain["done"], _unlisted("done", arrays).values(), strict=True))
    ledger.bulks = _unlisted("bulks", arrays)
    both = zip(arrays["checks"].tolist(), arrays["check shares"].tolist(), strict=True)
    ledger.checks = {
        seq: Check(seq, item, guess, _known(among), share) for (seq, item, guess, among), share in both
    }
    drawn = zip(arrays["checked"].tolist(), arrays["checked shares"].tolist(), strict=True)
    ledger.checked = {
        item: Drawn(_known(among), None if share != share else share) for (item, among), share in drawn
    }
    return ledger


def vouched(shelf: Shelf | None) -> tuple[int, str] | None:
    """Return the event up to which a kept ledger holds what a log says, and the log's digest there."""
    kept = None if shelf is None else shelf.get(WHAT, again=True)
    return None if kept is None or kept.made_by != maker() or kept.seq < 1 else (kept.seq, kept.log)


def kept_ledger(
    shelf: Shelf | None, log: Marked, members: Container[str], ids: Sequence[str], again: bool = False
) -> Kept | None:
    """Return a kept ledger that a replay of this log would give on its way, with the items there are now.

    members : ids of the items that are there, and `ids`, all of them in the source's order
    again : it is asked for once more soon
    """
    kept = None if shelf is None else shelf.get(WHAT, again)
    if shelf is None or kept is None or kept.made_by != maker():
        return None
    if kept.seq < 1 or log.mark(kept.seq) != kept.log:
        shelf.note(
            "the ledger that was kept is left alone: it is of another log; it is made anew from this one"
        )
        return None
    try:
        plain = _plain(kept)
        here = _ids(plain)
        same = here == ids or (plain["joined"] and all(name in members for name in here))
        return kept if same and not any(name in members for name in plain["absent"]) else None
    except (LookupError, ValueError, TypeError):
        return None


def _as_few(ids: IdList) -> int | list[str]:
    """Return ids as JSON holds them: how many, where they are numbers in order."""
    return len(ids) if ids == IdList.numbered(len(ids)) else list(ids)


def _ids(plain: Mapping[str, Any]) -> IdList:
    stored = plain["ids"]
    return IdList.numbered(stored) if isinstance(stored, int) else IdList(stored)


def _plain(kept: Kept) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(np.ascontiguousarray(kept.arrays["text"]).tobytes())
    return found


def _as_json(value: Any) -> Any:
    """Return what JSON does not know as what it knows."""
    if isinstance(value, ClassBook):
        maps = (value.removed, value.descriptions, value.keys, value.colours)
        return [value.names, value.order, *(list(one.items()) for one in maps)]
    if isinstance(value, Event):
        return [value.seq, value.block, value.at, value.person, *to_row(value.body), value.key]
    return to_row(value)  # a body


def _book(stored: Sequence[Any]) -> ClassBook:
    names, order, *maps = stored
    return ClassBook(names, tuple(order), *(dict(one) for one in maps))


def _class_change(stored: Sequence[Any]) -> ClassChange:
    seq, body, before = stored
    return ClassChange(seq, from_row(*body), _book(before))  # type: ignore[arg-type]


def _event(seq: int, block: int, at: float, person: str, kind: str, body: Any, key: str | None) -> Event:
    return Event(seq, block, at, person, from_row(kind, body), key)


def _assessed(stored: Sequence[Any]) -> events.Assessed:
    body = from_row(*stored)
    assert isinstance(body, events.Assessed)
    return body


def _agreement(stored: dict[str, Any]) -> Agreement:
    made = Agreement()
    made.__dict__.update(stored, totals=Counter({int(value): n for value, n in stored["totals"].items()}))
    return made


def _copied(value: Any) -> Any:
    return {key: _copied(some) for key, some in value.items()} if isinstance(value, dict) else value


def _pairs(some: Mapping[int, int]) -> np.ndarray:
    return np.array(list(some.items()), np.int64).reshape(-1, 2)


def _lists(name: str, numbers: Iterable[int], lists: Iterable["array[int]"]) -> dict[str, np.ndarray]:
    """Return lists of numbers, each with a number of its own, as arrays."""
    some = [np.array(each) for each in lists]
    return {
        f"{name} of": np.array(list(numbers), np.int64),
        f"{name} sizes": np.array([len(each) for each in some], np.int64),
        f"{name} all": np.concatenate([*some, np.zeros(0, np.int64)]),
    }


def _unlisted(name: str, arrays: Mapping[str, np.ndarray]) -> dict[int, "array[int]"]:
    ends = np.cumsum(arrays[f"{name} sizes"])[:-1]
    parts = np.split(arrays[f"{name} all"], ends) if len(arrays[f"{name} of"]) else []
    numbers = arrays[f"{name} of"].tolist()
    return {number: as_column("q", part) for number, part in zip(numbers, parts, strict=True)}


def _part(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(f"{part} "): some for n, some in arrays.items() if n.startswith(f"{part} ")}


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _known(value: int) -> int | None:
    return None if value == NONE else value
