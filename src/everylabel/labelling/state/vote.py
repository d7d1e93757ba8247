"""The label that the answers to an item add up to, and the counts of answers, classes and agreement."""

from collections import Counter

from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import CANNOT_TELL, IMPORT, Answer, is_tied
from everylabel.log import events


def vote(state: State, item: int, answers: list[Answer] | None = None) -> None:
    """Set the label of an item by majority; a tie goes to the latest answer of a person, not of an import.

    answers : the standing answers, unless others shall count. An adjudicator's answer outvotes all others.
    """
    entries = state.by_item.get(item, [])
    answers = state.standing(entries) if answers is None else answers
    if item in state.answers:
        count(state, item, -1)
    values = [a.value for a in _ranked(state, answers) if a.value != CANNOT_TELL]
    labels = state.test_labels if item in state.test else state.labels
    if values:
        labels[item] = _majority(values)
    else:
        labels.pop(item, None)
    state.answers[item] = answers
    count(state, item, 1)
    if not answers:
        del state.answers[item]
    if item in state.labels:
        state.first[item] = next(entry.seq for entry in entries if state.stands(entry))
    else:
        state.first.pop(item, None)
    state.n_changes += 1


def _ranked(state: State, answers: list[Answer]) -> list[Answer]:
    """Return the answers that count, the one that decides a tie last."""
    if len(answers) < 2:
        return answers
    ranked = sorted(answers, key=lambda answer: (answer.person != IMPORT, answer.seq))
    return [answer for answer in ranked if _is_truth(state, answer)] or ranked


def _majority(values: list[int]) -> int:
    """Return the most frequent value; of a tie, the last."""
    if len(values) == 1:
        return values[0]
    counts = Counter(values)
    most = max(counts.values())
    return next(value for value in reversed(values) if counts[value] == most)


def _is_truth(state: State, answer: Answer) -> bool:
    """Return whether an answer is an adjudicator's."""
    entry = state.history.get(answer.seq)
    return entry is not None and isinstance(entry.body, events.Label) and entry.body.truth


def count(state: State, item: int, sign: int) -> None:
    """Add an item's answers to the counts (sign 1), or take them off (sign -1)."""
    answers = state.answers.get(item, [])
    state.n_answers += sign * len(answers)
    for answer in answers:
        state.by_person[answer.person] += sign
    if item in state.labels:
        state.by_class[state.labels[item]] += sign
    if len(answers) > 1:
        values = [answer.value for answer in answers if answer.value != CANNOT_TELL]
        state.agreement.add(values, sign)
        if len(values) > 1 and is_tied(values):
            _mark(state.disputed, item, sign)
    if 0 < len(answers) < state.settings["annotators_per_item"]:
        for answer in answers:
            state.not_wanted[answer.person] += sign
        _mark(state.wanting, item, sign)


def _mark(items: dict[int, None], item: int, sign: int) -> None:
    """Append an item (sign 1), or take it out (sign -1)."""
    if sign > 0:
        items[item] = None
    else:
        del items[item]
