"""Several classes per item against slow twins: one binary problem per class, with its answered instances."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import everylabel as el
from everylabel.core.leave_one_out import leave_one_out

LIKELIHOODS = ["bernoulli", "bernoulli_per_class"]
PRIOR = 0.7


class Case:
    """Answers with missing entries, away from the defaults."""

    def __init__(self, n: int = 40, d: int = 5, k: int = 3, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.x, self.weights = rng.normal(size=(n, d)), rng.uniform(0.3, 2.0, n)
        self.y = (self.x @ rng.normal(size=(d, k)) > 0.8).astype(float)
        self.y[rng.random(self.y.shape) < 0.25] = np.nan
        self.new, self.n, self.d, self.k = rng.normal(size=(6, d)), n, d + 1, k
        self.answers = np.array(
            [[1, np.nan, 0], [0, 0, 0], [np.nan, np.nan, 1], [1, 1, 1], [0, 1, 0], [0, np.nan, 1.0]]
        )
        self.design = np.c_[self.x, np.ones(n)]

    def posterior(self, likelihood: str) -> el.Posterior:
        mean = el.fit_map(self.x, self.y, self.k, PRIOR, weights=self.weights)
        return el.laplace(mean, self.x, likelihood, PRIOR, weights=self.weights, labels=self.y)


def sigmoid(f: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-f))


def trained(design: Any, answers: Any, weights: Any) -> Any:
    """Return the optimum of one class by a general optimiser, over its answered instances."""
    rows = ~np.isnan(answers)
    h, t, w = design[rows], answers[rows], weights[rows]

    def loss(v: Any) -> tuple[Any, Any]:
        f = h @ v
        value = np.sum(w * (np.logaddexp(0.0, f) - t * f)) + 0.5 * PRIOR * v @ v
        return value, h.T @ (w * (sigmoid(f) - t)) + PRIOR * v

    zero = np.zeros(design.shape[1])
    return scipy.optimize.minimize(loss, zero, jac=True, method="BFGS", options={"gtol": 1e-9}).x


def added(likelihood: str, mean: Any, design: Any, answers: Any, weights: Any) -> Any:
    """Return the precision that instances add, instance by instance."""
    d, k = mean.shape
    own = np.zeros((k, d, d))
    shared = np.zeros((d, d))
    for h, row, w in zip(design, answers, weights, strict=True):
        curved = [w * p * (1 - p) * (not np.isnan(a)) for p, a in zip(sigmoid(h @ mean), row, strict=True)]
        own += np.stack([c * np.outer(h, h) for c in curved])
        shared += max(curved) * np.outer(h, h)
    return shared if likelihood == "bernoulli" else own


def prior(likelihood: str, d: int, k: int) -> Any:
    return PRIOR * np.eye(d) if likelihood == "bernoulli" else np.stack([PRIOR * np.eye(d)] * k)


def test_training_is_that_of_each_class_by_itself() -> None:
    case = Case()
    mean = el.fit_map(case.x, case.y, case.k, PRIOR, weights=case.weights)
    for c in range(case.k):
        assert np.allclose(mean[:, c], trained(case.design, case.y[:, c], case.weights), atol=1e-6)


def test_class_without_an_answer_stays_at_the_prior() -> None:
    case = Case()
    case.y[:, 1] = np.nan
    assert not el.fit_map(case.x, case.y, case.k, PRIOR)[:, 1].any()


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_covariance_is_the_dense_inverse(likelihood: str) -> None:
    case = Case()
    post = case.posterior(likelihood)
    precision = prior(likelihood, case.d, case.k) + added(
        likelihood, post.mean, case.design, case.y, case.weights
    )
    assert np.allclose(post.cov, np.linalg.inv(precision), atol=1e-10)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_second_order_equals_dense_steps(likelihood: str, joint: bool) -> None:
    case = Case()
    post = case.posterior(likelihood)
    weights = np.linspace(0.5, 1.5, len(case.new))
    found = el.update(post, case.new, case.answers, step_size=0.8, joint=joint, weights=weights)
    design = np.c_[case.new, np.ones(len(case.new))]
    mean, precision = post.mean, np.linalg.inv(post.cov)
    for rows in [slice(None)] if joint else [slice(i, i + 1) for i in range(len(design))]:
        new = design[rows], case.answers[rows], weights[rows]
        here = np.linalg.inv(precision + added(likelihood, mean, *new))
        residual = np.where(np.isnan(new[1]), 0.0, sigmoid(new[0] @ mean) - new[1])
        gradient = new[0].T @ (new[2][:, None] * residual)
        step = (
            here @ gradient
            if likelihood == "bernoulli"
            else np.stack([c @ g for c, g in zip(here, gradient.T, strict=True)], 1)
        )
        mean = mean - 0.8 * step
        precision = precision + added(likelihood, mean, *new)
    assert np.allclose(found.mean, mean, atol=1e-10)
    assert np.allclose(found.cov, np.linalg.inv(precision), atol=1e-10)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_first_order_is_the_gradient_of_answered_classes(likelihood: str) -> None:
    case = Case()
    post = case.posterior(likelihood)
    found = el.update(post, case.new[:1], case.answers[:1], method="first_order", step_size=0.3)
    h = np.r_[case.new[0], 1.0]
    residual = np.where(np.isnan(case.answers[0]), 0.0, sigmoid(h @ post.mean) - case.answers[0])
    assert np.allclose(found.mean, post.mean - 0.3 * np.outer(h, residual), atol=1e-12)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_exact_update_equals_retraining(likelihood: str, many: bool) -> None:
    case = Case()
    post, weights = case.posterior(likelihood), np.linspace(0.5, 1.5, len(case.new))
    if many:
        post = el.update(post, case.new, case.answers, method="exact", weights=weights)
    else:
        for i in range(len(case.new)):
            rows = slice(i, i + 1)
            post = el.update(post, case.new[rows], case.answers[rows], method="exact", weights=weights[rows])
    x, y = np.r_[case.x, case.new], np.r_[case.y, case.answers]
    anew = el.fit_map(x, y, case.k, PRIOR, weights=np.r_[case.weights, weights])
    assert np.allclose(post.mean, anew, atol=2e-3)
    assert np.allclose(
        sigmoid(np.c_[x, np.ones(len(x))] @ (post.mean)), sigmoid(np.c_[x, np.ones(len(x))] @ anew), atol=1e-4
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_unanswered_row_teaches_nothing(likelihood: str) -> None:
    case = Case()
    post = case.posterior(likelihood)
    for method in ("second_order", "first_order", "exact"):
        found = el.update(post, case.new[:1], np.full((1, case.k), np.nan), method=method)
        assert np.allclose(found.mean, post.mean, atol=1e-4)
        assert np.allclose(found.cov, post.cov, atol=1e-15)


def test_answer_of_one_class_moves_that_class_alone() -> None:
    case = Case()
    post = case.posterior("bernoulli_per_class")
    found = el.update(post, case.new[:1], [[np.nan, 1.0, np.nan]])
    assert np.array_equal(found.mean[:, [0, 2]], post.mean[:, [0, 2]])
    assert np.array_equal(found.cov[[0, 2]], post.cov[[0, 2]])
    assert (found.mean[:, 1] != post.mean[:, 1]).all()


@pytest.mark.parametrize("keep_data", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_forget_takes_the_latest_row_back(likelihood: str, keep_data: bool) -> None:
    case = Case()
    post = case.posterior(likelihood)
    post = post if keep_data else post.replace(data=None)
    more = el.update(post, case.new[:1], case.answers[:1], method="exact" if keep_data else "second_order")
    less = el.forget(more, case.new[:1], case.answers[:1])
    assert np.allclose(less.cov, post.cov, atol=1e-12)
    before, learned, after = (el.logits(p, case.x) for p in (post, more, less))
    assert np.abs(after - before).max() < (2e-3 if keep_data else np.abs(learned - before).max())
    if keep_data:
        with pytest.raises(el.EverylabelError, match="was never learned"):
            el.forget(more, case.new[:1], [[1.0, 1.0, 0.0]])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_one_class_equals_the_binary_likelihood(likelihood: str) -> None:
    case = Case()
    rows = ~np.isnan(case.y[:, 0])
    x, y = case.x[rows], case.y[rows, 0].astype(int)
    binary_mean, mean = el.fit_map(x, y, 2, PRIOR, binary=True), el.fit_map(x, y[:, None], 1, PRIOR)
    assert np.array_equal(binary_mean, mean)
    binary = el.laplace(binary_mean, x, "binary", PRIOR, labels=y)
    one = el.laplace(mean, x, likelihood, PRIOR, labels=y[:, None])
    new = np.array([0, 1, 1, 0, 1, 1])
    for how in ({}, {"joint": True}, {"method": "first_order"}, {"method": "exact"}):
        a, b = el.update(binary, case.new, new, **how), el.update(one, case.new, new[:, None], **how)
        assert np.allclose(a.mean, b.mean, rtol=0, atol=1e-12)
        assert np.allclose(a.cov, b.cov.reshape(a.cov.shape), rtol=0, atol=1e-12)
        assert np.allclose(el.predict_proba(a, x)[:, 1:], el.predict_proba(b, x), rtol=0, atol=1e-12)
        a, b = el.forget(a, case.new[-1:], new[-1:]), el.forget(b, case.new[-1:], new[-1:, None])
        assert np.allclose(a.mean, b.mean, rtol=0, atol=1e-12)
    assert np.allclose(leave_one_out(binary), leave_one_out(one), rtol=0, atol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_leave_one_out_is_near_training_without(likelihood: str) -> None:
    case = Case(n=150)
    post = case.posterior(likelihood)
    found, errors = leave_one_out(post), []
    for i in range(12):
        rest = np.arange(case.n) != i
        mean = el.fit_map(case.x[rest], case.y[rest], case.k, PRIOR, weights=case.weights[rest])
        errors.append(np.abs(found[i] - case.design[i] @ mean).max())
        known = ~np.isnan(case.y[i])
        assert np.allclose(
            found[i][~known], (case.design[i] @ post.mean)[~known], atol=1e-9
        )  # nothing to leave out
    assert np.mean(errors) < 1e-3


def test_first_guess_of_an_exact_update_is_each_class_alone() -> None:
    case, ended = Case(), list[Any]()
    empty = el.laplace(np.zeros((case.d, case.k)), case.x[:0], "bernoulli", PRIOR)
    el.update(empty, 3.0 * case.new[:1], [[1, 1, 1]], method="exact", report=ended.append)
    assert ended[0].steps == 1  # with the prior alone that guess is the answer


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_new_class_is_at_the_prior_and_learns(likelihood: str) -> None:
    case = Case()
    post = el.add_class(case.posterior(likelihood))
    assert post.n_classes == 4
    assert np.allclose(el.predict_proba(post, case.x)[:, 3], 0.5)
    found = el.update(post, case.new, np.c_[case.answers, [1, 0, 1, 0, np.nan, 1]], method="exact")
    y = np.r_[np.c_[case.y, np.full(case.n, np.nan)], np.c_[case.answers, [1, 0, 1, 0, np.nan, 1]]]
    weights = np.r_[case.weights, np.ones(6)]
    assert np.allclose(
        found.mean, el.fit_map(np.r_[case.x, case.new], y, 4, PRIOR, weights=weights), atol=2e-3
    )


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_saved_posterior_learns_as_before(likelihood: str, tmp_path: Any) -> None:
    case = Case()
    post = case.posterior(likelihood)
    el.save(post, tmp_path / "head.npz")
    loaded = el.load(tmp_path / "head.npz")
    for method in ("second_order", "exact"):
        a, b = (el.update(p, case.new, case.answers, method=method) for p in (post, loaded))
        assert np.array_equal(a.mean, b.mean)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_probabilities_are_independent_sigmoids(likelihood: str) -> None:
    case = Case()
    post = case.posterior(likelihood)
    f, v = case.design @ post.mean, el.logit_variance(post, case.x)
    assert np.allclose(el.predict_proba(post, case.x), sigmoid(f / np.sqrt(1 + np.pi / 8 * v)), atol=1e-12)
    assert np.allclose(el.predict_proba(post, case.x, "mean"), sigmoid(f), atol=1e-12)
    drawn = el.predict_proba(post, case.x, "monte_carlo", n_samples=4000, rng=np.random.default_rng(0))
    assert np.allclose(drawn, el.predict_proba(post, case.x), atol=0.04)


def test_without_labels_the_mean_is_taken_for_the_optimum() -> None:
    case = Case()
    mean = el.fit_map(case.x, np.nan_to_num(case.y), case.k, PRIOR)
    known = el.laplace(mean, case.x, "bernoulli", PRIOR, labels=np.nan_to_num(case.y))
    unknown = el.laplace(mean, case.x, "bernoulli", PRIOR)
    a, b = (el.update(p, case.new, case.answers, method="exact") for p in (known, unknown))
    assert np.allclose(a.mean, b.mean, atol=2e-3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((40, 2)), r"labels has shape \(40, 2\); expected \(40, 3\): a row for each instance"),
        (np.full((40, 3), 0.5), "labels holds other numbers than 0, 1 and NaN"),
        (np.full((40, 3), "a"), "labels has dtype <U1; expected 0, 1 or NaN"),
    ],
)
def test_rows_that_are_no_answers_are_refused(labels: Any, message: str) -> None:
    case = Case()
    with pytest.raises(el.EverylabelError, match=message):
        el.fit_map(case.x, labels, 3)
    with pytest.raises(el.EverylabelError, match=message):
        el.laplace(np.zeros((6, 3)), case.x, "bernoulli", labels=labels)


def test_single_label_functions_refuse_several_classes() -> None:
    case = Case()
    post = case.posterior("bernoulli")
    with pytest.raises(el.EverylabelError, match="binary is given with labels"):
        el.fit_map(case.x, case.y[:, :2], 2, binary=True)
    with pytest.raises(el.EverylabelError, match="class_weight is given with labels"):
        el.fit_map(case.x, case.y, 3, class_weight="balanced")
    with pytest.raises(el.EverylabelError, match="which cannot be sampled"):
        el.sample(post, 10, np.random.default_rng(0))
    with pytest.raises(el.EverylabelError, match="several classes per item need likelihood='bernoulli'"):
        el.update(el.laplace(post.mean, case.x), case.new, case.answers)
