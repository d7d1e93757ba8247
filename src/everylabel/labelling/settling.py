"""What the answers to an item add up to: its label, and the counts of answers, classes and agreement."""

from collections import Counter

from everylabel.labelling.ledger import Ledger
from everylabel.labelling.record import TRUTH
from everylabel.labelling.records import CANNOT_TELL, IMPORT, Answer, is_tied


def settle(ledger: Ledger, item: int, answers: list[Answer]) -> None:
    """Learn what most people say; of a tie, what a person said last, before what was imported.

    Where somebody speaks for all, only such answers count.
    """
    if item in ledger.answers:
        count(ledger, item, -1)
    told = answers if len(answers) < 2 else _in_order(ledger, answers)
    values = [answer.value for answer in told if answer.value != CANNOT_TELL]
    labels = ledger.test_labels if item in ledger.test else ledger.labels
    if values:
        labels[item] = _most_said(values)
    else:
        labels.pop(item, None)
    ledger.answers[item] = answers
    count(ledger, item, 1)
    if not answers:
        del ledger.answers[item]
    if item in ledger.labels:
        ledger.first[item] = next(i for i in ledger.history.places(item) if ledger.stands(item, i))
    else:
        ledger.first.pop(item, None)
    ledger.n_changes += 1


def _in_order(ledger: Ledger, answers: list[Answer]) -> list[Answer]:
    """Return the answers that count, the one that decides a tie last."""
    told = sorted(answers, key=lambda answer: (answer.person != IMPORT, answer.seq))
    return [answer for answer in told if _is_truth(ledger, answer)] or told


def _most_said(values: list[int]) -> int:
    """Return what most say; of a tie, the last."""
    if len(values) == 1:
        return values[0]
    counts = Counter(values)
    most = max(counts.values())
    return next(value for value in reversed(values) if counts[value] == most)


def _is_truth(ledger: Ledger, answer: Answer) -> bool:
    """Return whether an answer speaks for all."""
    place = ledger.history.place_of(answer.seq)
    return place is not None and bool(ledger.history.flags[place] & TRUTH)


def count(ledger: Ledger, item: int, sign: int) -> None:
    """Add an item's answers to the counts, or take them off."""
    answers = ledger.answers.get(item, [])
    ledger.n_answers += sign * len(answers)
    for answer in answers:
        ledger.by_person[answer.person] += sign
    if item in ledger.labels:
        ledger.by_class[ledger.labels[item]] += sign
    if len(answers) > 1:
        values = [answer.value for answer in answers if answer.value != CANNOT_TELL]
        ledger.agreement.add(values, sign)
        if len(values) > 1 and is_tied(values):
            _mark(ledger.disputed, item, sign)
    if 0 < len(answers) < ledger.settings["annotators_per_item"]:
        for answer in answers:
            ledger.not_wanted[answer.person] += sign
        _mark(ledger.wanting, item, sign)


def _mark(items: dict[int, None], item: int, sign: int) -> None:
    """Take an item in, as the latest, or take it out (sign -1)."""
    if sign > 0:
        items[item] = None
    else:
        del items[item]
