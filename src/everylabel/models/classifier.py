"""`LaplaceClassifier`: the posterior as a scikit-learn estimator that learns label by label.

The estimator keeps what it was taught (features, labels, weights), so that a label can be taken
back to the letter: everything after the last `fit` is replayed without it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from everylabel.core import (
    EverylabelError,
    add_class,
    fit_map,
    laplace,
    logits,
    predict_proba,
    update,
)
from everylabel.core.predict import METHODS as PREDICTIONS
from everylabel.core.updates import METHODS

UPDATES = (*METHODS, "refit")
Taught = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels, weights


class LaplaceClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression with a Gaussian posterior on its weights, updated after every label.

    Parameters
    ----------
    prior_precision : float, default=1.0
        Precision of the prior on every weight: of the training and of the posterior alike.
    likelihood : str, default="gaussian"
        Shape and curvature of the covariance, as in `everylabel.laplace`.
    update : {"second_order", "first_order", "refit"}, default="second_order"
        What `partial_fit` does: an update in closed form, or exact training on all labels.
    step_size : float, optional
        The update's step; None takes the paper's value.
    predict_method : {"mean_field", "mean", "probit"}, default="mean_field"
        How `predict_proba` averages over the posterior.
    class_weight : "balanced", dict or None
        Weight of each class in the training, as in scikit-learn.
    tol : float, default=1e-8
        Accuracy of the exact training, as in `everylabel.fit_map`.

    Attributes
    ----------
    classes_ : array (k,)
        The labels, in the order of the columns of `predict_proba`: sorted as `fit` found them,
        then those that came later.
    posterior_ : everylabel.Posterior
        What the classifier knows, over class numbers.
    n_features_in_ : int
    """

    _taught: list[Taught]

    def __init__(
        self,
        *,
        prior_precision: float = 1.0,
        likelihood: str = "gaussian",
        update: str = "second_order",
        step_size: float | None = None,
        predict_method: str = "mean_field",
        class_weight: Any = None,
        tol: float = 1e-8,
    ) -> None:
        self.prior_precision = prior_precision
        self.likelihood = likelihood
        self.update = update
        self.step_size = step_size
        self.predict_method = predict_method
        self.class_weight = class_weight
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on all of X and y, and forget whatever came before."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes = np.unique(y)
        self._start(X, y, _weights(sample_weight, X), classes)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from new labels, one by one; unseen classes make room for themselves.

        The first call on a new estimator trains exactly, on classes `classes` (or those in y).
        """
        first = not hasattr(self, "posterior_")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(y)
        weights = _weights(sample_weight, X)
        if first:
            known = np.unique(y) if classes is None else np.unique(classes)
            if not np.all(np.isin(y, known)):
                raise EverylabelError(
                    f"y holds labels that are not in classes: {np.setdiff1d(y, known)[:5]}; "
                    "expected labels out of classes"
                )
            self._start(X, y, weights, known)
            return self
        self._learn(X, y, weights)
        return self

    def forget(self, X: Any, y: Any) -> Self:
        """Take labels back, the latest of each (X, y) first.

        Afterwards the classifier is what it would have been without them: labels of `fit`
        are trained without, labels of `partial_fit` are replayed without.
        """
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)
        base = len(self._taught[0][1])
        all_X, all_y, all_weights = _joined(self._taught)
        keep = np.ones(len(all_y), dtype=bool)
        for row, label in zip(X, y, strict=True):
            same = keep & (all_y == label) & np.all(all_X == row, axis=1)
            if not same.any():
                raise EverylabelError(
                    f"X and y hold an instance with label {label!r} that was never learned; "
                    "expected pairs given to fit or partial_fit before; nothing was forgotten"
                )
            keep[np.flatnonzero(same)[-1]] = False
        if not keep[:base].any():
            raise EverylabelError(
                "X and y are all that fit was given; expected to leave at least one label: call fit anew"
            )
        first, later = np.flatnonzero(keep[:base]), base + np.flatnonzero(keep[base:])
        again = clone(self)
        again.n_features_in_ = self.n_features_in_
        again._start(all_X[first], all_y[first], all_weights[first], self.classes_)
        if len(later):
            again._learn(all_X[later], all_y[later], all_weights[later])
        self.posterior_, self._taught = again.posterior_, again._taught
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return logits at the mean: (n, k), or (n,) for two classes as scikit-learn has it."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = np.asarray(logits(self.posterior_, X))
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, k), columns in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(predict_proba(self.posterior_, X, method=self.predict_method))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each instance."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def _start(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, classes: np.ndarray) -> None:
        """Train on (X, y) and remember them as the base of every replay."""
        binary = self.likelihood == "binary"
        if binary and len(classes) != 2:
            raise EverylabelError(f"y holds {len(classes)} class(es); expected 2 with likelihood='binary'")
        if self.update not in UPDATES:
            raise EverylabelError(f"update is {self.update!r}; expected one of {UPDATES}")
        if self.predict_method not in PREDICTIONS[:3]:
            raise EverylabelError(
                f"predict_method is {self.predict_method!r}; expected one of {PREDICTIONS[:3]}"
            )
        numbers = _encode(y, classes)
        trained = weights * compute_sample_weight(self.class_weight, y)
        mean = fit_map(
            X, numbers, len(classes), self.prior_precision, weights=trained, binary=binary, tol=self.tol
        )
        posterior = laplace(mean, X, self.likelihood, self.prior_precision, weights=trained)
        self.classes_, self.posterior_ = classes, posterior
        # the first was trained on, the rest was learned one by one
        self._taught = [(X, y, weights)]

    def _learn(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """Learn from labels after the start."""
        if (y.dtype.kind in "OUS") != (self.classes_.dtype.kind in "OUS"):
            raise EverylabelError(
                f"y has dtype {y.dtype}; expected labels like those learned before ({self.classes_.dtype})"
            )
        new = np.setdiff1d(y, self.classes_)
        classes = np.concatenate([self.classes_, new])
        if self.update == "refit":
            X, y, weights = _joined([*self._taught, (X, y, weights)])
            self._start(X, y, weights, classes)
            return
        posterior = add_class(self.posterior_, len(new)) if len(new) else self.posterior_
        posterior = update(posterior, X, _encode(y, classes), self.update, self.step_size, weights=weights)
        self.classes_, self.posterior_ = classes, posterior
        self._taught = [*self._taught, (X, y, weights)]


def _joined(taught: list[Taught]) -> Taught:
    X, y, weights = (np.concatenate(part) for part in zip(*taught, strict=True))
    return X, y, weights


def _encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return class numbers: positions in `classes`, which may be in any order."""
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes[order], y)])


def _weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
