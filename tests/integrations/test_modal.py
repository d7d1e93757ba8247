"""Strategies as modAL's query functions, in its own learner."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import everylabel as el
from everylabel.integrations.modal import query_strategy
from everylabel.selection.strategies import STRATEGIES
from tests.integrations.data import digits

models = pytest.importorskip("modAL.models", reason="needs modAL-python (make install)")


def learner(strategy: str = "margin", estimator: Any = None, **options: Any) -> Any:
    x, y = digits()
    estimator = el.LaplaceClassifier() if estimator is None else estimator
    return models.ActiveLearner(estimator, query_strategy(strategy, seed=0, **options), x[:30], y[:30])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_answers(strategy: str) -> None:
    x, _ = digits()
    idx, rows, metrics = learner(strategy).query(x[30:], n_instances=3, return_metrics=True)
    assert len(set(idx.tolist())) == 3
    np.testing.assert_array_equal(rows, x[30:][idx])
    assert metrics.shape == (3,)
    assert np.isnan(metrics).all() == (not STRATEGIES[strategy].has_scores)


def test_query_equals_select() -> None:
    x, y = digits()
    clf = el.LaplaceClassifier(scale_features=False).fit(x[:30], y[:30])
    pool = el.Pool(x, clf.posterior_, labelled_idx=np.arange(30), labels=y[:30])
    wanted = el.select(pool, "margin", n=5)
    idx, metrics = query_strategy("margin")(learner(estimator=clf), x[30:], 5)
    np.testing.assert_array_equal(idx + 30, wanted)
    assert np.all(np.diff(metrics) <= 0)


def test_pipeline_works_and_foreign_classifier_is_refused() -> None:
    x, _ = digits()
    plain = learner(estimator=make_pipeline(StandardScaler(), el.LaplaceClassifier())).query(x[30:])[0]
    assert plain.shape == (1,)
    other = make_pipeline(StandardScaler())
    with pytest.raises(el.EverylabelError, match="is a StandardScaler; expected a LaplaceClassifier"):
        query_strategy()(type("Learner", (), {"estimator": other}), x)


def test_before_the_first_label() -> None:
    x, y = digits()
    blank = models.ActiveLearner(el.LaplaceClassifier(), query_strategy("margin", seed=0))
    idx, _ = blank.query(x, n_instances=10)
    assert len(np.unique(y[idx])) > 5  # Typiclust has seen clusters


def test_options_are_passed_to_the_strategy() -> None:
    with pytest.raises(el.EverylabelError, match="risk is not an option of strategy 'margin'"):
        query_strategy("margin", risk="log")
    with pytest.raises(el.EverylabelError, match="strategy is 'best'"):
        query_strategy("best")


def test_teach_works_within_the_limits_of_modal() -> None:
    x, y = digits()
    active = learner("herding")
    before = active.score(x, y)
    idx, rows = active.query(x[30:], n_instances=20)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*force_all_finite.*", FutureWarning)
        try:
            active.teach(rows, y[30:][idx])
        except TypeError:  # from scikit-learn 1.8 on, which has no force_all_finite any more
            active.estimator.partial_fit(rows, y[30:][idx])  # which is the faster way anyway
    assert active.score(x, y) > before
