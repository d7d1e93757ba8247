"""The exact update in the space of the labelled instances, against slow twins."""

from dataclasses import replace
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import everylabel as el
from everylabel.core import newton, seen
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.seen import Seen, build, curvature, shared_curvature
from everylabel.core.updates import exact, span
from tests.conftest import design

close = np.testing.assert_allclose
SEEDS = st.integers(0, 2**32 - 1)
PATCHED = hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])


@pytest.fixture
def all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no point out of a class for having little curvature there."""
    monkeypatch.setattr(seen, "NEGLIGIBLE", 0.0)


@pytest.fixture
def to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the update go on to the last digit, so that results can be compared as equal."""
    monkeypatch.setattr(exact, "LAST", 1e-14)
    monkeypatch.setattr(newton, "FORCING", 1e-6)


def _problem(seed: int, k: int, n: int = 7, d: int = 9) -> tuple[Any, Any, Any, float]:
    rng = np.random.default_rng(seed)
    probs = np.exp(2 * rng.normal(size=(n, k)))
    probs = probs / np.sum(probs, axis=1, keepdims=True) if k > 1 else rng.uniform(size=(n, 1))
    return rng.normal(size=(n, d)), rng.uniform(0.2, 3.0, n), probs, 0.4


def _covariances(features: Any, of: Seen, weights: Any, probs: Any, prior: float) -> list[Any]:
    """Return C_c of all classes by inverses, with the points that R_c names."""
    q, found = curvature(weights, probs), []
    for c in range(probs.shape[1]):
        there = of.at[c][of.at[c] > 0] - 1
        own = of.shared.copy()
        own[there] = q[there, c]
        found.append(
            np.linalg.inv(prior * np.eye(features.shape[1]) + features.T @ (own[:, None] * features))
        )
    return found


@pytest.mark.usefixtures("all_points")
@hypothesis.given(seed=SEEDS, k=st.integers(1, 6), b=st.integers(1, 3))
@PATCHED
def test_curvature_seen_is_that_of_dense_inverses(seed: int, k: int, b: int) -> None:
    features, weights, probs, prior = _problem(seed, k)
    rng = np.random.default_rng(seed)
    built = build(features, weights, probs, prior)
    covariances = _covariances(features, built, weights, probs, prior)
    e = rng.normal(size=probs.shape)
    z, ahead = built.apply(e)
    for c, cov in enumerate(covariances):
        answer = cov @ features.T @ e[:, c]
        close(features.T @ z[:, c] / prior, answer, rtol=1e-6, atol=1e-9)
        close(ahead[:, c], features @ answer, rtol=1e-6, atol=1e-9)
        expected = np.diagonal(features @ cov @ features.T)[-b:]
        close(built.variances(b)[:, c], expected, rtol=1e-6)
    late = np.zeros_like(e)
    late[-b:] = e[-b:]
    for part, whole in zip(built.answer(e[-b:], -1.0), built.apply(late), strict=True):
        close(part, whole, atol=1e-9)


@pytest.mark.usefixtures("all_points")
@hypothesis.given(seed=SEEDS, k=st.integers(1, 6), b=st.integers(1, 3))
@PATCHED
def test_points_that_join_and_change_are_as_if_built_anew(seed: int, k: int, b: int) -> None:
    features, weights, probs, prior = _problem(seed, k)
    n = len(features) - b
    few = build(features[:n], weights[:n], 0.5 * probs[:n] + 0.5 / (k + 1), prior)
    gram = features @ features[n:].T / prior
    followed = few.grow(gram[:n], gram[n:]).follow(weights, probs, b, 1.0)
    whole = build(features, weights, probs, prior)
    close(followed.shared, whole.shared)
    close(followed.gram, whole.gram, rtol=1e-7, atol=1e-9)
    e = np.random.default_rng(seed).normal(size=probs.shape)
    for part, expected in zip(followed.apply(e), whole.apply(e), strict=True):
        close(part, expected, rtol=1e-6, atol=1e-8)


def test_the_shared_curvature_leaves_out_the_top_classes() -> None:
    whole = np.array([[0.1, 0.25, 0.2, 0.02, 0.04]])
    close(shared_curvature(whole), [0.03])
    close(shared_curvature(whole[:, :1]), [0.1])  # the sigmoid has one


@hypothesis.given(seed=SEEDS)
def test_what_is_left_out_or_out_of_date_keeps_it_positive_definite(seed: int) -> None:
    features, weights, probs, prior = _problem(seed, 4, 30, 12)
    built = build(5 * features, weights, probs, prior)
    rng = np.random.default_rng(seed)
    older = built.bend(np.arange(10), built.shared[:10] + rng.uniform(0, 0.2, 10))  # X_c as before
    for each in (built, older):
        e = rng.normal(size=(30, 4))
        assert np.all(np.sum(e * each.apply(e)[1], axis=0) > 0)


def _trained(seed: int, k: int, n: int, labels: bool = True) -> tuple[el.Posterior, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, y, w = rng.normal(size=(16, 14)), rng.integers(k, size=16), rng.uniform(0.3, 2.0, 16)
    binary = k == 2
    mean = el.fit_map(x[:n], y[:n], k, 0.6, weights=w[:n], binary=binary, tol=1e-12)
    kind = "binary" if binary else "gaussian"
    told = y[:n] if labels else None
    return el.laplace(mean, x[:n], kind, 0.6, weights=w[:n], labels=told), x, y, w


def _is_in_span(post: el.Posterior) -> bool:
    assert post.data is not None
    return isinstance(exact._left[post.data].at, span.Place)


@pytest.mark.usefixtures("to_the_end")
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("k", [2, 5])
def test_few_labels_end_at_the_optimum(k: int, labels: bool) -> None:
    for seed in range(5):
        post, x, y, w = _trained(seed, k, 8, labels)
        best = el.fit_map(x, y, k, 0.6, weights=w, binary=k == 2, tol=1e-12)
        once = el.update(post, x[8:], y[8:], "exact", weights=w[8:])
        for i in range(8, 16):
            post = el.update(post, x[i : i + 1], y[i : i + 1], "exact", weights=w[i : i + 1])
            assert _is_in_span(post)
        close(post.mean, best, atol=1e-6)
        close(once.mean, best, atol=1e-6)
        back = el.forget(post, x[3:5], y[3:5], weights=w[3:5])
        assert _is_in_span(back)
        keep = np.r_[0:3, 5:16]
        close(back.mean, el.fit_map(x[keep], y[keep], k, 0.6, weights=w[keep], binary=k == 2), atol=1e-5)


@pytest.mark.usefixtures("to_the_end")
def test_the_way_over_all_features_ends_at_the_same_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    for suits in (span.suits, lambda data: False):
        monkeypatch.setattr(span, "suits", suits)
        post, x, y, w = _trained(0, 5, 8)
        post = el.update(post, x[8:12], y[8:12], "exact", weights=w[8:12])
        ends.append(el.update(post, x[12:], y[12:], "exact", weights=w[12:]).mean)
    close(ends[0], ends[1], atol=1e-7)


@pytest.mark.parametrize("name", ["FAR", "MAX_STEPS"])
def test_where_it_finds_no_end_the_other_way_is_gone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    post, x, y, w = _trained(1, 5, 8)
    monkeypatch.setattr(span, name, 1 if name == "MAX_STEPS" else -1.0)
    after = el.update(post, x[8:], y[8:], "exact", weights=w[8:])
    assert not _is_in_span(after)
    close(after.mean, el.fit_map(x, y, 5, 0.6, weights=w), atol=0.02)


@pytest.mark.parametrize("k", [1, 4])
def test_a_newton_step_is_the_dense_one(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "FORCING", 0.0)
    for module in (newton, span):  # to the step's end, wherever that is
        monkeypatch.setattr(module, "SMALL", np.inf)
    features, weights, _, prior = _problem(3, k)
    rng = np.random.default_rng(4)
    link = LIKELIHOODS["binary" if k == 1 else "gaussian"].link
    pull, sums = rng.normal(size=(7, k)), rng.normal(size=(9, k))
    mean = (sums - features.T @ pull) / prior
    objective = newton.Objective(features, weights, sums, prior, link)
    there = newton.Point(mean, features @ mean, link(features @ mean))
    gradient = objective.gradient(mean, there.probs)
    dense = newton.newton_step(objective, there, gradient, lambda r: r, 1e-24, 500)
    data = el.laplace(mean, features, "binary" if k == 1 else "gaussian", prior).data
    assert data is not None
    data = replace(data, weights=weights, label_sums=sums)
    problem = span.Problem(data, prior, link, lambda at: 0.0)
    point = span.Point(pull, there.logits, there.probs)
    step = span.newton_step(problem, point, build(features, weights, there.probs, prior), 1e-24, 500)
    close(step.end.logits, dense.end.logits, rtol=1e-6, atol=1e-7)
    close(problem.mean(step.end.pull), dense.end.mean, rtol=1e-6, atol=1e-7)


def test_a_posterior_that_was_left_and_used_again_gives_the_same() -> None:
    post, x, y, w = _trained(2, 5, 8)
    post = el.update(post, x[8:9], y[8:9], "exact")
    first = el.update(post, x[9:12], y[9:12], "exact").mean
    el.forget(el.update(post, x[12:], y[12:], "exact"), x[:1], y[:1], weights=w[:1])
    np.testing.assert_array_equal(el.update(post, x[9:12], y[9:12], "exact").mean, first)
    assert design(x[:9]).shape == post.data.features.shape  # type: ignore[union-attr]
