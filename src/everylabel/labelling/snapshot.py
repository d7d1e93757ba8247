"""What people said, at one moment, in copies: all that an export or a training needs, on any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from everylabel.data.id_list import IdList
from everylabel.labelling.ledger import Ledger
from everylabel.labelling.records import NONE, Answer


class Snapshot(NamedTuple):
    """Items, class names, the class of each labelled item, every answer that stands, and when it came.

    Classes are those there are, numbered anew in the order in which they are shown.
    aside : items whose labels were set aside, because their content changed
    """

    ids: Sequence[str]
    classes: list[str]
    labels: dict[int, int]
    answers: dict[int, list[Answer]]
    times: dict[int, float]  # of an answer, by its number
    names: dict[int, np.ndarray]  # vectors of class names that teach
    aside: list[int]
    test: dict[int, int]  # the class of each test item that has one: nothing is trained on it
    none: list[int]  # items that are of none of the classes, which teaches, too
    by_model: dict[int, int]  # labels that the model has given, where a person let it
    ruled_out: dict[int, frozenset[int]]  # classes that items without a label are not of, which teaches, too
    left: Sequence[int] = ()  # items that are no more where they came from

    @classmethod
    def of(cls, ledger: Ledger, names: bool | None = None) -> Snapshot:
        """Return what a ledger says now; names=True or False: whether class names teach, whatever it says."""
        book = ledger.book
        place = {number: j for j, number in enumerate(book.order)}
        labels = {item: place[number] for item, number in ledger.labels.items() if number != NONE}
        none = [item for item, number in ledger.labels.items() if number == NONE]
        answers = {
            item: [answer._replace(value=place.get(answer.value, answer.value)) for answer in given]
            for item, given in ledger.answers.items()
        }
        taught = ledger.teaching() if names is None else ledger.vectors if names else {}
        vectors = {place[number]: some for number, some in taught.items() if number in place}
        times = dict(zip(ledger.history.seq, ledger.history.at, strict=True))
        test = {item: place[number] for item, number in ledger.test_labels.items() if number != NONE}
        classes, aside = [book.names[number] for number in book.order], ledger.set_aside()
        known = {*ledger.labels, *ledger.test_labels}
        by_model = {
            i: place[number] for i, number in ledger.finished.items() if i not in known and number in place
        }
        gone = {i: frozenset(place[number] for number in ledger.place(i).ruled_out) for i in ledger.doubted}
        gone = {i: some for i, some in gone.items() if 0 < len(some) < len(classes)}
        given = IdList(ledger.ids), classes, labels, answers, times, vectors, aside, test, none, by_model
        return cls(*given, gone, list(ledger.left))

    def seen_from(self, ids: Sequence[str]) -> Snapshot:
        """Return the same by the places that items have in another list, which holds them all."""
        if self.ids == ids:
            return self
        place = IdList(ids).position
        to = [place[name] for name in self.ids]
        labels = {to[item]: label for item, label in self.labels.items()}
        answers = {to[item]: given for item, given in self.answers.items()}
        aside, test = [to[item] for item in self.aside], {to[item]: c for item, c in self.test.items()}
        none = [to[item] for item in self.none]
        by_model = {to[item]: label for item, label in self.by_model.items()}
        return self._replace(
            ids=IdList(ids),
            labels=labels,
            answers=answers,
            aside=aside,
            test=test,
            none=none,
            by_model=by_model,
            ruled_out={to[item]: some for item, some in self.ruled_out.items()},
            left=[to[item] for item in self.left],
        )
