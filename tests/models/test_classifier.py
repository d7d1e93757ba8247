"""`LaplaceClassifier` as a scikit-learn estimator."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import everylabel as el
from everylabel.models.classifier import UPDATES


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [el.LaplaceClassifier(update=update) for update in UPDATES]
)
def test_every_scikit_learn_check(estimator: Any, check: Any) -> None:
    if check.func.__name__ == "check_array_api_input":
        pytest.skip("scikit-learn runs it with SCIPY_ARRAY_API=1 only; the estimator takes NumPy arrays")
    check(estimator)


@pytest.fixture
def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x / 16.0, y


def test_learns_label_by_label(digits: Any) -> None:
    x, y = digits
    clf = el.LaplaceClassifier(step_size=1.0).fit(x[:50], y[:50])
    before = clf.score(x[1000:], y[1000:])
    for i in range(50, 150):
        clf.partial_fit(x[i : i + 1], y[i : i + 1])
    assert clf.score(x[1000:], y[1000:]) > before


def test_partial_fit_equals_the_functions(digits: Any) -> None:
    x, y = digits
    clf = el.LaplaceClassifier(
        prior_precision=0.3,
        likelihood="categorical",
        update="second_order",
        step_size=2.0,
        scale_features=False,
        predict_method="mean_field",
    )
    clf.fit(x[:100], y[:100]).partial_fit(x[100:105], y[100:105], sample_weight=[1, 2, 1, 0.5, 1])
    mean = el.fit_map(x[:100], y[:100], 10, 0.3)
    post = el.laplace(mean, x[:100], "categorical", 0.3)
    post = el.update(post, x[100:105], y[100:105], step_size=2.0, weights=[1, 2, 1, 0.5, 1])
    np.testing.assert_allclose(clf.posterior_.mean, post.mean)
    np.testing.assert_allclose(clf.predict_proba(x[:9]), el.predict_proba(post, x[:9]))


@pytest.mark.parametrize(
    ("update", "class_weight"),
    [
        *((update, None) for update in UPDATES),
        ("exact", "balanced"),
        ("refit", "balanced"),
        ("second_order", {1: 3.0}),
    ],
)
def test_forget_is_as_if_it_had_never_been(digits: Any, update: str, class_weight: Any) -> None:
    x, y = digits
    direct = update == "exact" and class_weight is None  # it keeps the scaling, and is not replayed
    clf = el.LaplaceClassifier(update=update, class_weight=class_weight, scale_features=not direct)
    other = clone(clf)
    clf.fit(x[:50], y[:50]).partial_fit(x[50:55], y[50:55]).partial_fit(x[55:60], y[55:60])
    clf.forget(x[[3, 52]], y[[3, 52]])
    first, later = np.delete(np.arange(50), 3), np.delete(np.arange(50, 60), 2)
    other.fit(x[first], y[first]).partial_fit(x[later], y[later])
    atol = 2e-3 if direct else 1e-7  # an exact update stops at its own tolerance
    np.testing.assert_allclose(clf.predict_proba(x[:20]), other.predict_proba(x[:20]), atol=atol, rtol=0)


def test_exact_forgets_all_of_the_first_labels(digits: Any) -> None:
    x, y = digits
    clf = el.LaplaceClassifier(scale_features=False).fit(x[:50], y[:50]).partial_fit(x[50:90], y[50:90])
    clf.forget(x[:50], y[:50])
    other = el.LaplaceClassifier(scale_features=False).fit(x[50:90], y[50:90])
    assert set(other.classes_) == set(clf.classes_)
    np.testing.assert_allclose(clf.predict_proba(x[:20]), other.predict_proba(x[:20]), atol=2e-3)
    clf.forget(x[50:89], y[50:89])
    with pytest.raises(el.EverylabelError, match="keep at least one"):
        clf.forget(x[89:90], y[89:90])


@pytest.mark.parametrize("class_weight", [None, {0: 3.0}, "balanced"])
@pytest.mark.parametrize("likelihood", ["gaussian", "per_class"])
def test_exact_predicts_what_retraining_predicts(digits: Any, likelihood: str, class_weight: Any) -> None:
    x, y = digits
    params: dict[str, Any] = {"prior_precision": 0.5, "likelihood": likelihood, "class_weight": class_weight}
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 120)
    probs = []
    for update in ("exact", "refit"):
        clf = el.LaplaceClassifier(update=update, **params).fit(x[:60], y[:60], weights[:60])
        for i in range(60, 85):
            clf.partial_fit(x[i : i + 1], y[i : i + 1], sample_weight=weights[i : i + 1])
        probs.append(clf.predict_proba(x[1000:]))
    assert 0.5 * np.abs(probs[0] - probs[1]).sum(axis=1).mean() < 1e-3


@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("update", UPDATES)
def test_the_scale_of_features_does_not_matter(digits: Any, update: str, factor: float) -> None:
    x, y = digits
    probs = []
    for data in (x, factor * x):
        clf = el.LaplaceClassifier(update=update).partial_fit(data[:40], y[:40])
        clf.partial_fit(data[40:60], y[40:60])
        probs.append(clf.predict_proba(data[1000:]))
        scaled = (data[:40] - clf.center_) * clf.scale_
        np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(np.mean(np.sum(scaled**2, axis=1)), 100.0)
    np.testing.assert_allclose(probs[0], probs[1], atol=1e-6)


def test_scaling_of_one_instance_and_of_none(digits: Any) -> None:
    x, y = digits
    one = el.LaplaceClassifier().partial_fit(x[:1], y[:1], classes=np.arange(10))
    np.testing.assert_allclose(np.linalg.norm((x[:1] - one.center_) * one.scale_), 10.0)
    assert el.LaplaceClassifier().fit(0 * x[:2], y[:2]).scale_ == 1.0
    raw = el.LaplaceClassifier(scale_features=False).fit(x[:50], y[:50])
    assert raw.scale_ == 1.0
    np.testing.assert_allclose(raw.posterior_.mean, el.fit_map(x[:50], y[:50], 10))


@pytest.mark.parametrize("update", ["second_order", "refit"])
def test_forget_refuses_unknown_labels(digits: Any, update: str) -> None:
    x, y = digits
    clf = el.LaplaceClassifier(update=update).fit(x[:50], y[:50]).partial_fit(x[50:52], y[50:52])
    before = clf.predict_proba(x[:5])
    with pytest.raises(el.EverylabelError, match="never learned"):
        clf.forget(x[[50, 60]], y[[50, 60]])
    with pytest.raises(el.EverylabelError, match="keep at least one"):
        clf.forget(x[:50], y[:50])
    np.testing.assert_array_equal(clf.predict_proba(x[:5]), before)


@pytest.mark.parametrize("update", UPDATES)
def test_strings_and_a_class_that_appears_late(digits: Any, update: str) -> None:
    x, y = digits
    names = np.array(["zero", "one", "two"])
    rows = np.flatnonzero(y < 3)[:90]
    early, late = rows[y[rows] != 1], rows[y[rows] == 1]
    clf = el.LaplaceClassifier(update=update, step_size=1.0).fit(x[early], names[y[early]])
    assert list(clf.classes_) == ["two", "zero"]
    clf.partial_fit(x[late], names[y[late]])
    assert list(clf.classes_) == ["two", "zero", "one"]
    assert clf.score(x[rows], names[y[rows]]) > (0.9 if update != "first_order" else 0.3)
    clf.forget(x[late[:1]], names[y[late[:1]]])
    with pytest.raises(el.EverylabelError, match="y has dtype int64"):
        clf.partial_fit(x[:1], [5])


def test_first_partial_fit_takes_the_classes(digits: Any) -> None:
    x, y = digits
    clf = el.LaplaceClassifier().partial_fit(x[:5], y[:5], classes=np.arange(10))
    assert clf.predict_proba(x[:3]).shape == (3, 10)
    with pytest.raises(el.EverylabelError, match="not in classes"):
        el.LaplaceClassifier().partial_fit(x[:5], y[:5], classes=[0, 1])


def test_one_class_only(digits: Any) -> None:
    x, _ = digits
    clf = el.LaplaceClassifier().fit(x[:3], [4, 4, 4])
    assert set(clf.predict(x[:9])) == {4}
    assert set(clf.partial_fit(x[:1], [5]).classes_) == {4, 5}


def test_binary_likelihood(digits: Any) -> None:
    x, y = digits
    rows = np.flatnonzero(y < 2)
    clf = el.LaplaceClassifier(likelihood="binary", predict_method="probit", step_size=1.0)
    clf.fit(x[rows[:20]], y[rows[:20]]).partial_fit(x[rows[20:30]], y[rows[20:30]])
    assert clf.score(x[rows], y[rows]) > 0.98
    assert clf.decision_function(x[:4]).shape == (4,)
    with pytest.raises(el.EverylabelError, match="expected 2 with likelihood='binary'"):
        clone(clf).fit(x[:50], y[:50])


@pytest.mark.parametrize("name", ["update", "predict_method", "likelihood"])
def test_wrong_parameter_is_named(digits: Any, name: str) -> None:
    x, y = digits
    with pytest.raises(el.EverylabelError, match=f"{name} is 'nothing'; expected one of"):
        el.LaplaceClassifier().set_params(**{name: "nothing"}).fit(x[:50], y[:50])


def test_pickles_and_lives_in_pipelines(digits: Any) -> None:
    x, y = digits
    pipe = make_pipeline(StandardScaler(), el.LaplaceClassifier(class_weight="balanced"))
    assert cross_val_score(pipe, x[:400], y[:400], cv=3).mean() > 0.85
    clf = el.LaplaceClassifier().fit(x[:50], y[:50])
    again = pickle.loads(pickle.dumps(clf)).partial_fit(x[50:51], y[50:51])
    np.testing.assert_allclose(
        again.predict_proba(x[:5]), clf.partial_fit(x[50:51], y[50:51]).predict_proba(x[:5])
    )


@pytest.mark.parametrize("update", UPDATES)
def test_arrays_the_caller_reuses(digits: Any, update: str) -> None:
    x, y = digits
    buffer = x[:50].copy()
    clf = el.LaplaceClassifier(update=update).fit(buffer, y[:50])
    before = clf.predict_proba(x[:5])
    buffer[:] = 0.0
    clf.partial_fit(x[50:51], y[50:51]).forget(x[50:51], y[50:51])
    np.testing.assert_allclose(clf.predict_proba(x[:5]), before, atol=2e-3)


@pytest.mark.parametrize("update", ["second_order", "first_order", "refit"])
def test_forget_replays_a_class_that_came_late(digits: Any, update: str) -> None:
    x, y = digits
    early, late = np.flatnonzero(y < 2)[:20], np.flatnonzero(y == 2)[:5]
    clf = (
        el.LaplaceClassifier(update=update, step_size=1.0)
        .fit(x[early], y[early])
        .partial_fit(x[late], y[late])
    )
    clf.forget(x[late[:1]], y[late[:1]])
    other = el.LaplaceClassifier(update=update, step_size=1.0).fit(x[early], y[early])
    other.partial_fit(x[late[1:]], y[late[1:]])
    np.testing.assert_allclose(clf.predict_proba(x[:9]), other.predict_proba(x[:9]), atol=1e-7)
    clf.forget(x[late[1:]], y[late[1:]])
    assert list(clf.classes_) == [0, 1]


def test_a_failed_fit_leaves_what_was_fitted(digits: Any) -> None:
    x, y = digits
    clf = el.LaplaceClassifier().fit(x[:50], y[:50])
    before = clf.predict_proba(x[:5])
    with pytest.raises(ValueError, match="continuous"):
        clf.fit(x[:50, :10], np.linspace(0, 1, 50))
    np.testing.assert_array_equal(clf.predict_proba(x[:5]), before)


def test_class_weights_count_in_partial_fit(digits: Any) -> None:
    x, y = digits
    plain = el.LaplaceClassifier(update="second_order", scale_features=False)
    weighted = clone(plain).set_params(class_weight={3: 2.0}).fit(x[:50], y[:50])
    plain.fit(x[:50], y[:50], np.where(y[:50] == 3, 2.0, 1.0))
    weighted.partial_fit(x[50:60], y[50:60])
    plain.partial_fit(x[50:60], y[50:60], sample_weight=np.where(y[50:60] == 3, 2.0, 1.0))
    np.testing.assert_allclose(weighted.predict_proba(x[:5]), plain.predict_proba(x[:5]), atol=1e-9)
    balanced = el.LaplaceClassifier(update="second_order", class_weight="balanced").fit(x[:50], y[:50])
    with pytest.raises(el.EverylabelError, match="class_weight is 'balanced', which changes"):
        balanced.partial_fit(x[50:60], y[50:60])


def test_later_classes_are_added(digits: Any) -> None:
    x, y = digits
    clf = el.LaplaceClassifier().fit(x[:5], y[:5]).partial_fit(x[5:6], y[5:6], classes=range(10))
    assert clf.predict_proba(x[:2]).shape == (2, 10)


@pytest.mark.parametrize("update", UPDATES)
def test_forget_keeps_classes_that_were_declared(digits: Any, update: str) -> None:
    x, y = digits
    clf = el.LaplaceClassifier(update=update).fit(x[:50], y[:50])
    clf.partial_fit(x[50:53], y[50:53], classes=range(12)).forget(x[50:51], y[50:51])
    assert len(clf.classes_) == 12


def test_nearly_equal_first_instances_do_not_set_the_scale(digits: Any) -> None:
    x, y = digits
    pair = np.stack([x[0], x[0] + 1e-6 * np.random.default_rng(0).normal(size=64)])
    clf = el.LaplaceClassifier().partial_fit(pair, y[[0, 0]])
    assert clf.scale_ < 10
    assert clf.partial_fit(x[:200], y[:200]).score(x[1000:], y[1000:]) > 0.8


def test_a_state_of_before_predicts(digits: Any) -> None:
    x, y = digits
    fitted = el.LaplaceClassifier().fit(x[:60], y[:60])
    old = pickle.loads(pickle.dumps(fitted))
    del old.matrix_, old.from_pool_  # as versions without `unlabelled` left it
    assert np.array_equal(old.predict_proba(x), fitted.predict_proba(x))
    for one in (old, fitted):
        one.partial_fit(x[60:70], y[60:70]).forget(x[60:65], y[60:65])
    assert np.array_equal(old.predict_proba(x), fitted.predict_proba(x))


def test_a_fit_without_a_pool_forgets_the_pool_of_before(digits: Any) -> None:
    x, y = digits
    fresh = el.LaplaceClassifier(update="second_order").fit(x[:60], y[:60])
    again = el.LaplaceClassifier(update="second_order").fit(x[:60], y[:60], unlabelled=x).fit(x[:60], y[:60])
    assert again.posterior_.prior_precision == fresh.posterior_.prior_precision == 1.0
    for one in (fresh, again):
        one.partial_fit(x[60:70], y[60:70]).forget(x[:5], y[:5])
    assert np.array_equal(again.predict_proba(x), fresh.predict_proba(x))


@pytest.mark.parametrize("update", ["exact", "second_order"])
@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_leaving_one_out_is_close_to_training_without_it(digits: Any, update: str, likelihood: str) -> None:
    x, y = digits
    x, y = x[y < 2][:40], np.array(["no", "yes"])[y[y < 2][:40]]
    y[[3, 8, 17]] = np.where(y[[3, 8, 17]] == "no", "yes", "no")  # so that there is something to see
    weights = np.linspace(0.5, 2.0, 40)
    clf = el.LaplaceClassifier(
        prior_precision=2.0, likelihood=likelihood, update=update, scale_features=False
    )
    clf.fit(x[:30], y[:30], weights[:30]).partial_fit(x[30:], y[30:], sample_weight=weights[30:])
    clf.partial_fit(x[:1], y[:1]).forget(x[:1], y[:1])
    found, seen = clf.leave_one_out(), el.LaplaceClassifier(**clf.get_params()).fit(x, y, weights)
    true = np.empty((40, 2))
    for i in range(40):
        rest = np.arange(40) != i
        true[i] = clone(clf).fit(x[rest], y[rest], weights[rest]).predict_proba(x[i : i + 1])[0]
    own = clf.classes_ == y[:, None]
    error = np.abs(found[own] - true[own]).mean()
    assert error < 0.2 * np.abs(seen.predict_proba(x)[own] - true[own]).mean()
    assert set(np.argsort(found[own])[:3]) == {3, 8, 17}


def test_leaving_one_out_knows_class_names_and_needs_labels(digits: Any) -> None:
    x, y = digits
    names = {label: x[y == label].mean(axis=0)[None] for label in range(10)}
    clf = el.LaplaceClassifier().fit(x[:60], y[:60], names=names)
    assert clf.leave_one_out().shape == (60, 10)
    assert np.mean(clf.leave_one_out().argmax(axis=1) == y[:60]) > 0.8
    with pytest.raises(el.EverylabelError, match="has no labels"):
        el.LaplaceClassifier().fit(x[:0], [], names=names, unlabelled=x[:99]).leave_one_out()


def test_fit_takes_classes_that_have_no_label_yet(digits: Any) -> None:
    x, y = digits
    few = y[:60] % 4
    clf = el.LaplaceClassifier().fit(x[:60], few, classes=[9, 3, 2, 1, 0], unlabelled=x[:200])
    assert clf.classes_.tolist() == [0, 1, 2, 3, 9]
    assert 0 < clf.predict_proba(x[:5])[:, 4].max() < 0.1
    with pytest.raises(el.EverylabelError, match=r"not in classes: \[3\]"):
        el.LaplaceClassifier().fit(x[:60], few, classes=[0, 1, 2])


def test_fit_with_many_classes_prints_no_warning() -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        el.LaplaceClassifier().fit(x, y)


def test_unnamed_columns_of_another_number_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), (rng.random((12, 3)) < 0.5).astype(float)
    clf = el.LaplaceClassifier().fit(x, pandas.DataFrame(y, columns=["a", "b", "c"]))
    with pytest.raises(el.EverylabelError, match="y has 2 columns without names, and 3 classes are known"):
        clf.partial_fit(x, y[:, :2])
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.partial_fit(x, y[:, :2], classes=["b", "d"]).classes_.tolist() == ["a", "b", "c", "d"]
