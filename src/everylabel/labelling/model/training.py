"""The training set of a model, and exact training: the posterior from labels and class names.

Class names teach through vectors of their phrases, made by the encoder of the texts. The vectors are cached
in a file in half precision, which makes no measurable difference; the file may be deleted at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_file
from everylabel.core.updates.partial import expected_shares, note_shares
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import ClassSet, Place, Suggestions
from everylabel.models.labels import name_answers
from everylabel.models.names import NameRows, are_of_use, name_rows, phrase
from everylabel.models.scaling import Scaling, suited_precision
from everylabel.selection.pool.features import Scaled

FORMAT = "everylabel class names"
RuledOut = Mapping[int, Collection[int]]


class Encoder(NamedTuple):
    """The text encoder applied to words: its name, and a function from phrases to vectors (m, d)."""

    name: str
    encode: Callable[[Sequence[str]], np.ndarray]


def phrases_of(name: str, description: str | None) -> tuple[str, ...]:
    """Return the phrases of a class to embed: its name as words, and its description."""
    words = phrase(name)
    return (words,) if not description else (words, description)


class ClassNames:
    """Vectors of class names and descriptions; empty without an encoder.

    path : file that caches the vectors
    """

    def __init__(self, encoder: Encoder | None = None, path: Path | None = None) -> None:
        self.encoder, self.path = encoder, path
        self._lock = threading.Lock()
        self._vectors: dict[str, np.ndarray] = {} if encoder is None else _read(path, encoder.name)
        self._of_class: dict[int, tuple[tuple[str, ...], np.ndarray]] = {}

    def missing(self, state: State, numbers: Iterable[int] | None = None) -> list[str]:
        """Return the phrases without a vector yet, of the given classes or of all."""
        if self.encoder is None or not state.settings["names"]:
            return []
        wanted = [self._phrases(state, c) for c in (state.book.present if numbers is None else numbers)]
        return list(dict.fromkeys(one for some in wanted for one in some if one not in self._vectors))

    def learn(self, phrases: Sequence[str]) -> None:
        """Embed phrases and cache their vectors; this may load the encoder and take seconds."""
        if self.encoder is None or not phrases:
            return
        vectors = np.asarray(self.encoder.encode(list(phrases)), np.float16).astype(np.float64)
        with self._lock:
            self._vectors = {**self._vectors, **dict(zip(phrases, vectors, strict=True))}
            if self.path is not None:
                header = {"format": FORMAT, "version": VERSION, "encoder": self.encoder.name}
                stored = np.asarray(list(self._vectors.values()), np.float16)
                write_file(
                    self.path, header | {"phrases": list(self._vectors)}, {"vectors": stored}, mode=0o600
                )

    def add(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Add vectors of phrases that were embedded before."""
        with self._lock:
            self._vectors = {
                **self._vectors,
                **{one: np.asarray(v, np.float64) for one, v in vectors.items()},
            }

    def vectors(self, state: State) -> dict[int, np.ndarray]:
        """Return the vectors (m, d) of each class; empty if the setting is off.

        A renamed class keeps its old vectors until those of its new name are learned.
        """
        if self.encoder is None or not state.settings["names"]:
            return {}
        known = self._vectors
        for number in state.book.present:
            phrases = self._phrases(state, number)
            before = self._of_class.get(number)
            if (before is None or before[0] != phrases) and all(one in known for one in phrases):
                self._of_class[number] = phrases, np.array([known[one] for one in phrases])
        return {c: self._of_class[c][1] for c in state.book.present if c in self._of_class}

    @staticmethod
    def _phrases(state: State, number: int) -> tuple[str, ...]:
        return phrases_of(state.book.names[number], state.book.descriptions.get(number))


def _read(path: Path | None, encoder: str) -> dict[str, np.ndarray]:
    """Return an encoder's cached vectors; empty if the file is missing, damaged or of another encoder."""
    if path is None or not path.exists():
        return {}
    try:
        header, arrays = read_file(path, FORMAT, "class names", "everylabel label")
        if header["encoder"] != encoder:
            return {}
        return dict(zip(header["phrases"], arrays["vectors"].astype(np.float64), strict=True))
    except (EverylabelError, KeyError, ValueError):
        return {}


class TrainingSet(NamedTuple):
    """Everything that a model is computed from besides the features; classes are numbers of the log.

    columns : class of each column of the model
    places : items that are not free: labelled, leased, excluded, or with classes ruled out
    names : class -> vectors of its name, which may teach
    n_items : number of items in the pool
    trusts_names : names teach even if leave-one-out does not confirm them
    suggestions : suggestions of sources that are not fully trusted
    without_suggestions : items whose suggestions must not teach
    drawn : weights of labelled items that were drawn at random
    review : whether people review given labels
    multi_label : an item may have several classes, or none
    """

    columns: tuple[int, ...]
    places: Mapping[int, Place]
    names: Mapping[int, np.ndarray]
    n_items: int
    trusts_names: bool = False
    suggestions: tuple[Suggestions, ...] = ()
    without_suggestions: frozenset[int] = frozenset()
    drawn: Mapping[int, float] = MappingProxyType({})
    review: bool = False
    multi_label: bool = False

    @property
    def n_classes(self) -> int:
        return len(self.columns)

    def labels(self) -> dict[int, Any]:
        """Return each labelled item's column, or its `ClassSet` of columns; the earliest label first."""
        column = {number: j for j, number in enumerate(self.columns)}
        known = ((item, place.label) for item, place in self.places.items() if place.label is not None)
        if self.multi_label:
            return {item: label.numbered(column) for item, label in known if isinstance(label, ClassSet)}
        return {item: column[label] for item, label in known if isinstance(label, int)}

    def sources(self) -> list[Suggestions]:
        """Return the suggestions to learn from, with classes as columns."""
        column = {number: j for j, number in enumerate(self.columns)}
        return [one.translated(column, self.without_suggestions) for one in self.suggestions]

    def ruled_out(self) -> dict[int, frozenset[int]]:
        """Return the columns ruled out for items without a label."""
        found = {
            item: columns_out(place, self.columns) for item, place in self.places.items() if place.ruled_out
        }
        return {item: columns for item, columns in found.items() if columns}


def columns_out(place: Place, columns: Sequence[int]) -> frozenset[int]:
    """Return the columns that a place rules out; empty if that would be all columns."""
    found = frozenset(j for j, number in enumerate(columns) if number in place.ruled_out)
    return found if len(found) < len(columns) else frozenset()


def teaching_names(
    vectors: Mapping[int, np.ndarray],
    features: np.ndarray | Scaled,
    labels: Mapping[int, Any],
    n_classes: int,
    scaling: Scaling | None,
    trusted: bool = False,
    multi_label: bool = False,
) -> NameRows | None:
    """Return class names as training rows if the labels confirm them; vectors and labels are by column.

    trusted : use them without the test, which an encoder trained on these labels would always pass
    """
    if scaling is None:
        return None
    width = len(scaling.center)
    rows = name_rows({c: some for c, some in vectors.items() if some.shape[1] == width}, scaling)
    if rows is not None and multi_label:
        rows = rows._replace(labels=name_answers(rows.labels, n_classes))
    if rows is None or not labels or trusted:
        return rows
    idx, y = targets(labels, n_classes, multi_label)
    x = features[idx].astype(np.float64)
    return rows if are_of_use(rows, x, y, n_classes, suited_precision(n_classes)) else None


def train(
    features: np.ndarray | Scaled,
    labels: Mapping[int, Any],
    n_classes: int,
    names: NameRows | None = None,
    *,
    ruled_out: RuledOut | None = None,
    init: np.ndarray | None = None,
    tol: float = 1e-8,
    multi_label: bool = False,
) -> Posterior:
    """Return the posterior trained on labels (row -> column or `ClassSet`) and names; without any, the prior.

    ruled_out : row without a label -> its ruled-out columns; at least one column must remain
    init : mean (d + 1, k) to start from
    """
    k = max(1, n_classes)
    idx, y = targets(labels, k, multi_label)
    x, weights = features[idx].astype(np.float64), np.ones(len(idx))
    if names is not None:
        x, y, weights = names.together_with(x, y)
    prior, partial = suited_precision(k), _partial(features, ruled_out or {}, k)
    mean = np.zeros((features.shape[1] + 1, k))
    if len(y):
        mean = fit_map(x, y, k, prior, weights=weights, init=init, tol=tol)
    if partial is not None:  # not convex: start from the labels' solution, so that `init` does not matter
        mean = fit_map(x, y, k, prior, weights=weights, partial=partial, init=mean, tol=tol)
    kind = "bernoulli" if multi_label else "gaussian"
    posterior = laplace(mean, x, likelihood=kind, prior_precision=prior, weights=weights, labels=y)
    if partial is None:
        return posterior
    return note_shares(posterior, partial[0], expected_shares(posterior, *partial))


def train_with_none(
    features: np.ndarray | Scaled,
    labels: Mapping[int, int],
    none: Sequence[int],
    n_classes: int,
    names: NameRows | None = None,
    ruled_out: RuledOut | None = None,
) -> Posterior:
    """Return the posterior over the classes only, trained also on rows that belong to no class.

    These rows form a class 0 of their own, p_c = e^f_c / (e^f_0 + sum_j e^f_j). Given that a class fits,
        p_c / (1 - p_0) = e^f_c / sum_j e^f_j
    so that the column of class 0 can be dropped after training.
    """
    if not none:
        return train(features, labels, n_classes, names, ruled_out=ruled_out)
    both = train(
        features, {**labels, **dict.fromkeys(none, n_classes)}, n_classes + 1, names, ruled_out=ruled_out
    )
    idx, y = in_order(labels)
    x, weights = features[idx].astype(np.float64), np.ones(len(idx))
    if names is not None:
        x, y, weights = names.together_with(x, y)
    mean = np.asarray(both.mean)[:, :n_classes]
    return laplace(mean, x, prior_precision=both.prior_precision, weights=weights, labels=y)


def _partial(
    features: np.ndarray | Scaled, ruled_out: RuledOut, k: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows with ruled-out columns, and a mask of their remaining columns; None without any."""
    idx = sorted(ruled_out)
    if not idx:
        return None
    left = [[c not in ruled_out[i] for c in range(k)] for i in idx]
    return features[idx].astype(np.float64), np.array(left)


def targets(labels: Mapping[int, Any], k: int, multi_label: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and their columns (n,), or answers (n, k) of 1, 0 and nan; sorted by row."""
    if not multi_label:
        return in_order(labels)
    idx = np.array(sorted(labels), dtype=np.int64)
    return idx, np.array([labels[int(i)].row(range(k)) for i in idx]).reshape(len(idx), k)


def in_order(labels: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns sorted by row, so that the order of labelling does not matter."""
    idx = np.array(sorted(labels), dtype=np.int64)
    return idx, np.array([labels[int(i)] for i in idx], dtype=np.int64)
