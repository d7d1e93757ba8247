"""A Gaussian posterior over a last layer, and the labelled instances behind it, as immutable values.

d features (with the bias, if there is one), k classes.
    mean (d, k) mu: one column of weights per class; its last row is the bias, if there is one
    cov Sigma, by likelihood:
        "gaussian", "categorical"   (d, d), shared by all classes
        "binary"                    (d, d); the mean has the one column of the positive class
        "matrix_normal"             (d, d) between features, with class_cov (k, k) between classes
        "per_class"                 (k, d, d), one per class
        "full"                      (k*d, k*d), weight j of class c at c*d + j
        "bernoulli"                 (d, d), shared by all classes; several classes per item
        "bernoulli_per_class"       (k, d, d), one per class; several classes per item
    data: the labelled instances, if they are kept (keep_data=True); an exact update needs them
        n points: features (n, d), labels (n,) or answers (n, k), weights (n,);
        label_sums (d, k) = sum_x w_x h_x e_y'
An update returns a new posterior and does not change the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from array_api_compat import device
from jaxtyping import Bool, Float

from everylabel.core.arrays import Array, array_namespace, float64, zeros
from everylabel.core.errors import EverylabelError
from everylabel.core.newton import Preconditioner

UNKNOWN = -1  # the label of an instance that came without one
PARTIAL = -2  # the label of an instance with a soft label, which only label_sums holds
# Labelled rows are kept in double precision, unless the layer has more weights than DOUBLE_UP_TO and the
# mean |h|^2 / prior_precision is below WELL_SCALED: single precision is then faster, and precise enough.
DOUBLE_UP_TO = 2000
WELL_SCALED = 1e5

Targets = Callable[[Array, int], Array]  # `Likelihood.targets`: labels as one-hot rows (n, k)


class Labelled(NamedTuple):
    """A batch of instances with their labels, to be added to the data or removed from it."""

    features: Array  # (b, d)
    labels: Array  # (b,), or answers (b, k)
    weights: Array  # (b,)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Data:
    """Labelled instances; see the module docstring."""

    features: Array
    labels: Array
    weights: Array
    label_sums: Array
    preconditioner: Preconditioner | None = None  # from the last exact update, for the next

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def append(self, new: Labelled, targets: Targets) -> Data:
        """Return the data with new rows."""
        xp: Any = array_namespace(new.features)
        new = self._in_own_precision(new)
        features, labels, weights = (
            xp.concat([old, more])
            for old, more in zip((self.features, self.labels, self.weights), new, strict=True)
        )
        sums = self.label_sums + self._summed(new, targets)
        return replace(self, features=features, labels=labels, weights=weights, label_sums=sums)

    def take_back(self, gone: Labelled, targets: Targets) -> Data:
        """Return the data without these labels; of several rows that match, the newest is removed first."""
        gone = self._in_own_precision(gone)
        features, labels, weights = gone
        xp: Any = array_namespace(features)
        left = xp.asarray(self.weights, copy=True)
        for i in reversed(range(labels.shape[0])):
            same = self._rows_with(labels[i, ...]) & xp.all(self.features == features[i, :][None, :], axis=1)
            asked = float(weights[i])
            for at in reversed([int(row) for row in xp.nonzero(same & (left > 0.0))[0]]):
                if asked > 0.0:
                    taken = min(asked, float(left[at]))
                    left[at] = left[at] - taken
                    asked -= taken
            if asked > 1e-12 * float(weights[i]):
                raise EverylabelError(
                    f"features and labels cannot be taken back: number {i} was never learned (with that "
                    "label and weight), or was taken back before; expected the values passed to laplace "
                    "or update, in the same precision (float32 and float64 differ)"
                )
        sums = self.label_sums - self._summed(gone, targets)
        kept = xp.nonzero(left > 0.0)[0]
        features, labels = (xp.take(part, kept, axis=0) for part in (self.features, self.labels))
        return replace(self, features=features, labels=labels, weights=xp.take(left, kept), label_sums=sums)

    def add_classes(self, n: int) -> Data:
        """Return the data with n more classes, which have no labels yet."""
        xp: Any = array_namespace(self.label_sums)
        room = zeros((self.label_sums.shape[0], n), self.label_sums)
        labels = self.labels
        if len(labels.shape) == 2:
            none = xp.full((labels.shape[0], n), float("nan"), dtype=labels.dtype, device=device(labels))
            labels = xp.concat([labels, none], axis=1)
        sums = xp.concat([self.label_sums, room], axis=1)
        return replace(self, labels=labels, label_sums=sums, preconditioner=None)

    def _rows_with(self, label: Array) -> Bool[Array, " n"]:
        """Return a mask of the rows that have this label or came without one."""
        xp: Any = array_namespace(self.labels)
        same = (self.labels == label) | (self.labels == UNKNOWN)
        return (
            same if len(same.shape) == 1 else xp.all(same | (xp.isnan(self.labels) & xp.isnan(label)), axis=1)
        )

    def _summed(self, some: Labelled, targets: Targets) -> Float[Array, "d k"]:
        """Return the contribution of these labels to label_sums."""
        certain = targets(some.labels, self.label_sums.shape[1])
        return float64(some.features).T @ (some.weights[:, None] * certain)

    def _in_own_precision(self, some: Labelled) -> Labelled:
        """Return the batch with its features in the precision of the stored ones."""
        xp: Any = array_namespace(some.features)
        return some._replace(features=xp.astype(some.features, self.features.dtype))


def first_data(
    features: Float[Array, "n d"],
    weights: Float[Array, " n"],
    labels: Array | None,
    mean: Float[Array, "d k"],
    prior_precision: float,
    link: Callable[[Array], Array],
    targets: Targets,
    answers: bool = False,
) -> Data:
    """Return the data a posterior was fitted on.

    Without labels the mean is assumed to be the optimum, where the gradient is zero:
    label_sums = X' (w P) + prior_precision mean. With `answers` the labels are (n, k).
    """
    xp: Any = array_namespace(features)
    d, k = mean.shape
    size = float(xp.sum(features * features)) / max(1, features.shape[0])
    single = d * k > DOUBLE_UP_TO and size < WELL_SCALED * prior_precision
    rows = xp.astype(features, xp.float32 if single else xp.float64)
    if labels is None:
        labels = xp.full(features.shape[0], UNKNOWN, dtype=xp.int64, device=device(features))
        labels = float64(labels)[:, None] + zeros((1, k), mean) if answers else labels
        expected, prior = link(features @ mean), prior_precision * mean
    else:
        expected, prior = targets(labels, k), 0.0
    summed = float64(rows).T @ (weights[:, None] * expected)
    return Data(rows, labels, weights, summed + prior)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Posterior:
    """A Gaussian over the weights of a last layer: mean, covariance and, if kept, the labelled instances.

    Attributes
    ----------
    mean : array (d, k)
        The weights, one column per class; the last row is the bias, if there is one. (d, 1) with "binary".
    cov : array (d, d)
        Their covariance, shared by all classes; (k, d, d) with "per_class" and "bernoulli_per_class",
        (k*d, k*d) with "full". "matrix_normal" also has `class_cov` (k, k).
    likelihood, prior_precision, classes
        As given to `laplace`.
    bias : bool
        Whether the last row of `mean` is the weight of a constant 1.
    data : Data or None
        The labelled instances; None with keep_data=False.

    Examples
    --------
    >>> post.n_features, post.n_classes
    (64, 10)
    >>> post.replace(classes=tuple("0123456789")).classes[3]
    '3'
    """

    mean: Array
    cov: Array
    likelihood: str = "gaussian"
    prior_precision: float = 1.0
    bias: bool = True
    class_cov: Array = None
    classes: tuple[str, ...] | None = None
    data: Data | None = None

    @property
    def n_features(self) -> int:
        """Number of features of an instance, without the bias."""
        return int(self.mean.shape[0]) - self.bias

    @property
    def n_classes(self) -> int:
        return 2 if self.likelihood == "binary" else int(self.mean.shape[1])

    @property
    def multi_label(self) -> bool:
        """Whether an instance may have several classes: labels are then answers (n, k)."""
        return self.likelihood.startswith("bernoulli")

    def replace(self, **changes: Any) -> Posterior:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        return (
            f"Posterior(likelihood={self.likelihood!r}, n_features={self.n_features}, "
            f"n_classes={self.n_classes}, prior_precision={self.prior_precision:g}, bias={self.bias})"
        )
