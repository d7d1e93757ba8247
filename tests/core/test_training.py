"""`fit_map` against autograd, SciPy and scikit-learn."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import everylabel as el
from tests.conftest import Case, cases, design
from tests.core import dense

close = np.testing.assert_allclose


@pytest.mark.parametrize("binary", [False, True])
@hypothesis.given(data=st.data())
def test_gradient_is_zero_at_the_result(binary: bool, data: st.DataObject) -> None:
    case = data.draw(cases(binary=binary))
    weights = np.random.default_rng(0).uniform(0.1, 3, len(case.labels))
    mean = el.fit_map(
        case.features, case.labels, case.k, case.prior_precision, weights=weights, binary=binary
    )
    grad = dense.gradient(mean, design(case.features), case.labels, weights)
    close(grad + case.prior_precision * mean, 0.0, atol=1e-6)


@hypothesis.given(case=cases())
def test_equals_a_general_optimiser(case: Case) -> None:
    x, shape = design(case.features), (case.features.shape[1] + 1, case.k)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(shape)
        value = dense.neg_log_likelihood(torch.tensor(w), x, case.labels, np.ones(len(x)))
        grad = dense.gradient(w, x, case.labels, np.ones(len(x))) + case.prior_precision * w
        return float(value) + 0.5 * case.prior_precision * np.sum(w * w), grad.ravel()

    best = minimize(
        loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )
    mean = el.fit_map(case.features, case.labels, case.k, case.prior_precision)
    close(mean, best.x.reshape(shape), atol=1e-4)


@pytest.mark.parametrize("n", [40, 200])  # fewer and more points than features
def test_equals_scikit_learn_on_digits(n: int) -> None:
    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    mean = el.fit_map(x[:n], y[:n], 10, 0.2)
    model = LogisticRegression(C=1 / 0.2, fit_intercept=False, tol=1e-8, max_iter=10_000)
    model.fit(design(x[:n]), y[:n])
    close(mean, model.coef_.T, atol=1e-4)


def test_raw_pixels_converge() -> None:
    """Features of norm 55 at prior precision 1 are badly conditioned; a warning would fail the test."""
    x, y = load_digits(return_X_y=True)
    mean = el.fit_map(x[:500], y[:500], 10)
    grad = dense.gradient(mean, design(x[:500]), y[:500], np.ones(500)) + mean
    assert np.linalg.norm(grad) < 1e-4


def test_warm_start_ends_at_the_same_place() -> None:
    x, y = load_digits(return_X_y=True)
    cold = el.fit_map(x[:60] / 16, y[:60], 10)
    start = el.fit_map(x[:50] / 16, y[:50], 10)
    close(el.fit_map(x[:60] / 16, y[:60], 10, init=start), cold, atol=1e-6)


def test_class_weight_is_a_weight_on_instances() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.integers(3, size=30)
    by_class = el.fit_map(x, y, 3, class_weight=[1.0, 2.0, 0.5])
    close(by_class, el.fit_map(x, y, 3, weights=np.array([1.0, 2.0, 0.5])[y]), atol=1e-8)
    counts = np.bincount(y, minlength=3)
    balanced = el.fit_map(x, y, 3, class_weight="balanced")
    close(balanced, el.fit_map(x, y, 3, weights=(30 / (3 * counts))[y]), atol=1e-8)


def test_class_without_instances_and_layer_without_bias() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 3)), rng.integers(2, size=10)
    assert el.fit_map(x, y, 5).shape == (4, 5)
    assert el.fit_map(x, y, 2, bias=False).shape == (3, 2)


def test_too_few_steps_warn() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.integers(2, size=50)
    with pytest.warns(RuntimeWarning, match="raise max_iter"):
        el.fit_map(x, y, 2, max_iter=1)


@pytest.mark.parametrize(("k", "binary"), [(2, False), (2, True), (4, False)])
def test_soft_labels_equal_an_instance_for_each_class_with_its_share_as_weight(k: int, binary: bool) -> None:
    rng = np.random.default_rng(k)
    x, shares, weights = rng.normal(size=(30, 5)), rng.dirichlet(np.ones(k), 30), rng.uniform(0.1, 2, 30)
    soft = el.fit_map(x, shares, k, 0.7, weights=weights, soft=True, binary=binary)
    repeated, each = np.repeat(x, k, axis=0), (weights[:, None] * shares).ravel()
    hard = el.fit_map(repeated, np.tile(np.arange(k), 30), k, 0.7, weights=each, binary=binary)
    close(soft, hard, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full((4, 3), 0.5), "labels holds rows that are no probabilities"),
        (np.array([[1.5, -0.5, 0.0]] * 4), "labels holds rows that are no probabilities"),
        (np.full((4, 2), 0.5), r"labels has shape \(4, 2\); expected \(4,\) class numbers or \(4, 3\)"),
    ],
)
def test_soft_labels_that_are_no_probabilities_are_refused(labels: np.ndarray, message: str) -> None:
    with pytest.raises(el.EverylabelError, match=message):
        el.fit_map(np.ones((4, 2)), labels, 3, soft=True)


def test_class_weights_with_soft_labels_are_refused() -> None:
    with pytest.raises(el.EverylabelError, match="class_weight is given with labels"):
        el.fit_map(np.ones((4, 2)), np.full((4, 2), 0.5), 2, class_weight="balanced", soft=True)
