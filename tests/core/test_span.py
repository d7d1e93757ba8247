"""The exact update in the space of the labelled instances, against slow twins."""

from dataclasses import replace
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import everylabel as el
from everylabel.core import newton, seen
from everylabel.core.arrays import can_compile
from everylabel.core.labelled import Change, Labelled
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.seen import Seen, curvature, shared_curvature
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


def build(features: Any, weights: Any, probs: Any, prior: float) -> Seen:
    """Return what `seen` builds, which it can for features of usual norm."""
    built = seen.build(features, weights, probs, prior)
    assert built is not None
    return built


def _problem(seed: int, k: int, n: int = 7, d: int = 9) -> tuple[Any, Any, Any, float]:
    rng = np.random.default_rng(seed)
    probs = np.exp(2 * rng.normal(size=(k, n)))
    probs = probs / np.sum(probs, axis=0) if k > 1 else rng.uniform(size=(1, n))
    return rng.normal(size=(n, d)), rng.uniform(0.2, 3.0, n), probs, 0.4


def _covariances(features: Any, of: Seen, weights: Any, probs: Any, prior: float) -> list[Any]:
    """Return C_c of all classes by inverses, with the points that R_c names."""
    q, found = curvature(weights, probs), []
    for c in range(len(probs)):
        there = of.at[c][of.at[c] > 0] - 1
        own = of.shared.copy()
        own[there] = q[c, there]
        found.append(
            np.linalg.inv(prior * np.eye(features.shape[1]) + features.T @ (own[:, None] * features))
        )
    return found


def _is_that_of(covariances: list[Any], seen: Seen, features: Any, prior: float, seed: int) -> None:
    e = np.random.default_rng(seed).normal(size=(len(covariances), len(features)))
    z, ahead = seen.apply(e)
    for c, cov in enumerate(covariances):
        answer = cov @ features.T @ e[c]
        close(features.T @ z[c] / prior, answer, rtol=1e-6, atol=1e-9)
        close(ahead[c], features @ answer, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("all_points")
@hypothesis.given(seed=SEEDS, k=st.integers(1, 6), b=st.integers(1, 3))
@PATCHED
def test_curvature_seen_is_that_of_dense_inverses(seed: int, k: int, b: int) -> None:
    features, weights, probs, prior = _problem(seed, k)
    built = build(features, weights, probs, prior)
    covariances = _covariances(features, built, weights, probs, prior)
    _is_that_of(covariances, built, features, prior, seed)
    e, last = (
        np.random.default_rng(seed).normal(size=probs.shape),
        np.arange(len(features) - b, len(features)),
    )
    for c, cov in enumerate(covariances):
        expected = np.diagonal(features @ cov @ features.T)[-b:]
        close(built.variances(last)[0][c], expected, rtol=1e-6)
        for i in last:  # and without what the point itself has bent
            own = built.shared.copy()
            there = built.at[c][built.at[c] > 0] - 1
            own[there] = curvature(weights, probs)[c, there]
            own[i] = 0.0
            precision = prior * np.eye(features.shape[1]) + features.T @ (own[:, None] * features)
            alone = features[i] @ np.linalg.solve(precision, features[i])
            close(built.variances(np.array([i]))[1][c, 0], alone, rtol=1e-5)
    late = np.zeros_like(e)
    late[:, -b:] = e[:, -b:]
    for part, whole in zip(built.answer(last, e[:, -b:], -1.0), built.apply(late), strict=True):
        close(part, whole, atol=1e-9)


def _grown(few: Seen, features: Any, prior: float) -> Seen:
    n = len(few.shared)
    gram = features @ features[n:].T / prior
    return few.grow(gram[:n], gram[n:])


@pytest.mark.usefixtures("all_points")
@pytest.mark.parametrize("compiled", [False, True])
@hypothesis.given(seed=SEEDS, k=st.integers(1, 6), b=st.integers(1, 3))
@PATCHED
def test_points_that_join_and_change_are_as_if_built_anew(seed: int, k: int, b: int, compiled: bool) -> None:
    if compiled:
        pytest.importorskip("numba")
    features, weights, probs, prior = _problem(seed, k)
    n = len(features) - b
    few = build(features[:n], weights[:n], 0.5 * probs[:, :n] + 0.5 / (k + 1), prior)
    renewed = _grown(few, features, prior).renew(weights, probs, compiled)
    whole = build(features, weights, probs, prior)
    close(renewed.shared, whole.shared)
    close(renewed.gram, whole.gram, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(renewed.at, whole.at)
    _is_that_of(_covariances(features, renewed, weights, probs, prior), renewed, features, prior, seed)


@pytest.mark.usefixtures("all_points")
@hypothesis.given(seed=SEEDS, k=st.integers(2, 6), b=st.integers(1, 3))
@PATCHED
def test_points_that_join_are_in_every_class_in_full(seed: int, k: int, b: int) -> None:
    features, weights, probs, prior = _problem(seed, k)
    n = len(features) - b
    few = build(features[:n], weights[:n], probs[:, :n], prior)
    grown, last = _grown(few, features, prior), np.arange(n, n + b)
    joined = grown.join(last, curvature(weights[n:], probs[:, n:]))
    assert joined.joined == b
    assert np.all(np.isin(np.arange(n, n + b) + 1, joined.at))
    _is_that_of(_covariances(features, joined, weights, probs, prior), joined, features, prior, seed)


def test_the_strongest_points_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    features, weights, probs, prior = _problem(0, 4, 12, 20)
    whole = build(features, weights, probs, prior)
    monkeypatch.setattr(seen, "MOST", 2)
    few = build(features, weights, probs, prior)
    compiled = few.bend_own(curvature(weights, probs), compiled=can_compile())
    share = (curvature(weights, probs) - few.shared) * np.diagonal(few.gram)
    assert (whole.at.shape[1] > 2, few.at.shape[1]) == (True, 2)
    for c in range(4):
        strong = np.flatnonzero(share[c] > seen.NEGLIGIBLE)
        assert {*few.at[c]} - {0} == {*(strong[np.argsort(-share[c, strong])[:2]] + 1)}
    np.testing.assert_array_equal(compiled.at, few.at)
    close(compiled.core, few.core, rtol=1e-9)


def test_the_shared_curvature_leaves_out_the_top_classes() -> None:
    whole = np.array([[0.1, 0.25, 0.2, 0.02, 0.04]]).T
    close(shared_curvature(whole), [0.03])
    close(shared_curvature(whole[:1]), [0.1])  # the sigmoid has one


@hypothesis.given(seed=SEEDS)
def test_what_is_left_out_or_out_of_date_keeps_it_positive_definite(seed: int) -> None:
    features, weights, probs, prior = _problem(seed, 4, 30, 12)
    built = build(5 * features, weights, probs, prior)
    rng = np.random.default_rng(seed)
    older = built.bend(np.arange(10), built.shared[:10] + rng.uniform(0, 0.2, 10))  # X_c as before
    for each in (built, older):
        e = rng.normal(size=(4, 30))
        assert np.all(np.sum(e * each.apply(e)[1], axis=1) > 0)


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
def test_compiled_and_plain_updates_end_at_the_same_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past what is renewed every few labels, with batches and a label that is taken back."""
    pytest.importorskip("numba")
    monkeypatch.setattr(seen, "EVERY", 4)
    ends = []
    for compiled in (True, False):
        monkeypatch.setattr(exact, "can_compile", lambda told=compiled: told)
        post, x, y, w = _trained(3, 5, 6)
        for some in (slice(6, 7), slice(7, 8), slice(8, 11), slice(11, 12), slice(12, 16)):
            post = el.update(post, x[some], y[some], "exact", weights=w[some])
        ends += [post.mean, el.forget(post, x[7:8], y[7:8], weights=w[7:8]).mean]
    close(ends[0], ends[2], atol=1e-7)
    close(ends[1], ends[3], atol=1e-7)


@pytest.mark.usefixtures("to_the_end")
def test_the_way_over_all_features_ends_at_the_same_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    for suits in (span.suits, lambda data: False):
        monkeypatch.setattr(span, "suits", suits)
        post, x, y, w = _trained(0, 5, 8)
        post = el.update(post, x[8:12], y[8:12], "exact", weights=w[8:12])
        ends.append(el.update(post, x[12:], y[12:], "exact", weights=w[12:]).mean)
    close(ends[0], ends[1], atol=1e-7)


@pytest.mark.parametrize("name", ["FAR", "MAX_LINES"])
def test_where_it_finds_no_end_the_other_way_is_gone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    post, x, y, w = _trained(1, 5, 8)
    monkeypatch.setattr(span, name, 1 if name == "MAX_LINES" else -1.0)
    after = el.update(post, x[8:], y[8:], "exact", weights=w[8:])
    assert not _is_in_span(after)
    close(after.mean, el.fit_map(x, y, 5, 0.6, weights=w), atol=0.02)


def _search(k: int, seed: int = 3) -> tuple[span.Problem, span.Point, Seen]:
    """Return a search over random weights and labels, somewhere."""
    features, weights, _, prior = _problem(seed, k)
    rng = np.random.default_rng(seed + 1)
    name = "binary" if k == 1 else "gaussian"
    pull, sums = rng.normal(size=(k, 7)), rng.normal(size=(9, k))
    if k > 1:
        pull = span.level(pull) + weights / k
    data = el.laplace((sums - features.T @ pull.T) / prior, features, name, prior).data
    assert data is not None
    data = replace(data, weights=weights, label_sums=sums)
    link = LIKELIHOODS[name].link
    problem = span.Problem(data, features, weights, prior, link, lambda at: 0.0)
    point = problem.at(pull, problem.logits(problem.mean(pull)))
    return problem, point, build(features, weights, point.probs, prior)


@pytest.mark.parametrize("k", [1, 4])
def test_lines_fall_as_the_objective_does_and_end_at_the_optimum(k: int) -> None:
    problem, point, seen = _search(k)
    objective = newton.Objective(
        problem.features, problem.weights, problem.data.label_sums, problem.prior, problem.link
    )
    line = None
    for i in range(100):
        mean = problem.mean(point.pull)
        close(problem.logits(mean), point.logits, rtol=1e-7, atol=1e-8)
        gradient = objective.gradient(mean, point.probs.T)
        line = span.find_line(problem, point, seen, line)
        step = problem.features.T @ line.direction.T / problem.prior
        close(line.slope, np.sum(gradient * step), rtol=1e-6, atol=1e-12)
        if i < 3:  # J's slope and curvature along the line, by differences
            slopes = [span.find_end(problem, point, line, t)[1] for t in (-1e-5, 0.0, 1e-5)]
            close(slopes[1], line.slope, rtol=1e-9)
            close((slopes[2] - slopes[0]) / 2e-5, -line.slope / line.length, rtol=1e-5)
        point, _ = span._along(problem, point, line)
        if line.energy < 1e-19:
            break
    gradient = objective.gradient(problem.mean(point.pull), point.probs.T)
    assert np.max(np.abs(gradient)) < 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_lines_and_ends_are_the_plain_ones(dtype: Any) -> None:
    pytest.importorskip("numba")
    problem, point, seen = _search(5)
    problem = problem._replace(features=problem.features.astype(dtype), weights=problem.weights.astype(dtype))
    point = span.Point(*(part.astype(dtype) for part in point))
    seen = seen._replace(
        gram=seen.gram.astype(dtype), shared=seen.shared.astype(dtype), core=seen.core.astype(dtype)
    )
    tolerance: dict[str, Any] = {"rtol": 1e-9} if dtype is np.float64 else {"rtol": 2e-3, "atol": 2e-4}
    last = None
    for _ in range(4):
        plain = span.find_line(problem, point, seen, last)
        fast = span._compiled_line(problem, point, seen, last)
        pairs: Any = zip(plain, fast, strict=True)
        for a, b in pairs:
            close(b, a, **tolerance)
        (end, slope), (fast_end, fast_slope) = (
            find(problem, point, plain, 0.7 * plain.length) for find in (span.find_end, span._compiled_end)
        )
        pairs = zip((*end, slope), (*fast_end, fast_slope), strict=True)
        for a, b in pairs:
            close(b, a, **tolerance)
        point, last = end, plain


def test_compiled_probabilities_do_not_overflow() -> None:
    pytest.importorskip("numba")
    problem, point, _ = _search(5)
    far = point._replace(logits=1e4 * point.logits)
    line = span.Line(point.error, point.pull, point.logits, 1.0, -1.0, 1.0)
    ends = [find(problem, far, line, 0.5)[0] for find in (span.find_end, span._compiled_end)]
    close(ends[1].probs, ends[0].probs, atol=1e-12)


def test_a_search_begins_one_newton_step_from_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span, "FAR", np.inf)
    problem, _, _ = _search(1)
    mean = np.full((9, 1), 0.05)
    objective = newton.Objective(
        problem.features, problem.weights, problem.data.label_sums, problem.prior, problem.link
    )
    probs = problem.link(problem.features @ mean)
    bent = problem.features.T @ (problem.weights[:, None] * probs * (1.0 - probs) * problem.features)
    step = np.linalg.solve(problem.prior * np.eye(9) + bent, objective.gradient(mean, probs))
    place = span.enter(problem, mean)
    assert place is not None
    close(place.mean, mean - step, rtol=1e-7, atol=1e-10)
    several, _, _ = _search(4)
    found = span.enter(several, several.features.T @ np.full((7, 4), 0.01))
    assert found is not None
    close(np.sum(found.pull, axis=0), several.weights)


def test_nothing_is_built_anew_while_labels_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "EVERY", 3)
    for compiled in {can_compile(), False}:
        monkeypatch.setattr(exact, "can_compile", lambda told=compiled: told)
        with monkeypatch.context() as patch:
            post, x, y, w = _trained(4, 5, 8)
            post = el.update(post, x[8:9], y[8:9], "exact", weights=w[8:9])
            patch.setattr(span, "build", lambda *_: 1 / 0)
            for i in range(9, 16):
                post = el.update(post, x[i : i + 1], y[i : i + 1], "exact", weights=w[i : i + 1])
            assert _is_in_span(post)


@pytest.mark.parametrize("own", [-1.0, 0.2])
def test_compiled_guesses_are_own_answers_one_after_the_other(
    own: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(span, "OWN", own)
    monkeypatch.setattr(seen, "NEGLIGIBLE", 0.05)
    features, weights, _, prior = _problem(6, 5, 12, 15)
    rng, n, b = np.random.default_rng(7), 9, 3
    y = rng.integers(5, size=12)
    post = el.laplace(
        el.fit_map(features[:n], y[:n], 5, prior, weights=weights[:n], bias=False),
        features[:n],
        "gaussian",
        prior,
        weights=weights[:n],
        labels=y[:n],
    )
    targets = np.eye(5)[y[n:]]
    assert post.data is not None
    data = post.data.append(Labelled(features[n:], y[n:], weights[n:]), LIKELIHOODS["gaussian"].targets)
    problem = span.Problem(data, features, weights, prior, LIKELIHOODS["gaussian"].link, lambda at: 0.0)
    logits = problem.logits(post.mean)
    pull = np.c_[weights[:n] * problem.probs(logits)[:, :n], np.zeros((5, b))]
    before = _grown(build(features[:n], weights[:n], problem.probs(logits)[:, :n], prior), features, prior)
    plain, point = before, span.Point(pull.copy(), logits.copy(), logits, logits)
    for i in range(n, n + b):  # the slow twin: each alone, then it joins
        one = slice(i - n, i - n + 1)
        change = Change(np.array([i]), np.zeros(1), np.zeros((1, 5)), targets[one])
        point = span._first_guess(problem, plain, point.pull.copy(), point.logits.copy(), change)
        plain = plain.join(np.array([i]), curvature(weights[i : i + 1], point.probs[:, i : i + 1]))
    change = Change(np.arange(n, n + b), np.zeros(b), np.zeros((b, 5)), targets)
    fast, compiled = span._guess_in_turn(problem, before, pull.copy(), logits.copy(), change)
    if own < 0.0:  # what counts as little depends on the largest weight of all that are new
        close(fast.probs, point.probs, rtol=1e-7)
        close(fast.pull, point.pull, rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(compiled.at, plain.at)
        close(compiled.core, plain.core, rtol=1e-6, atol=1e-9)
    close(problem.logits(problem.mean(fast.pull)), fast.logits, atol=1e-8)
    close(np.sum(fast.pull, axis=0), weights, rtol=1e-9)


def test_a_posterior_that_was_left_and_used_again_gives_the_same() -> None:
    post, x, y, w = _trained(2, 5, 8)
    post = el.update(post, x[8:9], y[8:9], "exact")
    first = el.update(post, x[9:12], y[9:12], "exact").mean
    el.forget(el.update(post, x[12:], y[12:], "exact"), x[:1], y[:1], weights=w[:1])
    np.testing.assert_array_equal(el.update(post, x[9:12], y[9:12], "exact").mean, first)
    assert design(x[:9]).shape == post.data.features.shape  # type: ignore[union-attr]


def test_rounding_of_large_features_is_no_reason_to_leave_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logit by way of M and the mean's own differ by rounding, which grows with |h|^2 / prior_precision."""
    monkeypatch.setattr(span, "AGREE", 0.0)
    rng = np.random.default_rng(3)
    x, y = 2.0 * rng.normal(size=(120, 250)), rng.integers(9, size=120)
    post = el.laplace(el.fit_map(x[:100], y[:100], 9), x[:100], labels=y[:100])
    assert post.data is not None
    assert post.data.features.dtype == np.float32
    for i in range(100, 120, 5):
        post = el.update(post, x[i : i + 5], y[i : i + 5], "exact")
        assert post.data is not None
        assert isinstance(exact._left[post.data].at, span.Place)
    best = post.replace(mean=el.fit_map(x, y, 9, tol=1e-9))
    np.testing.assert_allclose(
        el.predict_proba(post, x, "mean"), el.predict_proba(best, x, "mean"), atol=2e-3
    )
