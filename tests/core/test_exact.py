"""The exact update against a general optimiser, against retraining, and against itself."""

import pickle
from functools import partial
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import everylabel as el
from everylabel.core import newton
from everylabel.core.errors import EverylabelWarning
from everylabel.core.updates import exact
from tests.conftest import LIKELIHOODS, Case, cases, design
from tests.core import dense

close = np.testing.assert_allclose
EXCESS = 0.01  # nats the objective may be above its minimum


def loss(mean: Any, features: Any, labels: Any, weights: Any, prior_precision: float) -> float:
    fit = dense.neg_log_likelihood(torch.tensor(mean), design(features), labels, weights)
    return float(fit) + 0.5 * prior_precision * float(np.sum(mean * mean))


def optimum(features: Any, labels: Any, weights: Any, prior_precision: float, columns: int) -> Any:
    """Return the minimum of the loss by SciPy's L-BFGS."""
    x, shape = design(features), (features.shape[1] + 1, columns)

    def at(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(shape)
        grad = dense.gradient(w, x, labels, weights) + prior_precision * w
        return loss(w, features, labels, weights, prior_precision), grad.ravel()

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    best = minimize(at, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    return best.x.reshape(shape)


def trained(case: Case, likelihood: str) -> el.Posterior:
    mean = el.fit_map(case.features, case.labels, case.k, case.prior_precision, binary=likelihood == "binary")
    return el.laplace(mean, case.features, likelihood, case.prior_precision, labels=case.labels)


def everything(case: Case) -> tuple[Any, Any, Any]:
    return (
        np.r_[case.features, case.new_features],
        np.r_[case.labels, case.new_labels],
        np.r_[np.ones(len(case.labels)), case.weights],
    )


@pytest.fixture
def to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the update run to the last digit, so that results can be compared for equality."""
    monkeypatch.setattr(exact, "TOLERANCE", 1e-15)
    monkeypatch.setattr(newton, "FORCING", 1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@hypothesis.given(data=st.data())
def test_reaches_the_optimum_of_a_general_optimiser(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary", max_new=12))
    post = el.update(
        trained(case, likelihood), case.new_features, case.new_labels, "exact", weights=case.weights
    )
    best = optimum(*everything(case), case.prior_precision, post.mean.shape[1])
    reached = loss(post.mean, *everything(case), case.prior_precision)
    assert reached - loss(best, *everything(case), case.prior_precision) < EXCESS


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("likelihood", ["gaussian", "per_class", "binary"])
@hypothesis.given(data=st.data())
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_one_by_one_all_at_once_and_training_are_equal(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary", max_new=12))
    post = trained(case, likelihood)
    once = el.update(post, case.new_features, case.new_labels, "exact", weights=case.weights)
    for i in range(len(case.new_labels)):
        r = slice(i, i + 1)
        post = el.update(post, case.new_features[r], case.new_labels[r], "exact", weights=case.weights[r])
    x, y, weights = everything(case)
    mean = el.fit_map(
        x, y, case.k, case.prior_precision, weights=weights, binary=likelihood == "binary", tol=1e-10
    )
    close(once.mean, mean, atol=1e-5)
    close(post.mean, mean, atol=1e-5)


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@hypothesis.given(data=st.data())
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_covariance_is_conditioned_at_the_new_mean(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = trained(case, likelihood)
    new = el.update(post, case.new_features, case.new_labels, "exact", weights=case.weights)
    expected = el.condition(post.replace(mean=new.mean), case.new_features, weights=case.weights)
    close(new.cov, expected.cov, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@hypothesis.given(data=st.data())
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_forget_is_as_if_the_label_had_never_been(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = trained(case, likelihood)
    there = el.update(post, case.new_features, case.new_labels, "exact", weights=case.weights)
    back = el.forget(there, case.new_features, case.new_labels, weights=case.weights)
    close(back.mean, post.mean, atol=1e-5)
    x, y, weights = everything(case)
    fewer = el.forget(there, x[:1], y[:1])
    mean = el.fit_map(
        x[1:],
        y[1:],
        case.k,
        case.prior_precision,
        weights=weights[1:],
        binary=likelihood == "binary",
        tol=1e-10,
    )
    close(fewer.mean, mean, atol=1e-5)
    assert np.all(np.linalg.eigvalsh(fewer.cov) > 0)


@pytest.mark.usefixtures("to_the_end")
@hypothesis.given(case=cases())
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_forget_and_update_change_a_label(case: Case) -> None:
    x, y, _ = everything(case)
    other = (y[0] + 1) % case.k
    post = el.update(trained(case, "gaussian"), case.new_features, case.new_labels, "exact")
    twice = el.update(el.forget(post, x[:1], y[:1]), x[:1], [other], "exact")
    mean = el.fit_map(x, np.r_[other, y[1:]], case.k, case.prior_precision, tol=1e-10)
    close(twice.mean, mean, atol=1e-5)
    close(el.forget(twice, x[:1], [other]).mean, el.forget(post, x[:1], y[:1]).mean, atol=1e-5)


def test_search_for_a_label_orthogonal_to_others_starts_at_the_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[float] = []

    def noted(*given: Any) -> newton.Step:
        step = newton.newton_step(*given)
        began.append(step.decrement)
        return step

    monkeypatch.setattr(newton, "NEGLIGIBLE", 0.0)
    monkeypatch.setattr(exact, "OWN", -1.0)
    monkeypatch.setattr(exact, "solve_dual", partial(exact.solve_dual, tolerance=1e-12))
    monkeypatch.setattr(exact, "newton_step", noted)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    x, y = (turned / turned[:, 5:])[:5, :5], np.array([0, 1, 2, 0, 1])  # at right angles, with the bias's one
    post = el.laplace(el.fit_map(x[:4], y[:4], 3, tol=1e-12), x[:4], labels=y[:4])
    el.update(post, x[4:], y[4:], "exact")
    assert began[0] < 1e-9


@pytest.mark.usefixtures("to_the_end")
def test_weights_are_taken_back_in_parts_and_from_twins() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)), rng.integers(3, size=6)
    post = el.laplace(el.fit_map(x, y, 3), x, labels=y)
    new, label = rng.normal(size=(1, 3)), [2]
    many = el.update(post, new, label, "exact", weights=[3.0])
    one = el.update(post, new, label, "exact")
    close(el.forget(many, new, label, weights=[2.0]).mean, one.mean, atol=1e-6)
    twins = el.update(el.update(one, new, label, "exact"), new, label, "exact")
    close(twins.mean, many.mean, atol=1e-6)
    close(el.forget(twins, new, label, weights=[2.0]).mean, one.mean, atol=1e-6)
    with pytest.raises(el.EverylabelError, match="number 0 was never learned"):
        el.forget(twins, new, label, weights=[3.5])
    with pytest.raises(el.EverylabelError, match="was never learned"):
        el.forget(one, new, [1])  # with that label it was not
    back = post
    for _ in range(5):  # rows of weight 0 pile up, and are dropped
        back = el.forget(el.update(back, new, label, "exact"), new, label)
    close(back.mean, post.mean, atol=1e-6)
    assert back.data is not None
    assert len(back.data) < 11


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("method", ["second_order", "first_order"])
@pytest.mark.parametrize("likelihood", ["gaussian", "matrix_normal", "binary"])
def test_labels_of_other_updates_count_too(method: str, likelihood: str) -> None:
    rng = np.random.default_rng(1)
    k = 2 if likelihood == "binary" else 3
    x, y, w = rng.normal(size=(20, 3)), rng.integers(k, size=20), rng.uniform(0.5, 2, 20)
    binary = likelihood == "binary"
    mean = el.fit_map(x[:9], y[:9], k, weights=w[:9], binary=binary)
    post = el.laplace(mean, x[:9], likelihood, labels=y[:9], weights=w[:9])
    post = el.update(post, x[9:12], y[9:12], method, weights=w[9:12])
    post = el.update(
        el.condition(post, rng.normal(size=(2, 3))), x[12:14], y[12:14], method, weights=w[12:14]
    )
    post = el.update(post, x[14:], y[14:], "exact", weights=w[14:])
    close(post.mean, el.fit_map(x, y, k, weights=w, binary=binary), atol=1e-6)


@pytest.mark.usefixtures("to_the_end")
def test_a_class_that_appears_while_labelling() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(30, 4)), np.r_[rng.integers(2, size=20), rng.integers(4, size=10)]
    post = el.laplace(el.fit_map(x[:20], y[:20], 2), x[:20], labels=y[:20])
    post = el.update(post, x[20:21], [1], "second_order")
    post = el.update(el.add_class(post, 2), x[21:], y[21:], "exact")
    y[20] = 1
    close(post.mean, el.fit_map(x, y, 4), atol=1e-6)


def test_without_labels_the_mean_is_taken_for_the_mode() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    mean = el.fit_map(x[:20], y[:20], 3, 0.3)
    told = el.laplace(mean, x[:20], prior_precision=0.3, labels=y[:20])
    untold = el.laplace(mean, x[:20], prior_precision=0.3)
    assert told.data is not None
    assert untold.data is not None
    close(untold.data.label_sums, told.data.label_sums, atol=1e-6)
    new = x[20:], y[20:], "exact"
    close(el.update(untold, *new).mean, el.update(told, *new).mean, atol=1e-5)


def test_older_posteriors_never_see_later_labels() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(40, 4)), rng.integers(3, size=40)
    root = el.laplace(el.fit_map(x[:10], y[:10], 3), x[:10], labels=y[:10])
    root = el.update(root, x[10:11], y[10:11], "exact")
    left = right = root
    for i in range(11, 25):  # two histories grow from one prefix, in turn
        left = el.update(left, x[i : i + 1], y[i : i + 1], "exact")
        right = el.update(right, x[i + 14 : i + 15], y[i + 14 : i + 15], "exact")
    for post, rows in ((root, [*range(11)]), (left, [*range(25)]), (right, [*range(11), *range(25, 39)])):
        assert post.data is not None
        np.testing.assert_array_equal(post.data.features, design(x[rows]))
        np.testing.assert_array_equal(post.data.labels, y[rows])
        best = el.fit_map(x[rows], y[rows], 3)
        excess = loss(post.mean, x[rows], y[rows], np.ones(len(rows)), 1.0)
        assert excess - loss(best, x[rows], y[rows], np.ones(len(rows)), 1.0) < EXCESS


def test_caller_may_change_its_arrays_afterwards() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(9, 3)), rng.integers(3, size=9)
    post = el.laplace(np.zeros((3, 3)), x[:8], labels=y[:8])  # without a bias: no copy on the way
    before = el.update(post, x[8:], y[8:], "exact").mean
    new = x[8:].copy()
    x[:] = 99.0
    after = el.update(post, new, y[8:], "exact")
    np.testing.assert_array_equal(after.mean, before)
    cov = el.update(post, new.copy(), y[8:], "exact").cov
    new[:] = 99.0
    np.testing.assert_array_equal(after.cov, cov)  # made now


def test_many_labels_taken_back_at_once_are_as_if_never_given() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(300, 5)), rng.integers(3, size=300)
    post = el.laplace(el.fit_map(x, y, 3), x, labels=y)
    gone = 74
    found = el.forget(post, x[:gone], y[:gone])
    best = el.fit_map(x[gone:], y[gone:], 3, tol=1e-9)
    np.testing.assert_allclose(
        el.predict_proba(found, x, "mean"), el.predict_proba(post.replace(mean=best), x, "mean"), atol=2e-3
    )


def test_a_row_of_zeros_without_a_bias_says_nothing() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(12, 30)), np.arange(12) % 3
    post = el.laplace(el.fit_map(x, y, 3, bias=False), x, labels=y)
    reports: list[Any] = []
    after = el.update(post, np.zeros((1, 30)), [0], "exact", report=reports.append)
    np.testing.assert_allclose(after.mean, post.mean, atol=1e-3)
    assert reports[0].whole
    assert reports[0].steps == 1
    again = el.forget(after, np.zeros((1, 30)), [0])
    np.testing.assert_allclose(again.mean, post.mean, atol=1e-3)


def test_a_search_from_nothing_ends_in_single_precision() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(41, 300)), np.arange(41) % 10
    post = el.laplace(np.zeros((301, 10)), x[:40], labels=y[:40])
    reports: list[Any] = []
    after = el.update(post, x[40:], y[40:], "exact", report=reports.append)
    assert after.data is not None
    assert after.data.features.dtype == np.float32
    assert reports[0].whole


@pytest.mark.unchecked_shapes
@pytest.mark.parametrize("most", [1.0, 20.0])
def test_labels_that_count_more_end_as_near_as_others(most: float) -> None:
    rng = np.random.default_rng(9)
    x, y, w = 10.0 * rng.normal(size=(80, 10)), rng.integers(6, size=80), rng.uniform(1.0, most, 80)
    post = el.laplace(el.fit_map(x[:30], y[:30], 6, weights=w[:30]), x[:30], labels=y[:30], weights=w[:30])
    for i in range(30, 80):
        post = el.update(post, x[[i]], y[[i]], "exact", weights=w[[i]])
    excess = loss(post.mean, x, y, w, 1.0) - loss(optimum(x, y, w, 1.0, 6), x, y, w, 1.0)
    assert excess < 0.05


@pytest.mark.unchecked_shapes
def test_three_hundred_labels_do_not_drift() -> None:
    """In single precision with all state carried along, the last label is as precise as the first."""
    x, y = load_digits(return_X_y=True)
    x = np.kron(x / 4.0, np.ones((1, 4)))  # 256 features: above the size that stays in double
    post = el.laplace(el.fit_map(x[:50], y[:50], 10), x[:50], labels=y[:50])
    assert post.data is not None
    assert post.data.features.dtype == np.float32
    distances = []
    for i in range(50, 350):
        post = el.update(post, x[i : i + 1], y[i : i + 1], "exact")
        if i % 50 == 49:
            best = el.laplace(el.fit_map(x[: i + 1], y[: i + 1], 10), x[: i + 1])
            p, q = (el.predict_proba(each, x[1000:], "mean") for each in (post, best))
            distances.append(0.5 * np.abs(p - q).sum(axis=1).mean())
    assert max(distances) < 0.002


@pytest.mark.unchecked_shapes
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_the_tolerance_suits_features_of_any_scale(scale: float) -> None:
    """Features of norm 1250 leave an objective of a fraction of a nat: an absolute tolerance fails."""
    x, y = load_digits(return_X_y=True)
    x = scale * np.kron(x, np.ones((1, 4)))
    post = el.laplace(el.fit_map(x[:100], y[:100], 10, tol=1e-12), x[:100], labels=y[:100])
    for i in range(100, 110):
        post = el.update(post, x[i : i + 1], y[i : i + 1], "exact")
    best = el.laplace(el.fit_map(x[:110], y[:110], 10, tol=1e-12), x[:110])
    p, q = (el.predict_proba(each, x[1000:], "mean") for each in (post, best))
    assert 0.5 * np.abs(p - q).sum(axis=1).mean() < 0.002


@pytest.mark.unchecked_shapes
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_surprises_from_an_empty_start(scale: float, likelihood: str) -> None:
    """One label to start with, thirty wrong twins, features of any size: still the optimum."""
    rng = np.random.default_rng(6)
    k = 2 if likelihood == "binary" else 5
    x, y = scale * rng.normal(size=(40, 6)), rng.integers(k, size=40)
    x[5:35], y[5:35] = x[4], (y[4] + 1) % k
    post = el.laplace(np.zeros((7, 1 if k == 2 else k)), x[:1], likelihood, labels=y[:1])
    for i in range(1, 40):
        post = el.update(post, x[i : i + 1], y[i : i + 1], "exact")
    best = el.fit_map(x, y, k, binary=k == 2)
    assert loss(post.mean, x, y, np.ones(40), 1.0) - loss(best, x, y, np.ones(40), 1.0) < EXCESS


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_posterior_given_is_left_alone(likelihood: str) -> None:
    rng = np.random.default_rng(0)
    k = 2 if likelihood == "binary" else 3
    post = el.laplace(rng.normal(size=(4, 1 if k == 2 else k)), rng.normal(size=(6, 3)), likelihood)
    post = el.update(post, rng.normal(size=(1, 3)), [0], "exact")
    assert post.data is not None
    arrays = [post.mean, post.cov, post.data.features, post.data.label_sums, post.data.weights]
    copies = [array.copy() for array in arrays]
    labels = rng.normal(size=(5, 3)), rng.integers(k, size=5)
    new = el.update(post, *labels, "exact")
    el.forget(new, post.data.features[-1:, :-1], [0])
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(el.update(post, *labels, "exact").mean, new.mean)  # nor what it left


def test_preconditioner_is_rebuilt_when_labels_grow_by_40_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 4)), rng.integers(3, size=32)
    post = el.laplace(el.fit_map(x[:20], y[:20], 3), x[:20], labels=y[:20])
    built: list[int] = []

    def build(features: Any, *rest: Any) -> newton.Preconditioner:
        built.append(len(features))
        return newton.build_preconditioner(features, *rest)

    monkeypatch.setattr(exact, "build_preconditioner", build)
    for i in range(20, 32):
        post = el.update(post, x[i : i + 1], y[i : i + 1], "exact")
    post = el.forget(post, x[31:], y[31:])
    assert built == [20, 29]  # at first, and when they are over 1.4 times as many
    el.update(el.add_class(post), x[31:], [3], "exact")
    assert len(built) == 3  # it had no column for that class


def test_an_exact_update_reports_how_it_ended() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(21, 4)), rng.integers(3, size=21)
    post = el.laplace(el.fit_map(x[:20], y[:20], 3), x[:20], labels=y[:20])
    ends: list[exact.Report] = []
    told = el.update(post, x[20:], y[20:], "exact", report=ends.append)
    np.testing.assert_array_equal(told.mean, el.update(post, x[20:], y[20:], "exact").mean)
    far = post.replace(mean=post.mean + 30.0 * rng.normal(size=post.mean.shape))
    el.update(far, x[20:], y[20:], "exact", report=ends.append)
    assert [end.whole for end in ends] == [True, True]
    assert 1 <= ends[0].steps < ends[1].steps
    assert all(end.decrement <= (5 * 3 * exact.TOLERANCE) ** 0.5 for end in ends)
    with pytest.raises(el.EverylabelError, match="report is given, but method is 'second_order'"):
        el.update(post, x[20:], y[20:], report=ends.append)


def test_empty_batches_and_missing_data() -> None:
    x = np.ones((2, 3))
    post = el.laplace(np.zeros((4, 3)), x)
    assert el.update(post, np.zeros((0, 3)), [], "exact") is post
    assert el.forget(post, np.zeros((0, 3)), []) is post
    bare = el.laplace(np.zeros((4, 3)), x, keep_data=False)
    assert bare.data is None
    with pytest.raises(el.EverylabelError, match="keep_data=True"):
        el.update(bare, x, [0, 1], "exact")
    with pytest.raises(el.EverylabelError, match=r"step_size is 1.0; method='exact' has none"):
        el.update(post, x, [0, 1], "exact", 1.0)


@pytest.mark.unchecked_shapes
def test_many_noted_labels_are_counted_and_pickle() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1500, 3)), rng.integers(3, size=1500)
    post = el.laplace(el.fit_map(x[:20], y[:20], 3), x[:20], labels=y[:20])
    for i in range(20, 1500):
        post = el.update(post, x[i : i + 1], y[i : i + 1], step_size=1.0)
    assert post.data is not None
    assert len(post.data) == 1500
    again = el.update(pickle.loads(pickle.dumps(post)), x[:1], y[:1], "exact")
    weights = np.r_[2.0, np.ones(1499)]
    np.testing.assert_allclose(again.mean, el.fit_map(x, y, 3, weights=weights), atol=1e-3)


@pytest.mark.parametrize("scale", [30.0, 100.0])
def test_features_of_large_norm(scale: float) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(14, 5)) * scale, rng.integers(4, size=14)
    post = el.laplace(el.fit_map(x[:10], y[:10], 4), x[:10], labels=y[:10])
    for i in range(10, 14):
        post = el.update(post, x[i : i + 1], y[i : i + 1], "exact")
    fresh = rng.normal(size=(500, 5)) * scale
    retrained = el.laplace(el.fit_map(x, y, 4), x)
    gap = el.predict_proba(post, fresh, "mean") - el.predict_proba(retrained, fresh, "mean")
    assert 0.5 * np.abs(gap).sum(axis=1).mean() < 0.02


def test_from_a_mean_far_off() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 6)) * 40, rng.integers(4, size=23)
    post = el.laplace(el.fit_map(x[:8], y[:8], 4), x[:8], "per_class", labels=y[:8])
    post = el.update(post, x[8:22], y[8:22], step_size=10.0)
    post = el.update(post, x[22:], y[22:], "exact")
    retrained = el.laplace(el.fit_map(x, y, 4), x)
    close(el.predict_proba(post, x, "mean"), el.predict_proba(retrained, x, "mean"), atol=0.02)


def test_contradicting_labels_of_one_instance_give_zero_weights() -> None:
    x = np.ones((1, 3))
    post = el.laplace(el.fit_map(x, [0], 2), x, labels=[0])
    close(el.update(post, x, [1], "exact").mean, 0.0, atol=1e-4)  # a warning would fail the test


def test_weights_the_caller_reuses() -> None:
    rng = np.random.default_rng(0)
    x, y, weights = rng.normal(size=(20, 3)), rng.integers(3, size=20), np.ones(20)
    post = el.laplace(el.fit_map(x, y, 3), x, weights=weights, labels=y)
    before = el.update(post, x[:1], y[:1], "exact").mean
    weights[:] = 0.0
    close(el.update(post, x[:1], y[:1], "exact").mean, before)


@pytest.mark.unchecked_shapes
@pytest.mark.parametrize("scale", [1e5, 5e5, 1e6, 1e7, 1e12])
@pytest.mark.parametrize("n", [100, 200])
@pytest.mark.filterwarnings("ignore:method 'exact' trained", "ignore:fit_map stopped")
def test_features_of_huge_norm_end_at_a_minimum_too(scale: float, n: int) -> None:
    """A squared decrement below zero is rounding, and no sign that the search is at its end."""
    x, y = (part[: n + 10] for part in load_digits(return_X_y=True))
    x = scale * x / 16.0
    post = el.laplace(el.fit_map(x[:n], y[:n], 10), x[:n], labels=y[:n])
    ends: list[exact.Report] = []
    post = el.update(post, x[n:], y[n:], "exact", report=ends.append)
    assert not ends[0].whole or abs(ends[0].decrement) <= (65 * 10 * exact.TOLERANCE) ** 0.5
    assert np.mean(np.argmax(el.predict_proba(post, x, "mean"), axis=1) == y) == 1.0


def test_training_from_zero_is_reported() -> None:
    x, y = (part[:110] for part in load_digits(return_X_y=True))
    x = 1e7 * x
    post = el.laplace(el.fit_map(x[:100], y[:100], 10), x[:100], labels=y[:100])
    with pytest.warns(EverylabelWarning, match=r"from zero.*features have a norm of about 6.\de\+08"):
        post = el.update(post, x[100:], y[100:], "exact")
    close(post.mean, el.fit_map(x, y, 10))
