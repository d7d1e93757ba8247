"""A copy of all labels at one moment: what an export or a training needs, on any thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from everylabel.data.items import IdList, Numbered
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import NONE, Answer
from everylabel.log import events


class LabelSet(NamedTuple):
    """Items, classes, labels and answers; classes are numbered in the order in which they are shown."""

    ids: Sequence[str]
    classes: list[str]
    labels: dict[int, int]
    answers: dict[int, list[Answer]]
    times: dict[int, float]  # of an answer, by its number
    names: dict[int, np.ndarray]  # vectors of class names that may teach
    aside: list[int]  # items whose labels were set aside because their content changed
    test: dict[int, int]  # labels of the test set: nothing is trained on them
    none: list[int]  # items of no class, which teaches, too
    by_model: dict[int, int]  # auto-labels
    ruled_out: dict[int, frozenset[int]]  # classes ruled out for items without a label, which teaches, too
    left: Sequence[int] = ()  # items that are gone from their source
    trust_names: bool = False  # names teach whether or not the labels bear them out
    generation: events.Generation | None = None  # of features by a fine-tuned encoder

    @classmethod
    def of(cls, state: State, vectors: Mapping[int, np.ndarray], trust_names: bool = False) -> LabelSet:
        """Return the labels of a state; vectors: of class names that may teach, by class number."""
        book = state.book
        place = {number: j for j, number in enumerate(book.order)}
        by_item = sorted(state.labels.items())
        labels = {item: place[number] for item, number in by_item if number != NONE}
        none = [item for item, number in by_item if number == NONE]
        answers = {
            item: [answer._replace(value=place.get(answer.value, answer.value)) for answer in given]
            for item, given in state.answers.items()
        }
        names = {place[number]: some for number, some in vectors.items() if number in place}
        times = {seq: entry.at for seq, entry in state.history.items()}
        test = {item: place[number] for item, number in state.test_labels.items() if number != NONE}
        classes, aside = [book.names[number] for number in book.order], state.set_aside()
        known = {*state.labels, *state.test_labels}
        by_model = {
            i: place[number] for i, number in state.finished.items() if i not in known and number in place
        }
        gone = {i: frozenset(place[number] for number in state.place(i).ruled_out) for i in state.doubted}
        gone = {i: some for i, some in gone.items() if 0 < len(some) < len(classes)}
        given = _copied(state.ids), classes, labels, answers, times, names, aside, test, none, by_model
        return cls(*given, gone, list(state.left), trust_names, state.generation)

    def seen_from(self, ids: Sequence[str]) -> LabelSet:
        """Return the same with the positions of another list of ids that holds all items."""
        if self.ids == ids:
            return self
        ids = _copied(ids)
        place = ids.position
        to = [place[name] for name in self.ids]
        labels = {to[item]: label for item, label in self.labels.items()}
        answers = {to[item]: given for item, given in self.answers.items()}
        aside, test = [to[item] for item in self.aside], {to[item]: c for item, c in self.test.items()}
        none = [to[item] for item in self.none]
        by_model = {to[item]: label for item, label in self.by_model.items()}
        return self._replace(
            ids=ids,
            labels=labels,
            answers=answers,
            aside=aside,
            test=test,
            none=none,
            by_model=by_model,
            ruled_out={to[item]: some for item, some in self.ruled_out.items()},
            left=[to[item] for item in self.left],
        )


def _copied(ids: Sequence[str]) -> IdList:
    return ids if isinstance(ids, Numbered) else IdList(ids)
