"""Predictions against numerical integrals."""

import math

import numpy as np
import pytest

import everylabel as el
from tests.conftest import design
from tests.core import dense

close = np.testing.assert_allclose


def _posterior(likelihood: str = "gaussian") -> tuple[el.Posterior, np.ndarray]:
    rng = np.random.default_rng(0)
    k = 1 if likelihood == "binary" else 3
    features = rng.normal(size=(9, 2))
    return el.laplace(rng.normal(size=(3, k)), features, likelihood, 0.6), rng.normal(size=(5, 2))


def test_mean_is_the_softmax() -> None:
    post, at = _posterior()
    close(el.predict_proba(post, at, "mean"), dense.probabilities(design(at), post.mean))


@pytest.mark.parametrize("factor", [math.pi / 8, 1.0, 0.0])
def test_mean_field_divides_the_logits(factor: float) -> None:
    post, at = _posterior()
    v = np.diag(design(at) @ post.cov @ design(at).T)
    scaled = design(at) @ post.mean / np.sqrt(1 + factor * v)[:, None]
    close(el.predict_proba(post, at, factor=factor), np.exp(scaled) / np.exp(scaled).sum(1, keepdims=True))


def test_mean_field_keeps_the_winner_with_a_shared_covariance() -> None:
    post, at = _posterior()
    winners = [el.predict_proba(post, at, method).argmax(axis=1) for method in ("mean", "mean_field")]
    np.testing.assert_array_equal(*winners)


def test_probit_is_close_to_the_integral() -> None:
    post, at = _posterior("binary")
    f = (design(at) @ post.mean)[:, 0]
    v = np.diag(design(at) @ post.cov @ design(at).T)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    integral = (1 / (1 + np.exp(-(f[:, None] + np.sqrt(v)[:, None] * nodes)))) @ (weights / weights.sum())
    probs = el.predict_proba(post, at, "probit")
    close(probs[:, 1], integral, atol=0.02)
    close(probs.sum(axis=1), 1.0)
    close(probs, el.predict_proba(post, at, "mean_field"))


def test_huge_logits_do_not_overflow() -> None:
    for likelihood, k in (("gaussian", 3), ("binary", 1)):
        post = el.laplace(np.full((2, k), 1e4) * np.arange(1, k + 1), [[1.0]], likelihood)
        probs = el.predict_proba(post, [[1e3], [-1e3]], "mean")
        assert np.all(np.isfinite(probs))
        close(probs.sum(axis=1), 1.0)


def test_no_instances_give_no_rows() -> None:
    post, _ = _posterior()
    for method in ("mean", "mean_field", "monte_carlo"):
        assert el.predict_proba(post, np.zeros((0, 2)), method, rng=np.random.default_rng(0)).shape == (0, 3)
    assert el.predict_proba(el.sample(post, 4, np.random.default_rng(0)), np.zeros((0, 2))).shape == (0, 3)
