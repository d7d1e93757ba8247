"""Scaling by an unlabelled pool; the whole stays a linear map."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import everylabel as el
from everylabel import EverylabelError, LaplaceClassifier
from everylabel.models.classifier_files import as_classifier
from everylabel.models.scaling import (
    POOL_NORM,
    POWER,
    RIDGE,
    fit_pool_scaling,
    fit_scaling,
    no_scaling,
    suited_precision,
)


def _pool(rng: np.random.Generator, n: int = 400) -> np.ndarray:
    spread = np.array([5.0, 3.0, 1.0, 0.3, 0.1, 0.0])
    turned = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    return (rng.normal(size=(n, 6)) * spread) @ turned + 7.0


def test_directions_that_vary_more_are_trusted_more() -> None:
    pool = _pool(np.random.default_rng(0))
    scaling = fit_pool_scaling(pool)
    h = scaling(pool)
    np.testing.assert_allclose(h.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.mean(np.sum(h**2, axis=1)), POOL_NORM**2)
    values, vectors = np.linalg.eigh(np.cov(pool.T))
    before, after = np.sqrt(values[1:]), np.std(h @ vectors[:, 1:], axis=0)
    ratio = (after / after[-1]) / (before / before[-1]) ** 1.5  # std^(1 + POWER)
    np.testing.assert_allclose(ratio[-3:], 1.0, rtol=0.02)  # the ridge lifts the least


def test_back_and_fold_undo_and_compose_it() -> None:
    rng = np.random.default_rng(1)
    pool = _pool(rng)
    for scaling in (fit_pool_scaling(pool), fit_scaling(pool, np.ones(len(pool)))[0]):
        np.testing.assert_allclose(scaling.back(scaling(pool[:9])), pool[:9], rtol=1e-8)
        weights, bias = rng.normal(size=(6, 3)), rng.normal(size=3)
        folded, constant = scaling.fold(weights, bias)
        np.testing.assert_allclose(pool @ folded + constant, scaling(pool) @ weights + bias, rtol=1e-7)


def test_a_pool_of_twins_is_uninformative() -> None:
    twins = np.tile(np.arange(1.0, 5.0), (6, 1))
    assert fit_pool_scaling(twins).matrix is None
    for pool in (twins, twins[:1]):
        h = fit_pool_scaling(pool)(pool)
        np.testing.assert_allclose(np.sum(h**2, axis=1), POOL_NORM**2)  # the norm that the prior suits
    assert np.all(fit_pool_scaling(0.0 * twins)(twins) == twins)


def test_a_pool_around_zero_is_no_pool_of_twins() -> None:
    half = np.round(_pool(np.random.default_rng(4), 256))  # so that the mean is 0 to the last bit
    pool = np.concatenate([half, -half])
    scaling = fit_pool_scaling(pool)
    assert not np.any(pool.mean(axis=0))
    assert scaling.matrix is not None
    np.testing.assert_allclose(np.mean(np.sum(scaling(pool) ** 2, axis=1)), POOL_NORM**2)


@pytest.mark.parametrize("far", [10.0, 1000.0])
def test_features_may_lie_far_from_zero(far: float) -> None:
    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    pool, later = x[100:1000], slice(1000, None)
    for how in ({}, {"unlabelled": pool}):
        moved = {name: some + far for name, some in how.items()}
        near = LaplaceClassifier().fit(x[:100], y[:100], **how)
        away = LaplaceClassifier().fit(x[:100] + far, y[:100], **moved)
        np.testing.assert_allclose(
            away.predict_proba(x[later] + far), near.predict_proba(x[later]), atol=1e-4
        )


@pytest.mark.parametrize("update", ["exact", "second_order", "refit"])
def test_the_first_ten_labels_determine_the_scale_where_one_alone_could_not(update: str) -> None:
    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    one_by_one, at_once = LaplaceClassifier(update=update), LaplaceClassifier(update=update)
    for i in range(10):
        one_by_one.partial_fit(x[[i]] + 50.0, y[[i]])
        assert np.any(one_by_one.center_) == (i == 9)
    at_once.partial_fit(x[:10] + 50.0, y[:10])
    for clf in (one_by_one, at_once):
        clf.partial_fit(x[10:60] + 50.0, y[10:60])
    left = np.argsort(one_by_one.classes_)
    np.testing.assert_allclose(
        one_by_one.predict_proba(x[1000:] + 50.0)[:, left], at_once.predict_proba(x[1000:] + 50.0), atol=1e-4
    )


def test_few_nearly_equal_instances_do_not_determine_a_scaling() -> None:
    few = np.array([[1.0, 2.0], [1.01, 2.0]])
    many = np.tile(few, (5, 1))
    assert not fit_scaling(few, np.ones(2), several=True)[1]
    assert not fit_scaling(many, np.ones(10))[1]  # of one class
    assert fit_scaling(many, np.ones(10), several=True)[1]
    assert not np.any(fit_scaling(many, np.ones(10))[0].center)
    rounded = 1.0 + 3e-5 * np.random.default_rng(7).normal(size=(12, 3))  # of several classes by mistake
    assert not fit_scaling(rounded, np.ones(12), several=True)[1]


def _years(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    x = 2000.0 + 3.0 * np.random.default_rng(5).normal(size=(n, 3))
    return x, (x[:, 0] > 2000.0).astype(int)


@pytest.mark.parametrize("update", ["second_order", "first_order", "refit"])
@pytest.mark.parametrize("gone", [[1], [5], [12], [5, 9, 13]])
def test_forget_is_as_if_never_learned_also_where_ten_labels_determined_the_scale(
    update: str, gone: list[int]
) -> None:
    x, y = _years()
    forgot, never = LaplaceClassifier(update=update), LaplaceClassifier(update=update)
    for clf, without in ((forgot, []), (never, gone)):
        first = np.setdiff1d(np.arange(4), without)
        clf.partial_fit(x[first], y[first], classes=[0, 1])
        for i in np.setdiff1d(np.arange(4, 16), without):
            clf.partial_fit(x[[i]], y[[i]])
    for i in gone:  # one by one: what is left may be taken back as well
        forgot.forget(x[[i]], y[[i]])
    assert np.any(never.center_)
    np.testing.assert_allclose(forgot.center_, never.center_)
    np.testing.assert_allclose(forgot.predict_proba(x[16:]), never.predict_proba(x[16:]), atol=1e-6)


def test_a_file_remembers_that_the_scale_is_not_determined_yet(tmp_path: Path) -> None:
    x, y = _years()
    clf = LaplaceClassifier().fit(x[:9], y[:9])
    el.save_classifier(clf, tmp_path / "clf.npz")
    loaded = el.load_classifier(tmp_path / "clf.npz")
    for each in (clf, loaded):
        each.partial_fit(x[9:20], y[9:20])
    assert np.any(loaded.center_)
    np.testing.assert_allclose(loaded.predict_proba(x), clf.predict_proba(x), atol=1e-6)


def test_a_weight_is_how_often_an_instance_counts() -> None:
    x, y = _years(6)
    far = np.array([[9000.0, 0.0, 0.0]])
    plain = LaplaceClassifier().fit(x, y)
    none = LaplaceClassifier().fit(np.r_[x, far], np.r_[y, 1], sample_weight=[1.0] * 6 + [0.0])
    np.testing.assert_allclose((*none.center_, none.scale_), (*plain.center_, plain.scale_))
    copies = 1.0 + 0.003 * np.random.default_rng(6).normal(size=(13, 3))
    alike = LaplaceClassifier().fit(copies, [0] * 12 + [1], sample_weight=[1.0] * 12 + [0.0])
    assert not np.any(alike.center_)  # copies of one class tell none
    twice = LaplaceClassifier().fit(np.r_[x, x], np.r_[y, y])
    double = LaplaceClassifier().fit(x, y, sample_weight=[2.0] * 6)
    assert np.any(twice.center_)
    np.testing.assert_allclose((*double.center_, double.scale_), (*twice.center_, twice.scale_))


def test_near_copies_at_the_start_do_not_determine_the_scale() -> None:
    x, y = load_digits(return_X_y=True)
    x, rng = x / 16.0, np.random.default_rng(0)
    clf = LaplaceClassifier()
    for _ in range(12):
        clf.partial_fit(x[[0]] + 0.003 * rng.normal(size=(1, 64)), y[[0]])
    assert not np.any(clf.center_)
    clf.partial_fit(x[1:101], y[1:101])
    assert 5.0 < np.sqrt(np.mean(np.sum(((x[1:101] - clf.center_) * clf.scale_) ** 2, axis=1))) < 20.0
    assert clf.score(x[1000:], y[1000:]) > 0.75


def test_a_scale_that_was_given_or_from_a_pool_stays() -> None:
    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    taught = el.laplace(el.fit_map(x[:200], y[:200], 10), x[:200], keep_data=False)
    given = as_classifier(taught, no_scaling(64), range(10), update="second_order")
    before = given.score(x[1000:], y[1000:])
    for clf in (given, LaplaceClassifier().fit(x[:2], y[:2], unlabelled=np.tile(x[:1], (5, 1)))):
        scale = clf.scale_
        clf.partial_fit(x[200:230], y[200:230])
        assert clf.scale_ == scale
    assert given.score(x[1000:], y[1000:]) > before - 0.05
    balanced = np.array(
        [[a, b, c, d] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1) for d in (-1, 1)], float
    )
    clf = LaplaceClassifier().fit(balanced, np.arange(16) % 2)
    assert not np.any(clf.center_)
    scale = clf.scale_
    assert clf.partial_fit([[30.0] * 4], [1]).scale_ == scale


def _by_covariance(pool: np.ndarray) -> np.ndarray:
    """The slow twin: the map by the (d, d) covariance, whatever the number of instances."""
    values, vectors = np.linalg.eigh(np.cov(pool.T, bias=True))
    matrix: np.ndarray = (vectors * (values / values[-1] + RIDGE) ** (POWER / 2)) @ vectors.T
    return matrix


@pytest.mark.parametrize(("n", "d"), [(90, 40), (40, 40), (40, 90), (2, 90)])
def test_scaling_from_inner_products_equals_scaling_from_the_covariance(n: int, d: int) -> None:
    rng = np.random.default_rng(5)
    pool = rng.normal(size=(n, d)) * np.linspace(0.01, 3.0, d) + 0.2
    scaling = fit_pool_scaling(pool)
    assert scaling.matrix is not None
    np.testing.assert_allclose(scaling.matrix, _by_covariance(pool), atol=1e-6)
    assert np.array_equal(scaling.matrix, scaling.matrix.T)
    np.testing.assert_allclose(np.mean(np.sum(scaling(pool) ** 2, axis=1)), POOL_NORM**2, rtol=1e-6)
    np.testing.assert_allclose(scaling.back(scaling(pool)), pool, rtol=1e-6)


def test_of_many_features_some_instances_determine_the_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _pool(np.random.default_rng(6), 1000)
    whole = fit_pool_scaling(pool)
    monkeypatch.setattr("everylabel.models.scaling.WIDE", 5)
    monkeypatch.setattr("everylabel.models.scaling.ROWS", 250)
    some = fit_pool_scaling(pool)
    assert (some.center == pool[np.linspace(0, 999, 250).astype(int)].mean(axis=0)).all()
    assert some.matrix is not None
    assert whole.matrix is not None
    np.testing.assert_allclose(some.matrix, whole.matrix, atol=0.05)
    np.testing.assert_allclose(some.scale, whole.scale, rtol=0.1)


@pytest.mark.parametrize(("k", "precision"), [(1, 2.0), (2, 2.0), (8, 0.5), (16, 0.25), (150, 0.25)])
def test_the_prior_follows_the_number_of_classes(k: int, precision: float) -> None:
    assert suited_precision(k) == precision


def test_a_classifier_learns_from_unlabelled_instances() -> None:
    rng = np.random.default_rng(2)
    d, n = 40, 1500
    y = rng.integers(2, size=n)
    x = rng.normal(size=(n, d)) * np.r_[3.0, np.ones(d - 1)]  # the pool varies most where the classes differ
    x[:, 0] += np.where(y == 1, 4.0, -4.0)
    plain = np.mean([_score(x, y, seed, None) for seed in range(10)])
    told = np.mean([_score(x, y, seed, x) for seed in range(10)])
    assert told > plain + 0.01


def _score(x: np.ndarray, y: np.ndarray, seed: int, pool: np.ndarray | None) -> float:
    idx = np.random.default_rng(seed).permutation(len(y))[:8]
    idx[:2] = np.argmax(y == 0), np.argmax(y == 1)
    return float(LaplaceClassifier().fit(x[idx], y[idx], unlabelled=pool).score(x, y))


def test_pool_scaling_is_kept_while_labels_change() -> None:
    rng = np.random.default_rng(3)
    pool, y = _pool(rng, 60), np.tile([0, 1, 2], 20)
    for update in ("exact", "second_order"):
        clf = LaplaceClassifier(update=update).fit(pool[:9], y[:9], unlabelled=pool)
        before = clf.predict_proba(pool)
        clf.partial_fit(pool[9:12], y[9:12]).forget(pool[9:12], y[9:12])
        np.testing.assert_allclose(clf.predict_proba(pool), before, atol=1e-3)
        assert clf.matrix_ is not None
    assert clf.fit(pool[:9], y[:9]).matrix_ is None


def test_labels_on_scaled_features_can_be_forgotten_in_any_batch() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 33)), rng.integers(4, size=200)
    clf = LaplaceClassifier().fit(x[:20], y[:20], unlabelled=x).partial_fit(x[20:60], y[20:60])
    clf.forget(x[[3, 7, 9, 30, 41, 44, 59]], y[[3, 7, 9, 30, 41, 44, 59]])
    left = np.setdiff1d(np.arange(60), [3, 7, 9, 30, 41, 44, 59])
    again = LaplaceClassifier().fit(x[left], y[left], unlabelled=x)
    np.testing.assert_allclose(clf.predict_proba(x), again.predict_proba(x), atol=2e-3)


def test_numbers_whose_squares_overflow_are_refused() -> None:
    x, y = load_digits(return_X_y=True)
    with pytest.raises(EverylabelError, match="X holds numbers beyond 1e"):
        LaplaceClassifier().fit(x[:50] * 1e160, y[:50])
