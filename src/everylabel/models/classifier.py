"""`LaplaceClassifier`: the posterior as a scikit-learn estimator that learns label by label.

The estimator keeps its training data (features, labels, weights), so that a label can be taken back exactly:
an exact update retrains without it; other updates replay everything since the last `fit` without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from everylabel.core import (
    EverylabelError,
    Posterior,
    add_class,
    fit_map,
    forget,
    laplace,
    logits,
    predict_proba,
    update,
)
from everylabel.core.checks import (
    check_choice,
    check_matrix,
    check_positive,
    outliers_known,
    warn_of_outliers,
)
from everylabel.core.leave_one_out import leave_one_out
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.predict import METHODS as PREDICTIONS
from everylabel.core.updates import METHODS
from everylabel.models.class_names import TEST_AGAIN, ClassNames, NameRows
from everylabel.models.labels import (
    Examples,
    are_answers,
    as_answers,
    check_one_kind,
    class_factors,
    encode,
    joined,
    named_classes,
    positions,
    rows,
    spread,
)
from everylabel.models.scaling import (
    ENOUGH,
    Scaling,
    fit_pool_scaling,
    fit_scaling,
    no_scaling,
    suited_precision,
)
from everylabel.models.thresholds import thresholds

UPDATES = ("exact", *METHODS, "refit")
SEVERAL = {"gaussian": "bernoulli", "categorical": "bernoulli", "per_class": "bernoulli_per_class"}


class LaplaceClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression with a Gaussian posterior on its weights, updated after every label.

    With an indicator matrix for y, (n, k) of 1, 0 or NaN (not answered), items may have several classes: each
    class has a sigmoid, `predict` returns an indicator matrix by `thresholds_`, `predict_proba` (n, k).

    Parameters
    ----------
    prior_precision : float, default=1.0
        Precision of the prior on every weight, for the training and the posterior.
    likelihood : str, default="gaussian"
        Shape and curvature of the covariance, as in `everylabel.laplace`. With several classes per item
        "gaussian" and "categorical" mean "bernoulli", "per_class" means "bernoulli_per_class".
    update : {"exact", "second_order", "first_order", "refit"}, default="exact"
        What `partial_fit` does: "exact" ends where training on all labels would, at a fraction of
        the time; "second_order" and "first_order" take the paper's steps; "refit" trains on all
        labels from scratch, which "exact" does too if there is a class_weight.
    step_size : float, optional
        The step of "second_order" or "first_order"; None takes the paper's value.
    scale_features : bool, default=True
        Centre the features and multiply them by one number so that the root mean square norm of the first
        labelled instances is 10: prior_precision=1 then suits features of any scale. With `unlabelled` in
        `fit`, the pool determines the scale and the directions to trust.
    predict_method : {"mean", "mean_field", "probit"}, default="mean"
        How `predict_proba` averages over the posterior. At the mean, exactly trained, predictions
        were the better calibrated: log loss 0.92 against 1.41 of "mean_field" over five datasets
        and 50 to 1000 labels (docs/updates.md).
    class_weight : "balanced", dict or None
        Weight of each class in the training, as in scikit-learn.
    tol : float, default=1e-8
        Accuracy of the exact training, as in `everylabel.fit_map`.
    thresholds : "f1", None, dict or array (k,), default="f1"
        Probability from which `predict` assigns a class, if items may have several: "f1" maximises F1 on
        leave-one-out predictions, a cost ({"miss": a, "false alarm": b}) is minimised, as in
        `everylabel.thresholds`; None is 0.5 for all classes.

    Attributes
    ----------
    classes_ : array (k,)
        The labels, in the order of the columns of `predict_proba`: those of `fit` sorted, then those
        added later.
    posterior_ : everylabel.Posterior
        The trained posterior, over class numbers.
    names_, names_hold_ : ClassNames or None, bool
        Vectors of class names, and whether they are used: there are some, and the labels confirm them.
    center_, scale_, matrix_ : array (d,), float, array (d, d) or None
        The shift subtracted from the features, and the factor and matrix they are then multiplied by.
    thresholds_ : array (k,)
        Decision thresholds for several classes per item; computed at first access.
    n_features_in_ : int

    Examples
    --------
    >>> names = np.array(["even", "odd"])[y % 2]
    >>> clf = el.LaplaceClassifier().fit(x[:100], names[:100])
    >>> clf = clf.partial_fit(x[100:110], names[100:110])  # label by label, equals retraining
    >>> clf = clf.forget(x[[105]], names[[105]])  # as if it had never been
    >>> bool(clf.score(x[1000:], names[1000:]) > 0.8)
    True
    """

    from_pool_: bool = False  # the scaling comes from unlabelled instances
    matrix_: np.ndarray | None = None  # estimators pickled by older versions have none
    names_hold_: bool = False
    names_: ClassNames | None = None
    _scaling_pending: bool = False  # the first labels were too few, or too similar, to determine the scaling
    _tested_at: int = 0  # number of labels when the names were last tested
    _taught: list[Examples]  # the examples of `fit`, then those of each `partial_fit`
    _first_classes: np.ndarray
    _declared: np.ndarray  # classes named by a later partial_fit, with or without labels
    _cached_thresholds: tuple[Posterior, np.ndarray] | None = None  # with the posterior they belong to
    posterior_: Posterior

    def __init__(
        self,
        *,
        prior_precision: float = 1.0,
        likelihood: str = "gaussian",
        update: str = "exact",
        step_size: float | None = None,
        scale_features: bool = True,
        predict_method: str = "mean",
        class_weight: Any = None,
        tol: float = 1e-8,
        thresholds: Any = "f1",
    ) -> None:
        self.prior_precision = prior_precision
        self.likelihood = likelihood
        self.update = update
        self.step_size = step_size
        self.scale_features = scale_features
        self.predict_method = predict_method
        self.class_weight = class_weight
        self.tol = tol
        self.thresholds = thresholds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        unlabelled: Any = None,
        names: Mapping[Any, Any] | None = None,
        classes: Any = None,
    ) -> Self:
        """Train on all of X and y, and discard any earlier training.

        `unlabelled` (m, d) are instances without labels, such as the pool: directions in which it varies are
        trusted more, and prior_precision is multiplied by a factor for the number of classes
        (`models/scaling.py`). With few labels this gains several points of accuracy.

        `names` are vectors of class names by label, from `everylabel.embed_names`. They are used while the
        labels confirm them (`names_hold_`), and X may then be empty, (0, d). The classifier's classes include
        those with a name but no label, and `classes`, which must contain all labels of y.
        For an indicator matrix y, `classes` name the columns; else the columns of a table do, or `names`.
        """
        again = clone(self)  # if this fails, the earlier fit is unchanged
        given = y
        X, y = again._validated(X, y, names, first=True)
        warn_of_outliers(X, "X")
        scaling, again.from_pool_ = None, unlabelled is not None and bool(self.scale_features)
        pool = X
        if unlabelled is not None:
            pool = validate_data(again, unlabelled, dtype=np.float64, reset=False)
            warn_of_outliers(pool, "unlabelled")
            scaling = fit_pool_scaling(pool) if again.from_pool_ else None
        named = None if names is None else ClassNames.of(names, pool, around=scaling)
        known = named_classes(given, y, classes, names)
        again._start(X, y, _weights(sample_weight, X), known, scaling, named)
        self.__dict__.update(again.__dict__)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        names: Mapping[Any, Any] | None = None,
    ) -> Self:
        """Learn from new labels, one by one; unseen classes are added.

        The first call on a new estimator trains exactly, on `classes` (or those in y). Later calls add new
        classes of `classes` and of `names`; a new name replaces the old one of its class.
        The names are tested again when there are a quarter more labels; update="second_order" and
        "first_order" leave that to `fit`.
        For an indicator matrix y, `classes` name the columns, which may be known or new classes.
        """
        first, given = not hasattr(self, "posterior_"), y
        X, y = self._validated(X, y, names, first)
        if first:
            warn_of_outliers(X, "X")
        weights = _weights(sample_weight, X)
        named = named_classes(given, y, classes, names, None if first else self.classes_)
        if first:
            class_names = None if names is None else ClassNames.of(names, X)
            self._start(X, y, weights, named, None, class_names)
        else:
            self._learn(X, y, weights, named, names)
            if classes is not None or names is not None:
                self._declared = np.union1d(self._declared, named)
        return self

    def forget(self, X: Any, y: Any) -> Self:
        """Take labels back, the latest of each (X, y) first.

        The result is the classifier as if they had never been given. With update="exact" it is retrained
        without them (the scaling stays, and so does a class without labels); otherwise the labels of `fit`
        are retrained and those of `partial_fit` replayed without them.
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, None, False)
        examples = joined(self._taught)
        gone = positions(examples, X, y)
        keep = np.ones(len(examples[1]), bool)
        keep[gone] = False
        ends = np.cumsum([len(labels) for _, labels, _ in self._taught])[:-1]
        left = [rows(part, at) for part, at in zip(self._taught, np.split(keep, ends), strict=True)]
        first, later = left[0], [part for part in left[1:] if len(part[1])]
        direct = self._updates_exactly()
        if not len(first[1]) and not (direct and later):
            raise EverylabelError(
                "X and y are all labels of the classifier; expected to keep at least one: call fit again"
            )
        if direct:
            self._taught = [first, *later] if len(first[1]) else [joined(later)]
            self._train_without(rows(examples, gone))
            return self
        again = clone(self)
        again.from_pool_ = self.from_pool_
        from_pool = self.from_pool_ or self.matrix_ is not None  # the scaling does not come from the labels
        scaling = self._scaling if from_pool else None
        start = self.classes_ if self._several else self._first_classes  # rows have one column per class
        again._start(*first, start, scaling, self.names_)
        known = self.classes_
        if not self._several:
            named = np.concatenate([self._declared, *(labels for _, labels, _ in later)])
            known = self.classes_[np.isin(self.classes_, named)]
        for some in again._split_at_scaling(later):
            again._learn(*some, known)
        again._taught = [again._taught[0], *later]  # as given: they may be taken back later, too
        again._declared = self._declared
        self.__dict__.update(again.__dict__)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return logits at the mean: (n, k), or (n,) for two exclusive classes."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = np.asarray(logits(self.posterior_, self._scaling(X)))
        if self._several:
            return scores
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, k), columns in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(predict_proba(self.posterior_, self._scaling(X), method=self.predict_method))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each instance; with several classes an indicator matrix."""
        check_is_fitted(self)
        if self._several:
            return np.asarray(self.predict_proba(X) >= self.thresholds_, np.int64)
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    @property
    def thresholds_(self) -> np.ndarray:
        """Probability (k,) from which `predict` assigns a class; never chosen on test items."""
        check_is_fitted(self)
        if not self._several:
            raise AttributeError(
                "thresholds_ exist only with several classes per item; this classifier has one class per item"
            )
        if self._cached_thresholds is None or self._cached_thresholds[0] is not self.posterior_:
            self._cached_thresholds = self.posterior_, self._thresholds()
        return self._cached_thresholds[1]

    @property
    def examples_(self) -> Examples:
        """Training data in the order given: instances, labels and weights, without labels taken back."""
        check_is_fitted(self)
        return joined(self._taught)

    def leave_one_out(self) -> np.ndarray:
        """Return the probabilities (n, k) of each labelled instance by a model that has not seen its label.

        Rows are in the order in which labels were given (without those taken back), columns in the order of
        `classes_`. It is a closed form close to training n times without one label (core/leave_one_out.py).
        With update="second_order" or "first_order", it is that of a model trained exactly on the same labels.
        """
        X, y, weights = self.examples_
        if not len(y):
            raise EverylabelError("the classifier has no labels; expected a fitted one")
        trained = copy(self)
        trained._train(X, y, weights, self.classes_)
        rows = leave_one_out(trained.posterior_)[-len(y) :]  # rows of class names come first
        probs = np.asarray(LIKELIHOODS[trained.posterior_.likelihood].link(rows))
        return np.c_[1.0 - probs, probs] if probs.shape[1] < len(self.classes_) else probs

    def _start(
        self,
        X: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        classes: np.ndarray,
        scaling: Scaling | None = None,
        names: ClassNames | None = None,
    ) -> None:
        """Train on (X, y), the base of every later replay; they determine the scaling if none is given."""
        binary = self.likelihood == "binary"
        if binary and len(classes) != 2:
            raise EverylabelError(f"y holds {len(classes)} class(es); expected 2 with likelihood='binary'")
        self._check_parameters()
        self.names_, self._scaling_pending = names, False
        if scaling is None and self.scale_features:
            scaling, is_spread = _labelled_scaling(X, y, weights)
            self._scaling_pending = not is_spread
        self.center_, self.scale_, self.matrix_ = no_scaling(X.shape[1]) if scaling is None else scaling
        self._train(X, y, weights, classes)
        # the first entry was trained on, later ones learned one by one; copies, since callers reuse arrays
        self._taught, self._first_classes = [(X.copy(), y.copy(), weights.copy())], classes
        self._declared = classes[:0]

    @outliers_known()
    def _train(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, classes: np.ndarray) -> None:
        """Train on (X, y) with the present scaling."""
        several = y.ndim == 2
        numbers, X = encode(y, classes), self._scaling(X)
        if not several:
            weights = weights * compute_sample_weight(self.class_weight, y)
        elif self.class_weight is not None:
            raise EverylabelError(
                f"class_weight is {self.class_weight!r}, and items may have several classes; expected None: "
                "thresholds decide between misses and false alarms"
            )
        binary, prior = self.likelihood == "binary", self._precision(len(classes))
        rows = self._confirmed_names(X, numbers, classes)
        self.names_hold_, self._tested_at = rows is not None, len(y)
        if rows is not None:  # first, so that labels learned later are appended
            X, numbers = np.r_[rows.features, X], np.r_[rows.labels, numbers]
            weights = np.r_[rows.weights, weights]
        mean = fit_map(X, numbers, len(classes), prior, weights=weights, binary=binary, tol=self.tol)
        likelihood = SEVERAL.get(self.likelihood, self.likelihood) if several else self.likelihood
        posterior = laplace(mean, X, likelihood, prior, weights=weights, labels=numbers)
        self.classes_, self.posterior_ = classes, posterior

    def _confirmed_names(self, X: np.ndarray, numbers: np.ndarray, classes: np.ndarray) -> NameRows | None:
        """Return rows for class names, for scaled features X; None if the labels do not confirm the names."""
        if self.names_ is None:
            return None
        precision = self._precision(len(classes))
        return self.names_.rows_if_confirmed(classes, X, numbers, self._scaling, precision)

    @outliers_known()
    def _train_without(self, gone: Examples) -> None:
        """Retrain without these examples."""
        if self.matrix_ is not None:  # scaled in another batch, a row may differ in rounding and is not found
            self._train(*joined(self._taught), self.classes_)
            return
        X, y, weights = gone
        labels = encode(y, self.classes_)
        self.posterior_ = forget(self.posterior_, self._scaling(X), labels, weights=weights)
        self._test_names()

    def _test_names(self) -> None:
        """Test the class names again, and retrain if the outcome has changed."""
        X, y, weights = joined(self._taught)
        self._tested_at = len(y)
        if self.names_ is not None:
            rows = self._confirmed_names(self._scaling(X), encode(y, self.classes_), self.classes_)
            if (rows is not None) != self.names_hold_:
                self._train(X, y, weights, self.classes_)

    def _also_named(self, names: Mapping[Any, Any], X: np.ndarray) -> ClassNames:
        """Return the class names with later ones added."""
        if self.names_ is not None:
            return self.names_.with_added(names)
        X = np.concatenate([*(features for features, _, _ in self._taught), X])
        return ClassNames.of(names, X, self._scaling if self.from_pool_ else None)

    def _precision(self, n_classes: int) -> float:
        return self.prior_precision * (suited_precision(n_classes) if self.from_pool_ else 1.0)

    def _validated(self, X: Any, y: Any, names: Any, first: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return features and labels; there may be none if there are class names."""
        least = 1 if names is None else 0
        if not first and are_answers(y) != self._several:
            raise EverylabelError(
                f"y has shape {np.shape(y)}; expected "
                + ("a row of 1, 0 or NaN for each instance" if self._several else "one label per instance")
                + ", as it was learned before"
            )
        if are_answers(y):
            X = validate_data(self, X, dtype=np.float64, reset=first, ensure_min_samples=least)
            check_matrix(X, "X")
            return X, as_answers(y, len(X))
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first, ensure_min_samples=least)
        check_matrix(X, "X")
        if not len(y):
            return X, np.asarray(list(names))[:0]
        check_one_kind(y)
        with warnings.catch_warnings():  # many classes: scikit-learn warns that labels look like a regression
            warnings.filterwarnings("ignore", ".*number of unique classes", UserWarning)
            check_classification_targets(y)
        return X, y

    def _check_parameters(self) -> None:
        """Raise if a parameter that later calls need is invalid."""
        check_choice(self.update, "update", UPDATES)
        check_choice(self.predict_method, "predict_method", PREDICTIONS[:3])
        if self.predict_method == "probit" and self.likelihood not in ("binary", *SEVERAL.values()):
            raise EverylabelError(
                "predict_method is 'probit'; expected 'mean_field' unless likelihood='binary'"
            )
        if self.step_size is not None:
            check_positive(self.step_size, "step_size", zero=True)

    def _check_class_weight(self) -> None:
        """Raise if the class weights would change with every label."""
        if isinstance(self.class_weight, str) and self.update in METHODS:
            raise EverylabelError(
                f"class_weight is {self.class_weight!r}, which changes with every label; expected None or "
                f"a dict with update={self.update!r}, or update='refit'"
            )

    @outliers_known()
    def _learn(
        self,
        X: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        named: np.ndarray,
        names: Mapping[Any, Any] | None = None,
    ) -> None:
        """Learn from labels after the start; classes named for the first time are added."""
        self._check_parameters()
        self._check_class_weight()
        if not self._several and (y.dtype.kind in "OUS") != (self.classes_.dtype.kind in "OUS"):
            raise EverylabelError(
                f"y has dtype {y.dtype}; expected labels like those learned before ({self.classes_.dtype})"
            )
        new = named[~np.isin(named, self.classes_)]
        classes = np.concatenate([self.classes_, new])
        if self._several:
            y = spread(y, named, classes) if y.shape[1] == len(named) else y
            self._taught = [(x, spread(t, self.classes_, classes), w) for x, t, w in self._taught]
        now = X.copy(), y.copy(), weights.copy()
        if names is not None:
            self.names_ = self._also_named(names, X)
        if (
            names is not None
            or self.update == "refit"
            or (self.update == "exact" and not self._updates_exactly())
        ):
            self._train(*joined([*self._taught, now]), classes)
        else:
            posterior = add_class(self.posterior_, len(new)) if len(new) else self.posterior_
            step_size = None if self.update == "exact" else self.step_size
            labels, weights = encode(y, classes), weights * class_factors(self.class_weight, y)
            posterior = update(posterior, self._scaling(X), labels, self.update, step_size, weights=weights)
            self.classes_, self.posterior_ = classes, posterior
        self._taught.append(now)
        scaling = self._later_scaling(self._taught) if self._scaling_pending else None
        if scaling is not None:
            (self.center_, self.scale_, self.matrix_), self._scaling_pending = scaling, False
            self._train(*joined(self._taught), self.classes_)
        elif self._updates_exactly() and self._n_labels() >= TEST_AGAIN * self._tested_at:
            self._test_names()

    def _later_scaling(self, learned: list[Examples]) -> Scaling | None:
        """Return the scaling by later instances if the first did not determine it; None while too few."""
        if sum(np.sum(weights) for _, _, weights in learned) < ENOUGH:
            return None
        scaling, is_spread = _labelled_scaling(*joined(learned))
        return scaling if is_spread else None

    def _split_at_scaling(self, later: list[Examples]) -> list[Examples]:
        """Return later examples as one part, or as two: those that determined the scaling, and the rest."""
        at = 0
        if self._scaling_pending:
            enough = (i for i in range(1, len(later)) if self._later_scaling([*self._taught, *later[:i]]))
            at = next(enough, 0)
        return [joined(some) for some in (later[:at], later[at:]) if some]

    def _n_labels(self) -> int:
        return sum(len(labels) for _, labels, _ in self._taught)

    @property
    def _several(self) -> bool:
        """Whether items may have several classes."""
        return self.posterior_.multi_label

    def _thresholds(self) -> np.ndarray:
        k = len(self.classes_)
        if self.thresholds is None:
            return np.full(k, 0.5)
        if not isinstance(self.thresholds, str | Mapping):
            given = np.asarray(self.thresholds, np.float64)
            if given.shape != (k,):
                raise EverylabelError(
                    f"thresholds has shape {given.shape}; expected 'f1', None, costs or ({k},) numbers"
                )
            return given
        if self.thresholds != "f1" and isinstance(self.thresholds, str):
            raise EverylabelError(
                f"thresholds is {self.thresholds!r}; expected 'f1', None, a dict or an array"
            )
        if not len(self.examples_[1]):
            return np.full(k, 0.5)
        cost = self.thresholds if isinstance(self.thresholds, Mapping) else None
        return thresholds(self.leave_one_out(), self.examples_[1], cost)

    def _updates_exactly(self) -> bool:
        """Return whether the core's exact update equals retraining; with class weights it does not."""
        return self.update == "exact" and self.class_weight is None

    @property
    def _scaling(self) -> Scaling:
        return Scaling(self.center_, self.scale_, self.matrix_)


def from_posterior(
    posterior: Posterior,
    scaling: Scaling,
    classes: np.ndarray,
    examples: Examples,
    parameters: dict[str, Any],
    from_pool: bool,
) -> LaplaceClassifier:
    """Return an estimator with this posterior over scaled features, which can continue to learn.

    from_pool : whether the scaling comes from unlabelled instances. The posterior's precision is then the
    parameter times the factor for the number of classes; a missing prior_precision is derived from it.
    """
    prior = posterior.prior_precision / (suited_precision(posterior.n_classes) if from_pool else 1.0)
    known: dict[str, Any] = {"prior_precision": prior, **parameters}
    classifier = LaplaceClassifier(likelihood=posterior.likelihood, **known)
    classifier._check_parameters()
    classifier.from_pool_ = from_pool
    classifier.posterior_, classifier.classes_ = posterior, classes
    classifier.center_, classifier.scale_, classifier.matrix_ = scaling
    classifier.n_features_in_ = posterior.n_features
    classifier._taught, classifier._first_classes, classifier._declared = [examples], classes, classes[:0]
    return classifier


def with_names(classifier: LaplaceClassifier, names: ClassNames, hold: bool) -> LaplaceClassifier:
    """Return an estimator of `from_posterior` with class names; if they hold, its first rows are theirs."""
    X, y, weights = classifier._taught[0]
    rows = names.rows(classifier.classes_) if hold else None
    n = 0 if rows is None else len(rows.labels)
    classifier._taught = [(X[n:], y[n:], weights[n:])]
    classifier.names_, classifier.names_hold_, classifier._tested_at = names, hold, len(y) - n
    return classifier


def _labelled_scaling(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[Scaling, bool]:
    return fit_scaling(X, weights, several=len(np.unique(y[weights > 0])) > 1)


def _weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    if not len(X):  # class names only
        return np.empty(0)
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
