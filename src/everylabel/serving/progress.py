"""How far the labelling is: an accuracy one can believe, agreement, speed, and when to stop.

Accuracy. Every tenth instance (adjustable) is drawn at random from those not yet answered and the
model's guess is noted before it learns the answer. The share of right guesses among the last checks
is an unbiased estimate of the accuracy on what is left, as it was over those checks; the interval is
Wilson's (1927).
Agreement. Krippendorff's alpha (2004) for nominal answers of any number of people.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from everylabel.serving.ledger import Answer, Check, Ledger

WINDOW = 50  # random checks that the present accuracy is taken from
Z = 1.959964  # of a 95 % interval
POINTS = 200  # of the learning curve at most
STEADY = 0.01  # share of the pool that may still change when labelling can stop
FEWEST = 60  # labels before which nobody is told to stop
SPEED_OVER = 20  # answers that labels a minute are taken from


def wilson(right: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    p, z2 = right / n, Z * Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def accuracy(checks: Sequence[Check]) -> dict[str, Any] | None:
    """Return the share of right guesses among the last checks, with its interval."""
    last = checks[-WINDOW:]
    if not last:
        return None
    right = sum(check.right for check in last)
    low, high = wilson(right, len(last))
    estimate = right / len(last)
    return {
        "checks": len(last), "right": right, "estimate": estimate, "low": low, "high": high, "window": WINDOW
    }  # fmt: skip


def curve(ledger: Ledger) -> list[dict[str, Any]]:
    """Return what the model expected of itself after each label, and the checks up to then."""
    points = dict(ledger.curve)  # the last of each number of labels
    sizes = sorted(n for n in points if n <= len(ledger.labels))  # after an undo there are fewer
    if len(sizes) > POINTS:
        sizes = [sizes[i] for i in np.unique(np.linspace(0, len(sizes) - 1, POINTS).astype(int))]
    rows, at = [], 0
    for n in sizes:
        while at < len(ledger.checks) and ledger.checks[at].labels <= n:
            at += 1
        known = accuracy(ledger.checks[:at]) or {"estimate": None, "low": None, "high": None}
        row = {"labels": n, "expected": points[n], "accuracy": known["estimate"]}
        rows.append({**row, "low": known["low"], "high": known["high"]})
    return rows


def agreement(answers: Sequence[Sequence[Answer]]) -> dict[str, Any] | None:
    """Return how often two people give the same answer, and Krippendorff's alpha."""
    units = [[answer.value for answer in given] for given in answers if len(given) > 1]
    if not units:
        return None
    totals: Counter[int] = Counter(value for unit in units for value in unit)
    n = sum(totals.values())
    same = pairs = observed = 0.0
    for unit in units:
        m, counts = len(unit), Counter(unit)
        alike = sum(c * (c - 1) for c in counts.values())
        same, pairs = same + alike, pairs + m * (m - 1)
        observed += (m * (m - 1) - alike) / (m - 1)
    chance = sum(c * (n - c) for c in totals.values()) / (n - 1)
    alpha = 1.0 - observed / chance if chance else None  # one answer only: there is nothing to agree on
    return {"items": len(units), "share": same / pairs, "alpha": alpha}


def per_minute(ledger: Ledger, person: str) -> float | None:
    """Return the person's answers a minute, over the last of them."""
    times = [e.at for e in ledger.history[-500:] if e.person == person and e.kind != "skip"][-SPEED_OVER:]
    if len(times) < 3 or times[-1] <= times[0]:
        return None
    return 60.0 * (len(times) - 1) / (times[-1] - times[0])


def stop(ledger: Ledger, changed: tuple[float, int] | None) -> dict[str, Any]:
    """Return whether more labels would change little, and the number that says so.

    Stabilising predictions (Bloodgood & Vijay-Shanker 2009), told in the user's terms: what share
    of the pool would be classified otherwise without the last fifth of the labels?
    """
    if changed is None:
        return {"suggest": False, "changed": None, "without_last": None, "sentence": ""}
    share, last = changed
    known = accuracy(ledger.checks)
    suggest = share <= STEADY and len(ledger.labels) >= FEWEST and not _rising(ledger.checks)
    sentence = f"Without the last {last} labels, {share:.1%} of the pool would be classified otherwise."
    if suggest:
        sure = "" if known is None else _sure(known)
        sentence += f" More labels of this kind change little.{sure} You may stop here."
    return {"suggest": suggest, "changed": share, "without_last": last, "sentence": sentence}


def _sure(known: dict[str, Any]) -> str:
    interval = f"{known['low']:.0%} to {known['high']:.0%}"
    return f" Accuracy is about {known['estimate']:.0%} ({interval}, {known['checks']} random checks)."


def _rising(checks: Sequence[Check]) -> bool:
    """Return whether the later half of the last checks is better than the earlier by more than chance."""
    last = checks[-WINDOW:]
    half = len(last) // 2
    if half < 5:
        return False
    early, late = (np.mean([c.right for c in part]) for part in (last[:half], last[-half:]))
    mean = (early + late) / 2
    return bool(late - early > Z * np.sqrt(2 * mean * (1 - mean) / half))


def summary(
    ledger: Ledger,
    person: str,
    *,
    update_ms: float | None,
    select_ms: float | None,
    changed: tuple[float, int] | None,
    predicted: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the figures beside the page, without the curve."""
    return {
        "version": ledger.seq,
        "items": len(ledger.ids),
        "labelled": len(ledger.labels),
        "answers": ledger.n_answers,
        "left": len(ledger.ids) - len(ledger.answers),
        "cannot_tell": ledger.n_cannot_tell(),
        "skipped": len(ledger.skipped),
        "people": _people(ledger),
        "per_minute": per_minute(ledger, person),
        "update_ms": update_ms,
        "select_ms": select_ms,
        "classes": classes(ledger, predicted),
        "settings": dict(ledger.settings),
        "accuracy": accuracy(ledger.checks),
        "agreement": agreement([ledger.answers[item] for item in sorted(ledger.several)]),
        "stop": stop(ledger, changed),
    }


def classes(ledger: Ledger, predicted: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Return the classes with how many labels each has, and how many instances are predicted so."""
    return [
        {
            "id": i,
            "name": name,
            "labels": ledger.by_class[i],
            "predicted": None if predicted is None or i >= len(predicted) else int(predicted[i]),
        }
        for i, name in enumerate(ledger.classes)
    ]


def _people(ledger: Ledger) -> list[dict[str, Any]]:
    counts = ledger.by_person
    names = sorted({*(+counts), *ledger.leases})
    held = {person: ledger.ids[lease.item] for person, lease in ledger.leases.items()}
    return [{"name": name, "answers": counts[name], "item": held.get(name)} for name in names]


def history(ledger: Ledger, person: str, limit: int, before: int | None) -> list[dict[str, Any]]:
    """Return answers, the latest first."""
    found: list[dict[str, Any]] = []
    for event in reversed(ledger.history):
        if (before is not None and event.seq >= before) or (person and event.person != person):
            continue
        if len(found) == limit:
            break
        found.append(
            {
                "saved": event.seq,
                "at": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds"),
                "person": event.person,
                "kind": event.kind,
                "item": event.body["item"],
                "class": event.body.get("class"),
                "undone": event.seq in ledger.undone,
            }
        )
    return found
