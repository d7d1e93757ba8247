"""scikit-activeml: a `SingleAnnotatorPoolQueryStrategy` for all strategies, and a `SkactivemlClassifier`.

>>> y = np.full(len(X), MISSING_LABEL)
>>> strategy = EverylabelStrategy("herding", random_state=0)
>>> idx = strategy.query(X, y, batch_size=5)
>>> y[idx] = oracle[idx]
>>> classifier = EverylabelClassifier(classes=[0, 1, 2]).fit(X, y)  # unlabelled instances set the scale, too
"""

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_is_fitted

from everylabel.core import EverylabelError
from everylabel.core.errors import need
from everylabel.integrations.choosing import blank_pool, choose, pool_of
from everylabel.models.classifier import LaplaceClassifier
from everylabel.selection.pool import Pool
from everylabel.selection.strategies import DEFAULT, get

__all__ = ["EverylabelClassifier", "EverylabelStrategy"]

base: Any = need("skactiveml.base", "skactiveml", "everylabel.integrations.skactiveml")
utils: Any = need("skactiveml.utils", "skactiveml", "everylabel.integrations.skactiveml")


class EverylabelClassifier(base.SkactivemlClassifier):
    """`LaplaceClassifier` for data with missing labels.

    Parameters
    ----------
    estimator : LaplaceClassifier, optional
        The estimator to clone and fit; default: LaplaceClassifier().
    use_unlabelled : bool, default=True
        In `fit`, estimate the prior of the weights from unlabelled instances, too.
    classes, missing_label, cost_matrix, random_state
        As in scikit-activeml.

    Attributes
    ----------
    estimator_ : LaplaceClassifier or None
        Fitted on class numbers; None while there is no label: then all classes are equally likely.

    Examples
    --------
    >>> from everylabel.integrations.skactiveml import EverylabelClassifier
    >>> some = np.where(np.arange(500) < 60, y[:500], np.nan)  # NaN: no label
    >>> clf = EverylabelClassifier(classes=range(10)).fit(x[:500], some)
    >>> clf.predict(x[500:503]).shape
    (3,)
    """

    estimator_: LaplaceClassifier | None
    classes_: np.ndarray

    def __init__(
        self,
        estimator: LaplaceClassifier | None = None,
        use_unlabelled: bool = True,
        classes: Any = None,
        missing_label: Any = utils.MISSING_LABEL,
        cost_matrix: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            classes=classes, missing_label=missing_label, cost_matrix=cost_matrix, random_state=random_state
        )
        self.estimator = estimator
        self.use_unlabelled = use_unlabelled

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the instances that have a label."""
        self._check()
        X, y, weights = self._validate_data(X, y, sample_weight)
        known = y >= 0
        self.estimator_ = None
        if known.any():
            pool = X if self.use_unlabelled else None
            every = np.arange(len(self.classes_))
            weights = None if weights is None else weights[known]
            blank = LaplaceClassifier() if self.estimator is None else clone(self.estimator)
            numbers = y[known].astype(np.int64)
            self.estimator_ = blank.fit(X[known], numbers, weights, unlabelled=pool, classes=every)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from new labels, one by one; expects `classes`, or the classes that `fit` found."""
        if getattr(self, "estimator_", None) is None:
            return self.fit(X, y, sample_weight)
        before = self.classes_
        X, y, weights = self._validate_data(X, y, sample_weight, reset=False)
        if not np.array_equal(before, self.classes_):
            found = self.classes_[:5].tolist()
            self.classes_ = before
            raise EverylabelError(
                f"y holds the classes {found}, and fit found {before[:5].tolist()}; expected classes= to "
                "name all of them"
            )
        known = y >= 0
        if known.any():
            weights = None if weights is None else weights[known]
            self.estimator_.partial_fit(X[known], y[known].astype(np.int64), sample_weight=weights)  # type: ignore
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (n, k), columns in the order of `classes_`."""
        check_is_fitted(self, "classes_")
        X = check_array(X)
        utils.check_n_features(self, X, reset=False)
        if self.estimator_ is None:
            return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))
        return self.estimator_.predict_proba(X)

    def _check(self) -> None:
        if self.estimator is not None and not isinstance(self.estimator, LaplaceClassifier):
            raise TypeError(
                f"estimator is a {type(self.estimator).__name__}; expected a LaplaceClassifier or None"
            )
        utils.check_type(self.use_unlabelled, "use_unlabelled", bool)


class EverylabelStrategy(base.SingleAnnotatorPoolQueryStrategy):
    """A strategy of `everylabel.strategies()`.

    Parameters
    ----------
    strategy : str, default="herding"
        The name of the strategy.
    options : dict, optional
        Options of the strategy.
    classes, missing_label, random_state
        As in scikit-activeml. Without `classes`, only labelled classes are known.

    While there is no label, Typiclust picks.

    Examples
    --------
    >>> from everylabel.integrations.skactiveml import EverylabelStrategy
    >>> some = np.where(np.arange(500) < 60, y[:500], np.nan)
    >>> idx = EverylabelStrategy("margin", random_state=0).query(x[:500], some, batch_size=5)
    >>> some[idx] = y[idx]
    """

    def __init__(
        self,
        strategy: str = DEFAULT,
        options: dict[str, Any] | None = None,
        classes: Any = None,
        missing_label: Any = utils.MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy, self.options, self.classes = strategy, options, classes

    def query(
        self,
        X: Any,
        y: Any,
        clf: EverylabelClassifier | None = None,
        fit_clf: bool = True,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Return the positions of the next instances to label, and on request the utilities of all.

        clf is an `EverylabelClassifier`, by default a new one; a copy of it is fitted unless fit_clf=False.
        candidates are positions in X. Utilities are scores (batch_size, len(X)), NaN for instances that
        cannot be chosen. Strategies that choose a batch as a whole have 1 for chosen instances and 0 for the
        others.
        """
        X, y, candidates, n, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True, check_X_dict={"dtype": np.float64}
        )
        rule = get(self.strategy)
        options = {} if self.options is None else dict(self.options)
        rule.check(options)
        utils.check_type(fit_clf, "fit_clf", bool)
        _, at = self._transform_candidates(candidates, X, y, enforce_mapping=True, allow_only_unlabeled=True)
        pool = self._pool(X, y, clf, fit_clf)
        seed = int(self.random_state_.randint(2**31 - 1))
        chosen = choose(pool, rule.name, n, np.asarray(at), seed, options, return_utilities)
        if not return_utilities:
            return chosen.idx
        utilities = np.full((n, len(X)), np.nan)
        utilities[:, at] = 0.0 if chosen.scores is None else chosen.scores
        for row, picked in enumerate(chosen.idx):
            utilities[row + 1 :, picked] = np.nan
            if chosen.scores is None:
                utilities[row, picked] = 1.0
        return chosen.idx, utilities

    def _pool(self, X: np.ndarray, y: np.ndarray, clf: Any, fit_clf: bool) -> Pool:
        if clf is not None and not isinstance(clf, EverylabelClassifier):
            raise TypeError(f"clf is a {type(clf).__name__}; expected an EverylabelClassifier, or None")
        known = utils.is_labeled(y, self.missing_label_)
        if clf is None:
            clf = EverylabelClassifier(classes=self.classes, missing_label=self.missing_label)
        if fit_clf and known.any():
            clf = clone(clf).fit(X, y)
        model = getattr(clf, "estimator_", None)
        if model is None:
            return blank_pool(X)
        return pool_of(model, X, np.flatnonzero(known), clf._le.transform(y[known]))
