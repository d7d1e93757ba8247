"""The project's live model: a pool that is trained on labels and then applies their changes one by one.

On pools up to EXACT_UP_TO each label is learned exactly. On larger pools, and in projects with suggestions,
the second-order update learns it in one pass, and exact training follows in the background. Without this
training, 100 labels of digits gave an accuracy of .86 instead of .94; and only training learns from
suggestions.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import laplace
from everylabel.core.checks import outliers_known
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Posterior
from everylabel.labelling.model.training import (
    FeatureTable,
    RuledOut,
    TrainingSet,
    columns_out,
    confirmed_names,
    targets,
    train,
)
from everylabel.labelling.sources.evidence import Evidence, weigh
from everylabel.labelling.sources.joint_training import rows_of, train_jointly
from everylabel.labelling.sources.review import Reviewed, review_given
from everylabel.labelling.state.types import FREE, REVIEW, ClassSet, Place, Suggestions
from everylabel.models.class_names import NameRows
from everylabel.models.thresholds import USUAL, choosing, pool_thresholds
from everylabel.selection import Pool, select, select_question
from everylabel.selection.pool import Where
from everylabel.selection.pool.features import LazyScaled
from everylabel.selection.select import cannot_separate, scores_each_alone

SAMPLED = 1000  # items on which the expected accuracy of the whole pool is estimated
COLD_CANDIDATES = 2000  # candidates of the first picks, before any label
TOO_SIMILAR = 0.95  # cosine similarity from which two items are not leased at the same time
TRIED, FEWEST_TRIED = 300, 60  # candidates of a choice for one person; divided among several, at least 60
EVALUATED, FEWEST_EVALUATED = 1000, 250  # items that a choice is evaluated on; divided in the same way
QUESTION_CANDIDATES = 2000  # items that a yes / no question is chosen from
CHECK_CANDIDATES = 5000  # items that a check of a class is drawn from
TOLERANCE = 1e-6  # at which training stops
RETRAINED_FROM = 4  # labels changed at once from which on retraining an exact model is faster than updates
DEFERRED_FROM = 64  # labels changed at once above which a large pool waits for the next training
EXACT_UP_TO = 10**8  # items * features * classes up to which each label is learned exactly

# the class of each column, and the mean (d + 1, k), of an earlier model
WarmStart = tuple[Sequence[int], np.ndarray]


class Learner:
    """A model trained on a `TrainingSet` that can move to another training set by applying the difference.

    rows, ids : features, and the ids of the items in the pool
    before : the model that this one replaces; training starts at its mean, and its scaled features are reused
        if the scale was fitted on the same number of items
    mean : starting point of training if there is no model before
    """

    def __init__(
        self,
        rows: FeatureTable,
        ids: Sequence[str],
        training: TrainingSet,
        *,
        before: "Learner | None" = None,
        mean: WarmStart | None = None,
    ) -> None:
        self.rows, self.ids = rows, ids
        self.pool: Pool
        self.columns: tuple[int, ...]
        n = training.n_items
        self.scaled_on = n  # number of items that the scale was fitted on
        self.scaling = rows.scaling(ids, n) if n else rows.given
        self.lazy = rows.scales_lazily(n)
        features = self._reused(before, n) if before is not None and before.scaled_on == n else None
        if features is None:
            features = rows.on_scale(ids, 0, n, self.scaling, self.lazy)
        if before is not None:
            mean = before.columns, np.asarray(before.pool.posterior.mean)
        self.columns, self.name_vectors = training.columns, training.names
        self.multi_label = training.multi_label
        self.thresholds: Mapping[int, float] = {} if before is None else before.thresholds  # by class number
        self.trusts_names = training.trusts_names
        self.evidence: Evidence | None = None  # of suggestions; None if no source counts
        self.reviewed: Reviewed | None = None  # given labels, if people review them
        self.places: dict[int, Place] = dict(training.places)  # the places that the pool reflects
        self.deferred: set[int] = set()  # items whose label waits for the next training
        self.pool = self._train(features, training, mean)
        self.sample = _sampled(n)

    @property
    def exact(self) -> bool:
        """Return whether each label is learned exactly."""
        return self.pool.method == "exact"

    def _reused(self, before: "Learner", n: int) -> "np.ndarray | LazyScaled | None":
        """Return the previous model's scaled features, if they have the same form."""
        features = before.pool.features
        if before.lazy != self.lazy or len(features) < n:
            return None
        if not isinstance(features, np.ndarray):
            return features.first(n) if isinstance(features, LazyScaled) else features
        return features[:n]

    def _train(self, features: Any, training: TrainingSet, mean: WarmStart | None) -> Pool:
        """Return a pool with the posterior trained on all labels and every item in its place."""
        labels, ruled_out, k = training.labels(), training.ruled_out(), training.n_classes
        names = {j: training.names[c] for j, c in enumerate(training.columns) if c in training.names}
        how = training.trusts_names, training.multi_label
        self.names = confirmed_names(names, features, labels, k, self.scaling, *how)
        self.names_hold = self.names is not None or not names or not labels
        init = None if mean is None else _as_columns(*mean, training.columns, features.shape[1] + 1)
        sources = training.sources()
        fitted = fit(
            features,
            labels,
            k,
            self.names,
            sources=sources,
            drawn=training.drawn,
            ruled_out=ruled_out,
            init=init,
            tol=TOLERANCE,
            multi_label=training.multi_label,
        )
        posterior, self.evidence = fitted
        self.trained: Posterior = posterior  # with its labels, for leave-one-out
        if training.review:
            self.reviewed = review_given(training, features)
        idx, y = targets(labels, max(1, k), training.multi_label)
        known = {"labelled_idx": idx, "labels": y, "ruled_out": ruled_out}
        make = self.rows.make_pool or local_pool
        small = features.size * posterior.n_classes <= EXACT_UP_TO
        pool = make(features, posterior, known, small and not sources)  # see `TrainedHead`
        with pool.together():
            for item, place in training.places.items():
                if place.where in (Where.LEASED, Where.EXCLUDED):
                    pool.put(item, place.where)
        return pool

    def move_to(self, now: TrainingSet) -> bool:
        """Apply the difference to another training set; return False if that needs retraining."""
        if not self.can_update(now.columns, now.names):
            return False
        items = self.places.keys() | now.places.keys()
        places = {item: now.places.get(item, FREE) for item in items}
        self.update(places, now.columns, now.n_items)
        return True

    def can_update(self, columns: Sequence[int], names: Mapping[int, np.ndarray]) -> bool:
        """Return whether classes were only appended, if anything, and the class names have not changed."""
        before, vectors = len(self.columns), self.name_vectors
        # vectors of names are cached, so equal ones are the same object
        same = names.keys() == vectors.keys() and all(names[c] is vectors[c] for c in names)
        return same and tuple(columns[:before]) == tuple(self.columns)

    def update(self, places: Mapping[int, Place], columns: Sequence[int], n_items: int) -> None:
        """Move items to their places, after adding new classes and new items."""
        self.columns = tuple(columns)
        new = max(1, len(columns)) - self.pool.n_classes
        if new > 0:
            self.pool.add_class(new)
        if n_items > len(self.pool):
            start = len(self.pool)
            self.pool.extend(self.rows.on_scale(self.ids, start, n_items, self.scaling, self.lazy))
            self.sample = _sampled(n_items)
        changed = {item: place for item, place in places.items() if self.places.get(item, FREE) != place}
        labels = {i for i, place in changed.items() if self.places.get(i, FREE).label != place.label}
        for item, place in changed.items():
            if place == FREE:
                self.places.pop(item, None)
            else:
                self.places[item] = place
        outgrown = self.pool.features.size * self.pool.n_classes > EXACT_UP_TO
        if self.exact and (outgrown or len(labels) >= RETRAINED_FROM):  # one training replaces many updates
            now = TrainingSet(self.columns, self.places, self.name_vectors, n_items, self.trusts_names)
            now = now._replace(multi_label=self.multi_label)
            before, mean = self.pool, np.asarray(self.pool.posterior.mean)
            self.pool = self._train(before.features, now, (self.columns, mean))
            before.close()
            return
        self.deferred -= changed.keys()
        if len(labels) > DEFERRED_FROM:  # many approximate steps would cost time and precision
            self.deferred |= {item for item in labels if changed[item].label is not None}
        # leases last: a lease shrinks the covariance, and with it the steps of labels learned after it; a
        # replay without the lease would change all these steps, and the logits of all items
        with self.pool.together():
            for item, place in sorted(changed.items(), key=lambda one: one[1].where is Where.LEASED):
                # a deferred label is not learned yet, but nobody should be asked about its item
                self._put(item, Place(Where.EXCLUDED) if item in self.deferred else place)

    def _put(self, item: int, place: Place) -> None:
        label: Any = place.label
        if isinstance(label, ClassSet):
            label = label.row(self.columns)
        elif label is not None:
            label = self.columns.index(label)
        self.pool.put(item, place.where, label)
        if place.where is not Where.LABELLED and not self.multi_label:
            self.pool.rule_out(item, columns_out(place, self.columns))

    def close(self) -> None:
        """Release resources that the pool holds outside this process."""
        self.pool.close()

    def link(self, logits: np.ndarray) -> np.ndarray:
        """Return probabilities from logits: a softmax, or one sigmoid per class in a multi-label project."""
        return np.asarray(LIKELIHOODS[self.pool.posterior.likelihood].link(logits))

    def probabilities(self, item: int) -> np.ndarray:
        """Return the class probabilities of one item under the current mean, given its suggestions."""
        return np.asarray(self.probabilities_of([item])[0])

    def probabilities_of(self, items: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the class probabilities (m, k) of items under the current mean, given their suggestions."""
        logits = self.pool.rows(items) @ np.asarray(self.pool.posterior.mean)
        return self.link(self.combined(np.asarray(items), logits))

    def combined(self, items: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Return the logits of items, combined with the evidence of their suggestions."""
        return logits if self.evidence is None else self.evidence.combined(items, logits)

    def logits(self, items: np.ndarray) -> np.ndarray:
        """Return a copy of the logits (m, k) of items, combined with the evidence of their suggestions."""
        return self.combined(items, np.array(self.pool.logits(items)))

    def predicted(self, probabilities: np.ndarray) -> np.ndarray:
        """Return a mask of the predicted classes of each item (n, k)."""
        return predicted(probabilities, self.thresholds_of(self.columns or (-1,)))  # one column at least

    def guess(self, item: int) -> tuple[Any, float]:
        """Return the predicted class of an item (in a multi-label project, the classes), and its certainty.

        The certainty is the largest probability of a class.
        """
        probs = self.probabilities(item)
        if self.multi_label:
            pairs = zip(self.columns, self.predicted(probs).tolist(), strict=False)
            return [number for number, is_predicted in pairs if is_predicted], float(probs.max())
        return (self.columns[int(probs.argmax())] if self.columns else None), float(probs.max())

    def thresholds_of(self, numbers: Iterable[int]) -> np.ndarray | None:
        """Return the decision thresholds of classes; None in a project with one class per item."""
        if not self.multi_label:
            return None
        return np.array([self.thresholds.get(number, USUAL) for number in numbers])

    def choose_thresholds(self) -> None:
        """Choose decision thresholds by the unlabelled items; call after training. They stay until then."""
        if self.multi_label and len(self.pool):
            some = choosing(len(self.pool), self.pool.labelled_idx)
            found = pool_thresholds(self.link(self.pool.logits(some)), self.trained)
            self.thresholds = dict(zip(self.columns, found.tolist(), strict=False))

    def expected_accuracy(self) -> float:
        """Return the expected accuracy on unlabelled items; in a multi-label project, expected micro F1.

        With p the probabilities of the unlabelled items of `sample` (of all, if none is unlabelled):
            accuracy = mean of the largest p,   F1 = 2 sum p [predicted] / (sum [predicted] + sum p)
        Both are right only if p is; `quality/accuracy.py` estimates the accuracy from random checks instead.
        """
        unlabelled = self.sample[self.pool.state[self.sample] != Where.LABELLED]
        items = unlabelled if len(unlabelled) else self.sample
        probs = self.link(self.combined(items, self.pool.at_hand().logits(items)))
        if not self.multi_label:
            return float(probs.max(axis=1).mean())
        predicted = self.predicted(probs)
        return float(2.0 * probs[predicted].sum() / max(predicted.sum() + probs.sum(), 1e-12))

    def pick(self, strategy: str, n: int, rng: np.random.Generator, among: int = 1) -> list[int]:
        """Return n free items that are not too similar to each other or to leased items.

        among : number of people who label; with several, fewer candidates are tried
        """
        if strategy == REVIEW:
            free = self.pool.state == Where.FREE
            proposals = [] if self.reviewed is None else self.reviewed.proposals(free, n)
            if proposals:
                return proposals
            strategy = "random"  # all given labels are reviewed, or there are none
        pool = self.pool if scores_each_alone(strategy, self.pool) else self.pool.at_hand(rng)
        n_free = len(pool.free_idx)
        leased = [int(i) for i in self.pool.leased_idx]
        n = min(n, n_free)
        if n == 0:
            return []
        # pick more than n: `_dissimilar` drops items that are too similar to each other
        tried = n if n == 1 and not leased else min(n_free, 4 * n + len(leased))
        cold = cannot_separate(pool)
        options: dict[str, int] = {}
        if strategy in ("herding", "lookahead") and not cold:
            people = max(among, 1)
            options = {"n_candidates": max(tried, FEWEST_TRIED, TRIED // people)}
            options["n_eval"] = max(FEWEST_EVALUATED, EVALUATED // people)
        candidates = COLD_CANDIDATES if cold and tried <= COLD_CANDIDATES else None
        picked = select(pool, strategy, tried, rng, candidates=candidates, **options)  # type: ignore
        return self._dissimilar([int(i) for i in picked], leased, n)

    def pick_question(self, rng: np.random.Generator) -> int | None:
        """Return the free item with the class whose yes or no is the most informative answer."""
        some = self.pool.sample(QUESTION_CANDIDATES, rng)
        return select_question(self.pool, rng, candidates=some)[0] if len(some) else None

    def draw(self, rng: np.random.Generator) -> int | None:
        """Return a free item drawn uniformly at random."""
        free = self.pool.free_idx
        return int(free[int(rng.integers(len(free)))]) if len(free) else None

    def draw_predicted(self, column: int, rng: np.random.Generator) -> tuple[int | None, float]:
        """Return a random free item predicted as a column's class, and the share of such items."""
        some = self.pool.sample(CHECK_CANDIDATES, rng)
        if not len(some):
            return None, 0.0
        predicted = np.asarray(some)[self.predicted(self.link(self.logits(np.asarray(some))))[:, column]]
        return (int(rng.choice(predicted)) if len(predicted) else None), len(predicted) / len(some)

    def _dissimilar(self, picked: Sequence[int], leased: Sequence[int], n: int) -> list[int]:
        """Return n of the picked items, those first that are not too similar to leased or earlier ones."""
        if n == len(picked) and not leased:
            return list(picked)
        rows = self.pool.features[[*leased, *picked]].astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        chosen = list(range(len(leased)))  # positions in `rows`, where leased items come first
        for at in range(len(leased), len(rows)):
            if len(chosen) < len(leased) + n and (rows[chosen] @ rows[at]).max(initial=-1.0) < TOO_SIMILAR:
                chosen.append(at)
        rest = [at for at in range(len(leased), len(rows)) if at not in chosen]
        best = [*chosen[len(leased) :], *rest][:n]  # too similar ones only if there are no others
        return [picked[at - len(leased)] for at in best]


class Fitted(NamedTuple):
    """A posterior trained on labels, class names and suggestions."""

    posterior: Posterior
    evidence: Evidence | None = None  # of suggestions; None if no source counts


@outliers_known()
def fit(
    features: "np.ndarray | LazyScaled",
    labels: Mapping[int, Any],
    k: int,
    names: NameRows | None = None,
    *,
    sources: Sequence[Suggestions] = (),
    drawn: Mapping[int, float] | None = None,
    ruled_out: RuledOut = MappingProxyType({}),
    init: np.ndarray | None = None,
    tol: float = 1e-8,
    multi_label: bool = False,
) -> Fitted:
    """Return the posterior trained on labels and sources; arguments as in `train` and `train_jointly`."""
    if not sources:
        how: dict[str, Any] = {"ruled_out": ruled_out, "init": init, "tol": tol, "multi_label": multi_label}
        return Fitted(train(features, labels, k, names, **how))
    head = train_jointly(features, labels, sources, k, names=names, drawn=drawn, ruled_out=ruled_out, tol=tol)
    evidence = weigh(head.posterior, labels, head.used, head.confusions, max(1, k), drawn, head.targets)
    return Fitted(head.posterior, evidence)


@outliers_known()
def fit_classes(
    features: "np.ndarray | LazyScaled",
    labels: Mapping[int, int],
    none: Sequence[int],
    k: int,
    names: NameRows | None = None,
    **how: Any,
) -> Fitted:
    """Return the posterior over the k classes only, trained also on rows that belong to no class.

    none : rows of items that belong to no class; they are trained as a class of their own, in column k

    f (k + 1,) are the logits of an item and p its probabilities. Given that one of the k classes fits,
        p_c / (1 - p_k) = e^f_c / sum_{j < k} e^f_j
    so column k can be dropped after training; the evidence of suggestions loses it, too.
    """
    whole = fit(features, {**labels, **dict.fromkeys(none, k)}, k + bool(none), names, **how)
    if not none and not how.get("sources"):
        return whole
    x, y, weights = rows_of(features, labels, names)
    mean, precision = np.asarray(whole.posterior.mean)[:, :k], whole.posterior.prior_precision
    posterior = laplace(mean, x, prior_precision=precision, weights=weights, labels=y)
    evidence = whole.evidence
    if evidence is not None:
        evidence = evidence._replace(logs=evidence.logs[:, :k])
    return Fitted(posterior, evidence)


def predicted(probabilities: np.ndarray, thresholds: np.ndarray | None) -> np.ndarray:
    """Return a mask of predicted classes (..., k): the most probable one, or all at or above thresholds."""
    if thresholds is not None:
        return np.asarray(probabilities >= thresholds)
    return probabilities >= probabilities.max(axis=-1, keepdims=True, initial=0.0)


def certainty(probabilities: np.ndarray, thresholds: np.ndarray | None) -> float:
    """Return the probability of the predicted class, from those of all classes (k,).

    thresholds : decision thresholds of a multi-label project; there the least certain decision counts
    """
    if thresholds is None:
        return float(probabilities.max())
    present = probabilities >= thresholds
    return float(np.where(present, probabilities, 1.0 - probabilities).min(initial=1.0))


@outliers_known()
def local_pool(features: Any, posterior: Posterior, known: Mapping[str, Any], exact: bool) -> Pool:
    """Return a pool in this process that learns each label exactly, or by one second-order step."""
    if exact:
        return Pool(features, posterior, **known, method="exact")
    if posterior.likelihood == "gaussian":  # without data, a label is taken back in closed form
        posterior = posterior.replace(data=None)
    return Pool(features, posterior, **known, step_size="auto")


def _as_columns(
    classes: Sequence[int], mean: np.ndarray, columns: Sequence[int], d: int
) -> np.ndarray | None:
    """Return a mean (d, k) rearranged to these columns as a starting point; new classes start at zero."""
    if mean.shape[0] != d or not columns:
        return None
    start = np.zeros((d, len(columns)))
    at = {number: j for j, number in enumerate(classes)}
    for j, number in enumerate(columns):
        if number in at and at[number] < mean.shape[1]:
            start[:, j] = mean[:, at[number]]
    return start


def _sampled(n: int) -> np.ndarray:
    """Return a fixed random sample of at most SAMPLED of n items, sorted."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, SAMPLED), replace=False, shuffle=False))
