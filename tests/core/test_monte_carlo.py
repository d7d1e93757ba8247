"""Sampling, reweighting and mixing against plain products of probabilities."""

from typing import Any

import hypothesis
import numpy as np
import pytest
import scipy.linalg
from hypothesis import strategies as st

import everylabel as el
from everylabel.core.updates import monte_carlo
from tests.conftest import LIKELIHOODS, Case, cases, design
from tests.core import dense

close = np.testing.assert_allclose


def _member_probs(samples: el.Samples, features: np.ndarray) -> np.ndarray:
    probs = np.stack([dense.probabilities(design(features), np.asarray(w, float)) for w in samples.members])
    return np.concatenate([1 - probs, probs], axis=2) if samples.likelihood == "binary" else probs


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
@hypothesis.given(data=st.data())
def test_update_multiplies_likelihoods(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = el.laplace(case.mean, case.features, likelihood, case.prior_precision)
    samples = el.sample(post, 7, np.random.default_rng(0))
    new = el.update(samples, case.new_features, case.new_labels, step_size=0.3, weights=case.weights)
    probs = _member_probs(samples, case.new_features)
    chosen = probs[:, np.arange(len(case.new_labels)), case.new_labels]
    expected = np.prod(chosen**case.weights, axis=1) ** 0.3
    close(np.exp(new.log_weights), expected / expected.sum(), rtol=1e-4)
    mixture = np.einsum("m,mnk->nk", expected / expected.sum(), _member_probs(samples, case.features))
    close(el.predict_proba(new, case.features), mixture, rtol=1e-4, atol=1e-6)


@hypothesis.given(case=cases())
def test_members_given_as_logits_are_weighted_alike(case: Case) -> None:
    post = el.laplace(case.mean, case.features, "gaussian", case.prior_precision)
    samples = el.sample(post, 5, np.random.default_rng(0))
    new = el.update(samples, case.new_features, case.new_labels, step_size=0.5)
    log_weights: Any = None
    for h, y in zip(case.new_features, case.new_labels, strict=True):
        logits = np.stack([design(h[None]) @ w for w in samples.members])
        log_weights = el.reweight(logits, [y], log_weights, step_size=0.5)
    close(log_weights, new.log_weights, rtol=1e-4, atol=1e-5)
    logits = np.stack([design(case.features) @ w for w in samples.members])
    close(el.mix(logits, log_weights), el.predict_proba(new, case.features), rtol=1e-4, atol=1e-6)


def test_nothing_underflows_with_thousands_of_labels() -> None:
    rng = np.random.default_rng(0)
    post = el.laplace(rng.normal(size=(6, 4)), rng.normal(size=(5, 5)))
    samples = el.sample(post, 50, rng)
    new = el.update(samples, rng.normal(size=(5000, 5)), rng.integers(4, size=5000), step_size=1.0)
    assert np.all(np.isfinite(new.log_weights))
    close(np.exp(new.log_weights).sum(), 1.0)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    post = el.laplace(rng.normal(size=(6, 4)), rng.normal(size=(5, 5)))
    samples = el.sample(post, 11, rng)
    features, labels = rng.normal(size=(23, 5)), rng.integers(4, size=23)
    whole = el.update(samples, features, labels), el.predict_proba(samples, features)
    monkeypatch.setattr(monte_carlo, "CHUNK", 200)
    monkeypatch.setattr(monte_carlo, "ROWS", 10)
    parts = el.update(samples, features, labels), el.predict_proba(samples, features)
    close(whole[0].log_weights, parts[0].log_weights, rtol=1e-5)  # sums of float32 in another order
    close(whole[1], parts[1], rtol=1e-5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_samples_have_the_posteriors_moments(likelihood: str) -> None:
    rng = np.random.default_rng(1)
    k = 1 if likelihood == "binary" else 3
    post = el.laplace(rng.normal(size=(3, k)), rng.normal(size=(6, 2)), likelihood, 0.8)
    members = np.asarray(el.sample(post, 60_000, rng).members, dtype=float)
    close(members.mean(axis=0), post.mean, atol=0.03)
    flat = members.transpose(0, 2, 1).reshape(len(members), -1)
    if likelihood == "full":
        cov = post.cov
    elif likelihood == "per_class":
        cov = scipy.linalg.block_diag(*post.cov)
    else:
        cov = np.kron(np.eye(k) if post.class_cov is None else post.class_cov, post.cov)
    close(np.cov(flat.T), cov, atol=0.04)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_logit_variance_is_that_of_the_samples(likelihood: str) -> None:
    rng = np.random.default_rng(1)
    k = 1 if likelihood == "binary" else 3
    post = el.laplace(rng.normal(size=(3, k)), rng.normal(size=(6, 2)), likelihood, 0.8)
    at = rng.normal(size=(4, 2))
    members = np.asarray(el.sample(post, 60_000, rng).members, dtype=float)
    spread = np.var(design(at) @ members, axis=0)
    close(np.broadcast_to(el.logit_variance(post, at), spread.shape), spread, rtol=0.05)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_monte_carlo_prediction_is_the_samples_average(likelihood: str) -> None:
    rng = np.random.default_rng(1)
    k = 1 if likelihood == "binary" else 3
    post = el.laplace(rng.normal(size=(3, k)), rng.normal(size=(6, 2)), likelihood, 0.8)
    at = rng.normal(size=(4, 2))
    drawn = el.predict_proba(post, at, "monte_carlo", n_samples=40_000, rng=rng)
    averaged = el.predict_proba(el.sample(post, 40_000, rng), at)
    close(drawn, averaged, atol=0.01)
    close(drawn.sum(axis=1), 1.0)


def test_same_generator_same_samples() -> None:
    post = el.laplace(np.zeros((4, 3)), np.ones((2, 3)))
    one = el.sample(post, 5, np.random.default_rng(3)).members
    two = el.sample(post, 5, np.random.default_rng(3)).members
    np.testing.assert_array_equal(one, two)


def test_log_weights_need_not_be_normalised() -> None:
    logits = np.random.default_rng(0).normal(size=(4, 2, 3))
    np.testing.assert_allclose(el.mix(logits, np.zeros(4)), el.mix(logits))
