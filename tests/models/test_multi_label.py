"""`LaplaceClassifier` with an indicator matrix, and decision thresholds."""

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import everylabel as el
from everylabel.models.thresholds import thresholds_of


def problem(n: int = 90, k: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 6)) + 1.0
    return x, (x @ rng.normal(size=(6, k)) + 0.3 * rng.normal(size=(n, k)) > 1.0).astype(int)


def test_fit_equals_one_vs_rest_logistic_regression() -> None:
    x, y = problem()
    ours = el.LaplaceClassifier(scale_features=False, prior_precision=0.5).fit(x, y)
    design = np.c_[x, np.ones(len(x))]  # scikit-learn leaves its intercept without a prior; a column has one
    theirs = OneVsRestClassifier(LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=1000))
    assert np.allclose(ours.predict_proba(x), theirs.fit(design, y).predict_proba(design), atol=1e-4)
    more = el.LaplaceClassifier(scale_features=False, prior_precision=0.5).fit(x[:60], y[:60])
    for i in range(60, 90):
        more.partial_fit(x[[i]], y[[i]])
    assert np.allclose(more.predict_proba(x), theirs.predict_proba(design), atol=1e-4)


def test_conventions_of_scikit_learn() -> None:
    x, y = problem()
    clf = el.LaplaceClassifier().fit(x, y)
    assert clf.predict_proba(x).shape == clf.decision_function(x).shape == y.shape
    assert set(np.unique(clf.predict(x))) <= {0, 1}
    assert np.array_equal(clf.classes_, [0, 1, 2])
    assert np.array_equal(
        clf.predict(x), el.LaplaceClassifier().fit(x, scipy.sparse.csr_matrix(y)).predict(x)
    )
    assert clf.score(x, y) == np.mean((clf.predict(x) == y).all(axis=1))
    assert np.array_equal(pickle.loads(pickle.dumps(clf)).predict(x), clf.predict(x))
    scores = cross_val_score(
        make_pipeline(StandardScaler(), el.LaplaceClassifier()), x, y, scoring="f1_macro", cv=3
    )
    assert scores.min() > 0.6


@pytest.mark.parametrize("update", ["exact", "second_order", "refit"])
def test_forget_is_as_if_it_had_never_been(update: str) -> None:
    x, y = problem()
    answers = y.astype(float)
    answers[65, 1] = np.nan
    rest = np.r_[:60, 61:65, 66:70]
    clf = el.LaplaceClassifier(update=update).fit(x[:60], answers[:60])
    twin = el.LaplaceClassifier(update=update).fit(x[:60], answers[:60])
    for i in range(60, 70):
        clf.partial_fit(x[[i]], answers[[i]])
        if i in rest:
            twin.partial_fit(x[[i]], answers[[i]])
    clf.forget(x[[60, 65]], answers[[60, 65]])
    assert np.allclose(clf.predict_proba(x), twin.predict_proba(x), atol=1e-4)


def test_columns_have_names_and_new_ones_come() -> None:
    x, y = problem()
    clf = el.LaplaceClassifier().fit(x[:40], y[:40, :2], classes=["a", "b"])
    clf.partial_fit(x[40:60], y[40:60, [2, 0]], classes=["c", "a"])
    assert clf.classes_.tolist() == ["a", "b", "c"]
    answers = np.full((60, 3), np.nan)
    answers[:40, :2], answers[40:, [2, 0]] = y[:40, :2], y[40:60, [2, 0]]
    assert np.array_equal(clf.examples_[1], answers, equal_nan=True)
    twin = el.LaplaceClassifier(scale_features=False).fit(clf._scaling(x[:60]), answers)
    assert np.allclose(clf.predict_proba(x), twin.predict_proba(clf._scaling(x)), atol=1e-3)


def test_class_names_and_the_pool_are_learned_before_the_first_label() -> None:
    x, y = problem(300)
    names = {c: x[y[:, c] == 1].mean(axis=0) for c in range(3)}
    clf = el.LaplaceClassifier().fit(x[:0], y[:0], unlabelled=x, names=names)
    probs = clf.predict_proba(x)
    assert all(probs[y[:, c] == 1, c].mean() > probs[y[:, c] == 0, c].mean() + 0.05 for c in range(3))
    wrong = {c: -names[(c + 1) % 3] for c in range(3)}
    assert not el.LaplaceClassifier().fit(x[:80], y[:80], unlabelled=x, names=wrong).names_hold_


def test_saved_classifier_predicts_and_learns_alike(tmp_path: Any) -> None:
    x, y = problem()
    clf = el.LaplaceClassifier().fit(x[:60], y[:60], classes=["a", "b", "c"])
    el.save_classifier(clf, tmp_path / "clf.npz")
    loaded = el.load_classifier(tmp_path / "clf.npz")
    assert np.array_equal(loaded.predict(x), clf.predict(x))
    both = [each.partial_fit(x[60:61], y[60:61]).predict_proba(x) for each in (clf, loaded)]
    assert np.allclose(both[0], both[1], atol=1e-4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((90, 3), 2), "y holds other numbers"),
        (np.zeros((80, 3)), "y has shape"),
        (["a"] * 90, "expected a row"),
    ],
)
def test_other_labels_are_refused(y: Any, message: str) -> None:
    x, right = problem()
    clf = el.LaplaceClassifier().fit(x, right)
    with pytest.raises(el.EverylabelError, match=message):
        clf.partial_fit(x, y)
    with pytest.raises(el.EverylabelError, match="class_weight is 'balanced'"):
        el.LaplaceClassifier(class_weight="balanced").fit(x, right)


def brute(p: Any, t: Any, cost: dict[str, float] | None) -> float:
    """Return the best value of F1, or less the cost, over all thresholds."""
    found = []
    for threshold in np.r_[0.0, np.unique(p), 1.1]:
        guess = p >= threshold
        hits, misses, alarms = np.sum(guess & (t == 1)), np.sum(~guess & (t == 1)), np.sum(guess & (t == 0))
        f1 = 2 * hits / (2 * hits + misses + alarms)
        found.append(f1 if cost is None else -cost["miss"] * misses - cost["false alarm"] * alarms)
    return float(max(found))


@pytest.mark.parametrize("cost", [None, {"miss": 3.0, "false alarm": 1.0}])
def test_threshold_is_the_best_of_all(cost: dict[str, float] | None) -> None:
    rng = np.random.default_rng(0)
    p = np.round(rng.random((60, 2)), 2)
    t = (rng.random((60, 2)) < p).astype(float)
    t[:5, 0] = np.nan
    found = el.thresholds(p, t, cost, trust=0.0)
    for c in range(2):
        rows = ~np.isnan(t[:, c])
        guess, right = p[rows, c] >= found[c], t[rows, c]
        hits, misses, alarms = (
            np.sum(guess & (right == 1)),
            np.sum(~guess & (right == 1)),
            np.sum(guess & (right == 0)),
        )
        value = 2 * hits / (2 * hits + misses + alarms) if cost is None else -3.0 * misses - alarms
        assert value == pytest.approx(brute(p[rows, c], right, cost))


def test_few_positives_lean_on_all_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((400, 3))
    t = (rng.random((400, 3)) < p**2).astype(float)
    t[:, 2] = 0.0
    t[0, 2] = 1.0
    alone, pooled, leaning = (el.thresholds(p, t, trust=trust) for trust in (0.0, 1e9, 10.0))
    assert np.ptp(pooled) < 1e-6
    logit = [np.log(each / (1 - each)) for each in (alone, pooled, leaning)]
    positives = t.sum(axis=0)
    assert np.allclose(logit[2], (positives * logit[0] + 10.0 * logit[1]) / (positives + 10.0), atol=1e-4)


def test_thresholds_refuse_numbers_that_are_no_probabilities() -> None:
    with pytest.raises(el.EverylabelError, match="probs runs from"):
        el.thresholds(np.array([[2.0]]), np.array([[1.0]]))
    with pytest.raises(el.EverylabelError, match="what each kind of error costs"):
        el.thresholds(np.array([[0.5]]), np.array([[1.0]]), {"fn": 1.0})
    assert np.array_equal(el.thresholds(np.array([[0.5]]), np.array([[np.nan]])), [0.5])


@pytest.mark.parametrize("cost", [None, {"miss": 3.0, "false alarm": 1.0}])
def test_pool_without_labels_chooses_the_best_expected_threshold(cost: dict[str, float] | None) -> None:
    rng = np.random.default_rng(3)
    p = rng.random((500, 2)) ** 2
    found = el.thresholds(p, None, cost)
    for c in range(2):
        values = []
        for threshold in (*np.unique(p[:, c]), found[c]):
            said = p[:, c] >= threshold
            hits, misses, alarms = p[said, c].sum(), p[~said, c].sum(), (1.0 - p[said, c]).sum()
            values.append(2 * hits / (2 * hits + misses + alarms) if cost is None else -3.0 * misses - alarms)
        assert values[-1] == pytest.approx(max(values))
        best = 0.25 if cost is not None else values[-1] / 2  # F1 is largest at half its value
        assert found[c] == pytest.approx(best, abs=0.02)


def test_thresholds_of_a_pool_ignore_which_instances_were_chosen() -> None:
    x, y = problem(300)
    mean = el.fit_map(x[:60], y[:60], 3)
    posterior = el.laplace(mean, x[:60], "bernoulli", labels=y[:60])
    found: Any = thresholds_of(posterior, x)
    np.testing.assert_allclose(found, el.thresholds(el.predict_proba(posterior, x, "mean")))
    other = el.laplace(mean, x[:60], "bernoulli", labels=1.0 - y[:60])  # the same model
    np.testing.assert_array_equal(thresholds_of(other, x), found)
    rest: Any = thresholds_of(posterior, x, range(60))
    np.testing.assert_allclose(rest, el.thresholds(el.predict_proba(posterior, x[60:], "mean")))
    assert not np.allclose(rest, found)
    all_labelled: Any = thresholds_of(posterior, x[:60], range(60))
    np.testing.assert_allclose(all_labelled, el.thresholds(el.predict_proba(posterior, x[:60], "mean")))


def test_a_class_without_a_positive_label_is_not_predicted_everywhere() -> None:
    x, y = problem(300)
    labels = y[:60].copy()
    labels[:, 2] = 0.0
    posterior = el.laplace(el.fit_map(x[:60], labels, 3), x[:60], "bernoulli", labels=labels)
    found: Any = thresholds_of(posterior, x)
    assert found[2] >= 0.5
    np.testing.assert_array_equal(found[:2], el.thresholds(el.predict_proba(posterior, x, "mean"))[:2])
