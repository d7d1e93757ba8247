"""Progress of the labelling: the figures beside the page, from the state alone.

The model's accuracy is estimated in the background (`quality/assessment.py`); this module reads the logged
estimates.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, islice
from typing import Any

import numpy as np

from everylabel.labelling.quality.accuracy import FEWEST, Interval
from everylabel.labelling.quality.certificate import certificate_of
from everylabel.labelling.quality.stopping import stop
from everylabel.labelling.sources.reliability import accuracy as accuracy_of
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import (
    CANNOT_TELL,
    Agreement,
    Answer,
    absent_in_reply,
    bulk_of,
    change_in_words,
    in_reply,
    partly_answered,
    pooled,
)
from everylabel.log.events import Answered, Assessed, Label, MultiLabel, Not, Promise

SECONDS_AN_ITEM = 0.02  # duration of fine-tuning, for the estimate that people see
POINTS = 200  # maximum number of points of the learning curve
SPEED_OVER = 20  # answers over which the speed is measured,
LATELY = 500  # among the latest LATELY answers of all people
BREAK = 120.0  # seconds without an answer that count as a break
FIGURES = ("labels", "expected", "estimate", "low", "high", "commonest", "share")  # of the last `Assessed`
ERRORS = 3  # pairs of classes that a source confuses, in a reply


@dataclass
class NetworkState:
    """The progress of fine-tuning, for the page."""

    why_frozen: str = ""  # why the encoder cannot be fine-tuned
    asks: bool = False  # the pool is so large that a person must agree first
    share: float | None = None  # progress of the running attempt
    error: str = ""
    items: int = 0
    trainer: Any = None  # `projects.network.NetworkTrainer`

    def sentence(self, state: State) -> str:
        """Describe the state of the network in one sentence."""
        if self.why_frozen:
            return f"The network stays as it is. {self.why_frozen}"
        if state.settings["network"] == "frozen":
            return "The network stays as it is: fine-tuning is switched off in the settings."
        if self.share is not None:
            return f"Fine-tuning the network: {_percent(self.share)}. You can continue labelling."
        if self.error:
            return f"The last attempt to fine-tune the network failed: {self.error}"
        if self.asks and state.settings["network"] == "auto":
            minutes = max(1, round(self.items * SECONDS_AN_ITEM / 60))
            return f"Fine-tuning would take about {minutes} minutes: switch it on in the settings."
        if not state.generations:
            return "The network learns from 32 labels on, with four per class on average."
        last = state.generations[-1]
        if not last.trusted:
            return f"At {last.labels} labels fine-tuning did not help; it is tried again later."
        before, after = _percent(last.frozen_accuracy), _percent(last.tuned_accuracy)
        better = f"Since label {last.labels} the model reads your items better"
        if round(100 * last.tuned_accuracy) > round(100 * last.frozen_accuracy):
            return f"{better}: right on {after} of held-out labels, before {before}."
        more = "held-out labels got higher probabilities"  # judged by the log loss (models/finetuning/)
        return f"{better}: {more} (right on {after}, before {before})."

    def reply(self, state: State) -> dict[str, Any]:
        """Return the progress as a reply."""
        return {
            "can": not self.why_frozen,
            "setting": state.settings["network"],
            "share": self.share,
            "sentence": self.sentence(state),
            "generations": [{"labels": each.labels, "trusted": each.trusted} for each in state.generations],
        }


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f}\N{NO-BREAK SPACE}%"


def accuracy(state: State) -> dict[str, Any]:
    """Return the last estimate of the accuracy on unlabelled items, or the number of checks still needed."""
    checks = sum(check.among is None for check in state.standing_checks())
    last = state.assessed[-1] if state.assessed else None
    known = last if checks >= FEWEST and last is not None and last.estimate is not None else None
    figures = {name: getattr(known, name, None) for name in FIGURES}
    if figures["commonest"] not in state.book.order:
        figures |= {"commonest": None, "share": None}
    better = None if known is None else (known.estimate or 0.0) > (known.share or 0.0)
    missing = {"needed": max(0, FEWEST - checks), "unanswered": state.unanswered_checks()}
    n_checks = checks if known is None else known.checks  # from the same moment as the labels
    return {"checks": n_checks, **missing, **figures, "better": better}


def curve(state: State) -> list[dict[str, Any]]:
    """Return the expected accuracy after each label, and the estimated accuracy where there is one."""
    points = state.curve
    looks = {look.labels: look for look in state.assessed}
    sizes = sorted(n for n in {*points, *looks} if n <= len(state.labels))  # an undo leaves fewer
    if len(sizes) > POINTS:
        sizes = [sizes[i] for i in np.unique(np.linspace(0, len(sizes) - 1, POINTS).astype(int))]
    return [_point(points.get(n), looks.get(n) or Assessed(n, 0, points[n])) for n in sizes]


def _point(expected: float | None, look: Assessed) -> dict[str, Any]:
    known = {"accuracy": look.estimate, "low": look.low, "high": look.high, "checks": look.checks}
    return {"labels": look.labels, "expected": look.expected if expected is None else expected, **known}


def per_minute(state: State, person: str) -> float | None:
    """Return the person's recent answers per minute, without breaks and bulk answers."""
    entries = (entry for entry in islice(state.newest_first(), LATELY) if entry.person == person)
    single = (entry for entry in entries if bulk_of(entry) is None)
    times = [entry.at for entry in single if entry.body.votes][:SPEED_OVER][::-1]
    spent = [gap for gap in np.diff(times) if 0 <= gap < BREAK]  # negative: the clock was set back
    return 60.0 * len(spent) / float(sum(spent)) if len(spent) > 1 and sum(spent) > 0 else None


def summary(state: State) -> dict[str, Any]:
    """Return the figures beside the page that the state alone determines, without classes and curve."""
    there, by_model = len(state.ids) - len(state.missing), state.labelled_by_model()
    return {
        "version": state.seq,
        "items": there,
        "labelled": len(state.labels),
        "answers": state.n_answers,
        "left": there - len(state.answers) - sum(item not in state.answers for item in by_model),
        "cannot_tell": state.n_cannot_tell(),
        "per_item": state.tally.by_class.total() / max(1, len(state.labels)) if state.multi_label else None,
        "partial": partly_answered(state.labels.values(), len(state.book.order))
        if state.multi_label
        else None,
        "skipped": sum(item not in state.answers for item in state.skipped),
        "settings": dict(state.settings),
        "accuracy": accuracy(state),
        "agreement": pooled(state.tally.agreement.values()),
        "disputed": len(state.tally.disputed),
        "finished": finished(state),
        "finishing": finishing(state),
        "stop": stop(state),
    }


def sources(state: State) -> list[dict[str, Any]]:
    """Return each source's number of suggestions, agreement with random checks, and frequent errors."""
    drawn = {check.item for check in state.standing_checks() if check.among is None}
    found = []
    for name, suggestions in state.suggestions.items():
        known = ((item, suggestions.get(state.ids[item]), label) for item, label in state.labels.items())
        both = [(item, state.book.current(s.class_), label) for item, s, label in known if s is not None]
        right = [said == label for item, said, label in both if item in drawn]
        share = accuracy_of(right)._asdict() if right else dict.fromkeys(Interval._fields)
        found.append(
            {
                "name": name,
                "suggestions": len(suggestions),
                "answered": len(both),
                "agree": sum(said == label for _, said, label in both),
                "checks": len(right),
                "accuracy": share.pop("estimate"),
                **share,
                "confusions": _confusions((said, label) for _, said, label in both if said is not None),
            }
        )
    return found


def annotators(state: State) -> list[dict[str, Any]]:
    """Return each person's number and speed of answers, and how often others agree on shared items."""
    given, found = _answers_by_person(state), []
    for name, own in given.items():
        others = [answers for person, answers in given.items() if person != name]
        shared = [(value, answers[i]) for i, value in own.items() for answers in others if i in answers]
        named = [(a, b) for a, b in shared if isinstance(a, int) and isinstance(b, int) and min(a, b) >= 0]
        found.append(
            {
                "name": name,
                "answers": state.tally.by_person[name],
                "per_minute": per_minute(state, name),
                "shared": len(shared),
                "agree": sum(value == other for value, other in shared),
                "confusions": _confusions(named),
            }
        )
    return found


def pairs(state: State) -> list[dict[str, Any]]:
    """Return how often each pair of people or sources agrees, with Krippendorff's alpha.

    Not for multi-label projects: sets that share a class would count as different.
    """
    if state.multi_label:
        return []
    given = _answers_by_person(state)
    for suggestions in state.suggested():
        by_item = zip(suggestions.items.tolist(), suggestions.classes.tolist(), strict=True)
        given[suggestions.source] = dict(by_item)
    found = []
    for one, other in combinations(given, 2):
        agreement = Agreement()
        for item in given[one].keys() & given[other].keys():
            agreement.add((given[one][item], given[other][item]))
        figures = agreement.figures()
        if figures is not None:
            found.append({"names": [one, other], **figures})
    return found


def _answers_by_person(state: State) -> dict[str, dict[int, Any]]:
    """Return each person's answer to each item, without "cannot tell"."""
    given: dict[str, dict[int, Any]] = {each["name"]: {} for each in people(state)}
    for item, answers in state.answers.items():
        for answer in answers:
            if answer.value != CANNOT_TELL and answer.person in given:
                given[answer.person][item] = answer.value
    return given


def _confusions(pairs: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Return the pairs of different classes that occur most often."""
    wrong = Counter((said, label) for said, label in pairs if said != label)
    return [{"said": said, "label": label, "n": n} for (said, label), n in wrong.most_common(ERRORS)]


def finished(state: State) -> dict[str, Any] | None:
    """Return the number of auto-labelled items, and the error rate that the confirmations guarantee.

    classes : the same for each class that the model answered by itself; its items stay in the pool
    """
    if not state.finished and not state.kept:
        return None
    return {
        "items": len(state.labelled_by_model()),
        **_promised(state.kept.get(None, Promise())),
        "classes": [{"class": c, **_promised(state.kept[c])} for c in state.book.order if c in state.kept],
    }


def _promised(kept: Promise) -> dict[str, Any]:
    names = ("rate", "confidence", "confirmed", "wrong")
    return {"of": kept.items, **{name: getattr(kept, name) for name in names}}


def finishing(state: State) -> dict[str, Any] | None:
    """Return the progress of the confirmations for auto-labelling; None if none are running."""
    promise = state.confirmation
    now = None if promise is None else certificate_of(state)
    if now is None or promise is None:
        return None
    least = len(state.proposals) if now.certified is None else now.certified
    ready = sum(level >= least for _, _, level in state.proposals.values())
    return {
        "class": promise.class_,
        "rate": promise.rate,
        "confidence": promise.confidence,
        "items": now.size,  # items that the model would label
        "confirmed": now.confirmed,
        "wrong": now.wrong,
        "needed": now.needed,  # further confirmations, if none of them is wrong
        "ready": ready,  # items that the model may label now
    }


def test_set(state: State, tested: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return how much of the test set is labelled, and the last estimate of the accuracy on it."""
    if not state.test:
        return None
    known = {name: None if tested is None else tested[name] for name in ("n", "estimate", "low", "high")}
    return {
        "items": len(state.test),
        "answered": sum(item in state.answers for item in state.test),
        "labelled": len(state.test_labels),
        **known,
    }


def classes(state: State, predicted: Mapping[int, int] | None = None) -> list[dict[str, Any]]:
    """Return the classes in the order shown, each with its number of labels and of predicted items."""
    book = state.book
    return [
        {
            "id": i,
            "name": book.names[i],
            "description": book.descriptions.get(i, ""),
            "key": book.keys.get(i, ""),
            "colour": book.colours.get(i, ""),
            "labels": state.tally.by_class[i],
            "predicted": None if predicted is None else predicted.get(i, 0),
        }
        for i in book.order
    ]


def class_changes(state: State) -> dict[str, Any]:
    """Return the removed classes, and the last change that can be undone, with its event number."""
    book, last = state.book, state.class_changes[-1] if state.class_changes else None
    return {
        "removed": [{"id": i, "name": book.names[i], "into": into} for i, into in book.removed.items()],
        "last": None
        if last is None
        else {"saved": last.seq, "what": change_in_words(last.body, last.before)},
    }


def people(state: State) -> list[dict[str, Any]]:
    """Return the people who label, each with their number of answers and the item that they have."""
    held = {person: state.ids[lease.item] for person, lease in state.leases.items()}
    answers = state.tally.by_person
    names = sorted({*(+answers), *held})
    return [{"name": name, "answers": answers[name], "item": held.get(name)} for name in names]


def disputed(state: State, limit: int) -> list[dict[str, Any]]:
    """Return the items with tied votes, the latest first, with each person's answer."""
    pairs = [(item, state.label_of(item)) for item in islice(reversed(state.tally.disputed), limit)]
    return [
        {
            "item": state.ids[item],
            "label": in_reply(label),
            **absent_in_reply(label),
            "answers": answers_to(state, item),
        }
        for item, label in pairs
    ]


def answers_to(state: State, item: int) -> list[dict[str, Any]]:
    """Return each person's answer to an item; None is "cannot tell"."""
    return listed_answers(state.answers.get(item, []))


def listed_answers(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return each person's answer as a reply; None is "cannot tell"."""
    return [
        {
            "person": answer.person,
            "class": None if answer.value == CANNOT_TELL else in_reply(answer.value),
            **absent_in_reply(answer.value),
        }
        for answer in answers
    ]


def history(state: State, person: str, limit: int, before: int | None) -> list[dict[str, Any]]:
    """Return the answers of one person, or of all, the latest first."""
    found: list[dict[str, Any]] = []
    entries = (e for e in state.newest_first(person) if before is None or e.seq < before)
    for entry in islice(entries, limit):
        found.append(
            {
                "saved": entry.seq,
                "at": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds"),
                "person": entry.person,
                "kind": entry.body.kind,
                "item": entry.body.item,
                **_class_of(state, entry.body),
                "undone": entry.seq in state.undone,
            }
        )
    return found


def _class_of(state: State, body: Answered) -> dict[str, Any]:
    """Return the current class of an answer and its name, even if the class was removed."""
    if isinstance(body, MultiLabel):
        names = [state.classes[number] for number in body.present]
        absent = [state.classes[number] for number in body.absent]
        return {"class": body.present, "class_name": names, "absent": absent}
    if not isinstance(body, Label | Not):
        return {"class": None, "class_name": None}
    now = state.book.current(body.class_)
    return {"class": now, "class_name": state.classes[body.class_ if now is None else now]}
