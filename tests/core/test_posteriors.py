"""Posteriors at a given mean against dense Hessians from autograd."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import everylabel as el
from tests.conftest import LIKELIHOODS, Case, cases, design
from tests.core import dense

DENSE = [name for name in LIKELIHOODS if name != "matrix_normal"]


@pytest.mark.parametrize("likelihood", DENSE)
@hypothesis.given(data=st.data())
def test_cov_is_the_inverse_of_the_summed_hessian(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    weights = np.random.default_rng(0).uniform(0, 2, len(case.features))
    post = el.laplace(case.mean, case.features, likelihood, case.prior_precision, weights=weights)
    d, k = case.mean.shape
    precision = dense.prior(likelihood, d, k, case.prior_precision) + dense.curvature(
        likelihood, case.mean, design(case.features), case.labels, weights
    )
    np.testing.assert_allclose(post.cov, np.linalg.inv(precision), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(post.cov, np.swapaxes(post.cov, -1, -2))


@hypothesis.given(case=cases())
def test_matrix_normal_fit_is_the_closest_kronecker_product(case: Case) -> None:
    post = el.laplace(case.mean, case.features, "matrix_normal", case.prior_precision)
    d, k = case.mean.shape
    precision = case.prior_precision * np.eye(k * d) + dense.hessian(
        case.mean, design(case.features), case.labels, np.ones(len(case.features))
    )
    _assert_stationary(post.class_cov, post.cov, precision)


@hypothesis.given(case=cases(max_new=1))
def test_matrix_normal_update_is_the_closest_kronecker_product(case: Case) -> None:
    post = el.laplace(case.mean, case.features, "matrix_normal", case.prior_precision)
    new = el.update(post, case.new_features, case.new_labels, step_size=case.step_size, weights=case.weights)
    curvature = dense.hessian(new.mean, design(case.new_features), case.new_labels, case.weights)
    precision = np.kron(np.linalg.inv(post.class_cov), np.linalg.inv(post.cov)) + curvature
    _assert_stationary(new.class_cov, new.cov, precision)


def _assert_stationary(gamma: np.ndarray, sigma: np.ndarray, precision: np.ndarray) -> None:
    """The gradient of KL(N(Gamma (x) Sigma) || N(precision^-1)) over both factors is zero."""
    factors = [torch.tensor(np.linalg.cholesky(m), requires_grad=True) for m in (gamma, sigma)]
    cov = torch.kron(factors[0] @ factors[0].T, factors[1] @ factors[1].T)
    kl = 0.5 * (torch.trace(torch.as_tensor(precision) @ cov) - torch.logdet(cov))
    for grad in torch.autograd.grad(kl, factors):
        np.testing.assert_allclose(torch.tril(grad).numpy(), 0.0, atol=1e-6)


def test_mean_without_a_bias_row() -> None:
    rng = np.random.default_rng(0)
    features, mean = rng.normal(size=(8, 3)), rng.normal(size=(3, 2))
    post = el.laplace(mean, features)
    assert not post.bias
    np.testing.assert_allclose(post.cov, np.linalg.inv(np.eye(3) + features.T @ features))
    np.testing.assert_allclose(el.logits(post, features), features @ mean)


def test_binary_takes_the_difference_of_two_softmax_columns() -> None:
    rng = np.random.default_rng(0)
    features, mean = rng.normal(size=(8, 3)), rng.normal(size=(4, 2))
    post = el.laplace(mean, features, "binary")
    np.testing.assert_allclose(post.mean[:, 0], mean[:, 1] - mean[:, 0])
    two = el.predict_proba(post, features, "mean")
    softmax = el.predict_proba(el.laplace(mean, features), features, "mean")
    np.testing.assert_allclose(two, softmax)


def test_by_hand_one_instance() -> None:
    """d = 1 without bias, prior 1, h = 2, mean 0: p = 1/2, H = 1 + 4/4 = 2, so the variance is 1/2."""
    post = el.laplace(np.zeros((1, 1)), [[2.0]], "binary")
    np.testing.assert_allclose(post.cov, [[0.5]])
    # Label 1 at h = 1, step 1. Eq. 5: the gradient is -1/2, H = 2 + 1/4, so the mean moves to 2/9.
    post = el.update(post, [[1.0]], [1], step_size=1.0)
    np.testing.assert_allclose(post.mean, [[2 / 9]])
    # Eq. 6: curvature at the new mean, p = sigmoid(2/9).
    p = 1 / (1 + np.exp(-2 / 9))
    np.testing.assert_allclose(post.cov, [[1 / (2 + p * (1 - p))]])


def test_by_hand_two_orthogonal_features() -> None:
    """h = (1, 0) and (0, 1) do not disturb each other: each moves its own weight by 1/2 / (1 + 1/4)."""
    post = el.laplace(np.zeros((2, 1)), np.zeros((1, 2)), "binary")
    post = el.update(post, np.eye(2), [1, 0], step_size=1.0)
    np.testing.assert_allclose(post.mean[:, 0], [0.4, -0.4])
    p = 1 / (1 + np.exp(-0.4))
    np.testing.assert_allclose(post.cov, np.eye(2) / (1 + p * (1 - p)))
