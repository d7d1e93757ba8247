"""How far the labelling is: the figures beside the page, from the ledger alone.

How good the model is was found in the background (`assessing.py`); here it is read from what was written.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import numpy as np

from everylabel.labelling.quality.accuracy import FEWEST
from everylabel.labelling.quality.auto_label import audit
from everylabel.labelling.quality.stopping import stop
from everylabel.labelling.state.class_book import change_in_words
from everylabel.labelling.state.state import Ledger
from everylabel.labelling.state.types import CANNOT_TELL, Answer
from everylabel.log.events import Answered, Assessed, Label, Not, Skip

POINTS = 200  # of the learning curve at most
SPEED_OVER = 20  # answers that labels a minute are taken from,
LATELY = 500  # among so many of all
PEOPLE = 50  # named in a reply: names are free, and a script may make up thousands
BREAK = 120.0  # seconds without an answer that are a break
FIGURES = ("labels", "expected", "estimate", "low", "high", "commonest", "share")  # of the last look


def accuracy(ledger: Ledger) -> dict[str, Any]:
    """Return how good the model is on what is left, when last looked at, or how many checks are missing."""
    checks = ledger.tally.checks
    last = ledger.assessed[-1] if ledger.assessed else None
    known = last if checks >= FEWEST and last is not None and last.estimate is not None else None
    figures = {name: getattr(known, name, None) for name in FIGURES}
    if figures["commonest"] not in ledger.book.order:
        figures |= {"commonest": None, "share": None}
    better = None if known is None else (known.estimate or 0.0) > (known.share or 0.0)
    missing = {"needed": max(0, FEWEST - checks), "unanswered": ledger.tally.unanswered}
    told = checks if known is None else known.checks  # as of the same moment as the labels
    return {"checks": told, **missing, **figures, "better": better}


def curve(ledger: Ledger) -> list[dict[str, Any]]:
    """Return what the model expected of itself after each label, and how good it was, where that is known."""
    points = ledger.curve
    looks = {look.labels: look for look in ledger.assessed}
    sizes = sorted(n for n in {*points, *looks} if n <= len(ledger.labels))  # after an undo there are fewer
    if len(sizes) > POINTS:
        sizes = [sizes[i] for i in np.unique(np.linspace(0, len(sizes) - 1, POINTS).astype(int))]
    return [_point(n, points.get(n), looks.get(n)) for n in sizes]


def _point(labels: int, expected: float | None, look: Assessed | None) -> dict[str, Any]:
    if look is None:
        return {
            "labels": labels,
            "expected": expected,
            "accuracy": None,
            "low": None,
            "high": None,
            "checks": 0,
        }
    known = {"accuracy": look.estimate, "low": look.low, "high": look.high, "checks": look.checks}
    return {"labels": labels, "expected": look.expected if expected is None else expected, **known}


def per_minute(ledger: Ledger, person: str) -> float | None:
    """Return the person's answers a minute, over the last of them, breaks left out."""
    entries = (entry for entry in islice(ledger.newest_first(), LATELY) if entry.person == person)
    times = [entry.at for entry in entries if not isinstance(entry.body, Skip | Not)][:SPEED_OVER][::-1]
    spent = [gap for gap in np.diff(times) if 0 <= gap < BREAK]  # a clock that was set back tells nothing
    return 60.0 * len(spent) / float(sum(spent)) if len(spent) > 1 and sum(spent) > 0 else None


def summary(
    ledger: Ledger,
    *,
    update_ms: float | None,
    select_ms: float | None,
    names: Mapping[str, Any] | None = None,
    tested: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the figures beside the page that are the same for all people, without the curve."""
    there = len(ledger.ids) - len(ledger.left)
    return {
        "version": ledger.seq,
        "items": there,
        "labelled": len(ledger.labels),
        "answers": ledger.n_answers,
        "left": there - len(ledger.answers) - ledger.tally.by_model,
        "cannot_tell": ledger.n_cannot_tell(),
        "skipped": ledger.tally.skipped,
        "update_ms": update_ms,
        "select_ms": select_ms,
        "classes": classes(ledger),
        "settings": dict(ledger.settings),
        "accuracy": accuracy(ledger),
        "agreement": ledger.agreement.figures(),
        "disputed": len(ledger.disputed),
        "finished": audit(ledger),
        "test": test_set(ledger, tested),
        "stop": stop(ledger),
        "names": names,
    }


def test_set(ledger: Ledger, tested: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return how far the test set is labelled, and the accuracy on it when last looked at."""
    if not ledger.test:
        return None
    known = {name: None if tested is None else tested[name] for name in ("n", "estimate", "low", "high")}
    return {
        "items": len(ledger.test),
        "answered": ledger.tally.tested,
        "labelled": len(ledger.test_labels),
        **known,
    }


def names(on: bool, hold: bool, used: bool) -> dict[str, Any]:
    """Return whether class names teach, and a sentence."""
    if on and not hold:
        sentence = "The class names are of no use here: the answers do not fit them. They are left aside."
    elif on:
        sentence = "The model starts from the class names, and believes them as long as the answers fit."
    else:
        sentence = "The model does not look at the class names: that is switched off in the settings."
    return {"on": on, "hold": hold, "used": used, "sentence": sentence}


def classes(ledger: Ledger, predicted: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Return the classes as they are shown, with how many labels each has and how many are predicted so."""
    book = ledger.book
    return [
        {
            "id": i,
            "name": book.names[i],
            "description": book.descriptions.get(i, ""),
            "key": book.keys.get(i, ""),
            "colour": book.colours.get(i, ""),
            "labels": ledger.by_class[i],
            "predicted": None if predicted is None or i >= len(predicted) else int(predicted[i]),
        }
        for i in book.order
    ]


def class_changes(ledger: Ledger) -> dict[str, Any]:
    """Return the classes that were removed, and the change that can be taken back, with its number."""
    book, last = ledger.book, ledger.class_changes[-1] if ledger.class_changes else None
    return {
        "removed": [{"id": i, "name": book.names[i], "into": into} for i, into in book.removed.items()],
        "last": None
        if last is None
        else {"saved": last.seq, "what": change_in_words(last.body, last.before)},
    }


def people(ledger: Ledger, person: str) -> dict[str, Any]:
    """Return who labels here: whoever asks, then those with most answers; and how many are left out."""
    counts = ledger.by_person
    everybody = {*(+counts), *ledger.leases}
    most = sorted(everybody, key=lambda name: (name != person, -counts[name], name))
    names = sorted(most[:PEOPLE])
    held = {person: ledger.ids[lease.item] for person, lease in ledger.leases.items()}
    rows = [{"name": name, "answers": counts[name], "item": held.get(name)} for name in names]
    return {"people": rows, "more_people": len(everybody) - len(rows)}


def disputed(ledger: Ledger, limit: int) -> list[dict[str, Any]]:
    """Return items on which no class has most voices, the latest first, with what each person says."""
    return [
        {"item": ledger.ids[item], "label": ledger.label_of(item), "answers": answers_to(ledger, item)}
        for item in islice(reversed(ledger.disputed), limit)
    ]


def answers_to(ledger: Ledger, item: int) -> list[dict[str, Any]]:
    """Return who says what of an item; None is "cannot tell"."""
    return told(ledger.answers.get(item, []))


def told(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return who says what; None is "cannot tell"."""
    return [
        {"person": answer.person, "class": None if answer.value == CANNOT_TELL else answer.value}
        for answer in answers
    ]


def history(ledger: Ledger, person: str, limit: int, before: int | None) -> list[dict[str, Any]]:
    """Return answers, the latest first."""
    found: list[dict[str, Any]] = []
    entries = (e for e in ledger.newest_first(person) if before is None or e.seq < before)
    for entry in islice(entries, limit):
        found.append(
            {
                "saved": entry.seq,
                "at": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds"),
                "person": entry.person,
                "kind": entry.body.kind,
                "item": entry.body.item,
                **_class_of(ledger, entry.body),
                "undone": entry.seq in ledger.undone,
            }
        )
    return found


def _class_of(ledger: Ledger, body: Answered) -> dict[str, Any]:
    """Return the class of an answer by the classes of now, and its name, also if it was removed."""
    if not isinstance(body, Label | Not):
        return {"class": None, "class_name": None}
    now = ledger.book.now(body.class_)
    return {"class": now, "class_name": ledger.classes[body.class_ if now is None else now]}
