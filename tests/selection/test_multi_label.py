"""Pools whose instances may have several classes."""

from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool import Where
from everylabel.selection.strategies import STRATEGIES
from everylabel.selection.strategies.multi_label import information

KNOWN = [name for name, each in STRATEGIES.items() if each.multi_label]
LIKELIHOODS = ["bernoulli", "bernoulli_per_class"]
PRIOR = 0.7


def problem(likelihood: str = "bernoulli", n: int = 120, **options: Any) -> tuple[el.Pool, Any, Any]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 5))
    truth = (x @ rng.normal(size=(5, 3)) > 1.0).astype(float)
    y = truth[:20].copy()
    y[3, 1] = y[7, 2] = np.nan
    posterior = el.laplace(el.fit_map(x[:20], y, 3, PRIOR), x[:20], likelihood, PRIOR, labels=y)
    return el.Pool(x, posterior, labelled_idx=np.arange(20), labels=y, **options), x, truth


def agrees(pool: el.Pool, atol: float = 1e-9) -> None:
    """Check that logits and variances equal those recomputed from the posterior."""
    design = pool.rows(np.arange(len(pool)))
    assert np.allclose(pool.logits(), design @ pool.posterior.mean, atol=atol)
    anew = el.logit_variance(pool.posterior, design[:, :-1]).mean(axis=1)
    assert np.allclose(pool.variances(), anew, atol=atol)
    assert np.allclose(pool.probs(), 1.0 / (1.0 + np.exp(-pool.logits())), atol=1e-12)


@pytest.mark.parametrize("method", [None, "exact", "first_order"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_cached_logits_equal_recomputed_ones_after_any_change(likelihood: str, method: str | None) -> None:
    pool, _, truth = problem(likelihood, method=method)
    pool.variances()
    pool.put(30, Where.LABELLED, truth[30])
    pool.put(31, Where.LABELLED, [1, np.nan, np.nan])
    agrees(pool)
    pool.put(31, Where.LABELLED, [1, 0, 1], 2.0)
    pool.put(3, Where.FREE)
    pool.condition(40)
    agrees(pool)
    pool.add_class()
    with pool.together():
        pool.put(40, Where.LABELLED, [0, 0, np.nan, 1])
        pool.put(7, Where.LABELLED, [1, 0, 0, 0])
        pool.put(50, Where.EXCLUDED)
    pool.extend(np.ones((3, 5)))
    agrees(pool)
    assert pool.labels.shape == (123, 4)
    assert np.array_equal(pool.labels[40], [0, 0, np.nan, 1], equal_nan=True)
    assert np.isnan(pool.labels[[3, 50, 122]]).all()
    if method == "exact":
        idx = pool.labelled_idx
        anew = el.fit_map(pool.features[idx], pool.labels[idx], 4, PRIOR, weights=pool.weights[idx])
        assert np.allclose(pool.posterior.mean, anew, atol=2e-3)


@pytest.mark.parametrize("method", [None, "exact"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_undo_is_as_if_it_had_never_been(likelihood: str, method: str | None) -> None:
    pool, _, truth = problem(likelihood, method=method)
    twin, _, _ = problem(likelihood, method=method)
    pool.put(30, Where.LABELLED, [np.nan, 1, np.nan])
    pool.put(30, Where.LABELLED, truth[30])
    for each in (pool, twin):
        each.put(31, Where.LABELLED, truth[31])
    pool.put(30, Where.FREE)
    assert np.allclose(pool.logits(), twin.logits(), atol=1e-3 if method else 1e-9)
    assert np.allclose(pool.posterior.cov, twin.posterior.cov, atol=1e-3 if method else 1e-9)


def test_partial_answer_that_is_completed_counts_once() -> None:
    pool, _, truth = problem()
    twin, _, _ = problem()
    pool.put(30, Where.LABELLED, [truth[30, 0], np.nan, np.nan])
    pool.put(30, Where.LABELLED, truth[30])
    twin.put(30, Where.LABELLED, truth[30])
    assert np.allclose(pool.posterior.mean, twin.posterior.mean, atol=1e-12)
    assert np.allclose(pool.posterior.cov, twin.posterior.cov, atol=1e-12)


def test_refit_takes_a_posterior_with_more_classes() -> None:
    pool, x, truth = problem()
    more = np.c_[truth[:20], np.r_[np.ones(5), np.zeros(15)]]
    pool.refit(el.laplace(el.fit_map(x[:20], more, 4), x[:20], "bernoulli", labels=more))
    assert pool.labels.shape == (120, 4)
    assert np.isnan(pool.labels[:, 3]).all()
    agrees(pool)
    with pytest.raises(el.EverylabelError, match="expected a posterior with all classes"):
        pool.refit(el.laplace(np.zeros((6, 3)), x[:20], "bernoulli"))
    with pytest.raises(el.EverylabelError, match="expected both with several classes per item"):
        pool.refit(el.laplace(np.zeros((6, 4)), x[:20]))


@pytest.mark.parametrize("label", [1, [1, 0], [1, 0, 2], [[1, 0, 0]]])
def test_label_that_is_no_row_is_refused(label: Any) -> None:
    pool, _, _ = problem()
    before = pool.posterior
    with pytest.raises(el.EverylabelError, match="label"):
        pool.put(30, Where.LABELLED, label)
    assert pool.posterior is before
    assert pool.where(30) is Where.FREE


def test_ruling_out_is_an_answer_of_zero() -> None:
    pool, _, _ = problem()
    with pytest.raises(el.EverylabelError, match="expected a label with 0 for each class"):
        pool.rule_out(30, [1])


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("strategy", KNOWN)
def test_strategies_choose_free_instances(strategy: str, ask: bool) -> None:
    pool, _, truth = problem()
    free = set(pool.free_idx.tolist())
    idx = el.select(pool, strategy, 4, np.random.default_rng(0), (lambda i: truth[i]) if ask else None)
    assert len(set(idx.tolist()) & free) == 4
    assert len(pool.labelled_idx) == (24 if ask else 20)


def test_other_strategies_name_those_that_work() -> None:
    pool, _, _ = problem()
    for name in set(STRATEGIES) - set(KNOWN):
        with pytest.raises(el.EverylabelError, match="expected one of 'random', 'entropy', 'margin'"):
            el.select(pool, name)


def test_margin_takes_the_class_nearest_to_a_half() -> None:
    pool, _, _ = problem()
    nearest = np.abs(pool.probs(pool.free_idx) - 0.5).min(axis=1)
    assert el.select(pool, "margin")[0] == pool.free_idx[np.argmin(nearest)]
    p = pool.probs(pool.free_idx)
    entropy = -np.sum(p * np.log(p) + (1 - p) * np.log(1 - p), axis=1)
    assert el.select(pool, "entropy")[0] == pool.free_idx[np.argmax(entropy)]


def test_first_pick_is_by_features() -> None:
    _, x, _ = problem()
    pool = el.Pool(x, el.laplace(np.zeros((6, 3)), x[:0], "bernoulli"))
    typical = el.select(pool, "typiclust", 2, np.random.default_rng(0))
    assert np.array_equal(el.select(pool, "herding", 2, np.random.default_rng(0)), typical)


def test_information_is_that_of_many_draws() -> None:
    rng = np.random.default_rng(0)
    f, s = rng.normal(size=(4, 3)) * 2, rng.uniform(0.1, 4.0, (4, 1))
    p = 1 / (1 + np.exp(-(f + np.sqrt(s) * rng.normal(size=(200_000, 4, 3)))))

    def entropy(p: Any) -> Any:
        return -p * np.log(p) - (1 - p) * np.log1p(-p)

    assert np.allclose(information(f, s), entropy(p.mean(axis=0)) - entropy(p).mean(axis=0), atol=2e-3)


def test_question_asks_unanswered_classes() -> None:
    pool, _, _ = problem()
    i, c = el.select_question(pool)
    told = information(pool.logits(), pool.variances()[:, None])
    told[~np.isnan(pool.labels)] = -1.0
    assert told[i, c] == told.max()
    assert el.select_question(pool, candidates=[3, 4]) == (3, 1)  # all else of both is answered
    with pytest.raises(el.EverylabelError, match="no instance with a class that is not answered"):
        el.select_question(pool, candidates=[4])
    single = el.Pool(pool.features, el.laplace(np.zeros((6, 3)), pool.features))
    with pytest.raises(el.EverylabelError, match="where an instance has one class"):
        el.select_question(single)
