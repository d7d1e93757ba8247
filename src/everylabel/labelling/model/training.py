"""The training set of a model (features on their scale, class names, labels), and exact training.

The scale is fitted on an evenly spaced sample of the items in the pool. Training fits it again when the pool
has grown by half. Pools above COPIED_UP_TO numbers are not copied: the scale is folded into products
(`LazyScaled`).

The model also learns from the vectors of class names, made by the encoder of the texts. They are cached in a
file in half precision, which makes no measurable difference; the file may be deleted at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import Posterior, fit_map, laplace
from everylabel.core.checks import outliers_known
from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_file
from everylabel.core.updates.partial import expected_shares, note_shares
from everylabel.data.items import IdList, Numbered
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import ClassSet, Place, Suggestions
from everylabel.models.class_names import NameRows, are_confirmed, phrase, rows_of_names
from everylabel.models.scaling import Scaling, fit_pool_scaling, suited_precision
from everylabel.selection import Pool
from everylabel.selection.pool.features import LazyScaled, with_room

SAMPLE = 5000  # items that the scale is fitted on, or five times the number of features if that is more
GROWN = 1.5  # growth factor of the pool after which the scale is fitted again
COPIED_UP_TO = 10**8  # n d: a scaled copy in single precision would take more than 400 MB
CLASSIFIES = 1e-3  # tolerance of training that is good enough to classify
FORMAT = "everylabel class names"
RuledOut = Mapping[int, Collection[int]]


class Prepared(NamedTuple):
    """Features on the scale that suits the prior, and that scale."""

    features: np.ndarray  # (n, d) float32, or `LazyScaled`
    scaling: Scaling


def prepare(features: np.ndarray) -> Prepared:
    """Return scaled features in single precision; features stored outside this process are not copied."""
    scaling = fit_scale(features)
    seen: Any = on_scale if isinstance(features, np.ndarray) else scaled_lazily
    return Prepared(seen(features, scaling), scaling)


def fit_scale(features: np.ndarray) -> Scaling:
    """Return the scale fitted on an evenly spaced sample of features."""
    size = sample_size(features.shape[1])
    return fit_pool_scaling(np.asarray(features[:: max(1, len(features) // size)], np.float64))


def sample_size(d: int) -> int:
    """Return the maximum number of rows with d features that the scale is fitted on."""
    return max(SAMPLE, 5 * d)


def on_scale(features: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Return scaled features (m, d) in single precision."""
    return scaled_lazily(features, scaling)[:]


def scaled_lazily(features: np.ndarray, scaling: Scaling) -> LazyScaled:
    """Return scaled features without copying them."""
    matrix = np.eye(features.shape[1]) if scaling.matrix is None else scaling.matrix
    return LazyScaled(features, scaling.center, scaling.scale * matrix)


class FeatureTable:
    """Features by id; rows can be added.

    ready : the features are scaled already, by `given` if that is known
    """

    make_pool: Callable[..., Pool] | None = None  # another kind of pool, for features in shards

    def __init__(
        self, ids: Sequence[str], features: np.ndarray, *, ready: bool = False, given: Scaling | None = None
    ) -> None:
        self.ids = ids if isinstance(ids, Numbered) else IdList(ids)
        self.features, self.ready, self.given = features, ready, given
        self._room: np.ndarray | None = None
        self._fitted: tuple[int, Scaling] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self.ids

    @property
    def position(self) -> Any:
        """The row of each id."""
        return self.ids.position

    def add(self, ids: Sequence[str], features: np.ndarray) -> None:
        """Append the features of new ids."""
        self._room = with_room(self._room, self.features, features)
        self.ids.extend(ids)
        self.features = self._room[: len(self.ids)]

    def of(self, ids: Sequence[str]) -> np.ndarray:
        """Return the raw features of ids in their order; a view if their rows are adjacent."""
        first = self.position[ids[0]] if len(ids) else 0
        if list(self.ids[first : first + len(ids)]) == list(ids):
            return self.features[first : first + len(ids)]
        return self.features[[self.position[name] for name in ids]]

    def scaling(self, ids: Sequence[str], n: int) -> Scaling | None:
        """Return the scale fitted on the first n ids."""
        if self.ready:
            return self.given
        if self._fitted is None or self._fitted[0] != n:
            self._fitted = n, fit_scale(self.of(ids[:n]))
        return self._fitted[1]

    def scales_lazily(self, n: int) -> bool:
        """Return whether a model of n rows folds the scale into its products instead of copying rows."""
        return not self.ready and n * self.features.shape[1] > COPIED_UP_TO

    def on_scale(
        self, ids: Sequence[str], start: int, stop: int, scaling: Scaling | None, lazy: bool = False
    ) -> np.ndarray | LazyScaled:
        """Return the features of ids[start:stop] on the scale that the model sees."""
        features = self.of(ids[start:stop])
        if self.ready or scaling is None:
            return features
        return scaled_lazily(features, scaling) if lazy else on_scale(features, scaling)

    def close(self) -> None:
        """Release features held outside this process; there are none here."""

    def scale_is_stale(self, fitted_on: int, n: int) -> bool:
        """Return whether a pool of n items has outgrown a scale fitted on `fitted_on` items."""
        return not self.ready and fitted_on < sample_size(self.features.shape[1]) and n >= GROWN * fitted_on


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
        self._lock = threading.RLock()
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
        vectors = np.asarray(self.encoder.encode(list(phrases)), np.float16)
        with self._lock:
            self.add(dict(zip(phrases, vectors, strict=True)))
            if self.path is not None:
                header = {"format": FORMAT, "version": VERSION, "encoder": self.encoder.name}
                stored = np.asarray(list(self._vectors.values()), np.float16)
                write_file(
                    self.path, header | {"phrases": list(self._vectors)}, {"vectors": stored}, mode=0o600
                )

    def add(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Add vectors of phrases that were embedded before."""
        with self._lock:
            self._vectors |= {phrase: np.asarray(vector, np.float64) for phrase, vector in vectors.items()}

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
    names : class -> vectors of its name, from which the model may learn
    n_items : number of items in the pool
    trusts_names : learn from names even if leave-one-out does not confirm them
    suggestions : suggestions of sources that are not fully trusted
    without_suggestions : items whose suggestions the model must not learn from
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
        """Return each labelled item's column, or its `ClassSet` of columns."""
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


@outliers_known()
def confirmed_names(
    vectors: Mapping[int, np.ndarray],
    features: np.ndarray | LazyScaled,
    labels: Mapping[int, Any],
    n_classes: int,
    scaling: Scaling | None,
    trusted: bool = False,
    multi_label: bool = False,
) -> NameRows | None:
    """Return class names as training rows if the labels confirm them; vectors and labels are by column.

    trusted : use them without the test, which an encoder trained on these labels would always pass
    """
    if scaling is None or not vectors:
        return None
    width = len(scaling.center)
    rows = rows_of_names({c: some for c, some in vectors.items() if some.shape[1] == width}, scaling)
    if rows is not None and multi_label:
        rows = rows.as_answers(n_classes)
    if rows is None or not labels or trusted:
        return rows
    idx, y = targets(labels, n_classes, multi_label)
    x = features[idx].astype(np.float64)
    return rows if are_confirmed(rows, x, y, n_classes, suited_precision(n_classes)) else None


@outliers_known()
def train(
    features: np.ndarray | LazyScaled,
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


def _partial(
    features: np.ndarray | LazyScaled, ruled_out: RuledOut, k: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows with ruled-out columns, and a mask of their remaining columns; None without any."""
    idx = sorted(ruled_out)
    if not idx:
        return None
    remaining = [[c not in ruled_out[i] for c in range(k)] for i in idx]
    return features[idx].astype(np.float64), np.array(remaining)


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
