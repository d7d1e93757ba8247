"""Look-ahead against its slow twins: an update for every candidate and label; a loop over batches."""

from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.selection import threads
from everylabel.selection.lookahead import optimal
from everylabel.selection.lookahead.expected import RISKS, expected_risk
from everylabel.selection.lookahead.optimal import SOURCES, draw_batches
from everylabel.selection.strategies.lookahead import label_shift, lookahead
from everylabel.selection.strategies.refine import PROPOSING
from tests.selection.problems import Problem, problem

close = np.testing.assert_allclose
LOSSES: dict[str, Any] = {
    "error": lambda p: 1.0 - p.max(axis=1),
    "log": lambda p: -np.sum(p * np.log(p), axis=1),
    "brier": lambda p: 1.0 - np.sum(p**2, axis=1),
}


def brute_force(problem: Problem, idx: Any, eval_idx: Any, risk: str, step: float) -> Any:
    """Return the expected risk by k updates for each candidate."""
    pool, features, *_ = problem
    result = []
    for i in idx:
        p = el.predict_proba(pool.posterior, features[i : i + 1], "mean")[0]
        after = [el.update(pool.posterior, features[i : i + 1], [y], step_size=step) for y in range(len(p))]
        losses = [LOSSES[risk](el.predict_proba(a, features[eval_idx], "mean")).mean() for a in after]
        result.append(p @ losses)
    return np.asarray(result)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "binary"])
def test_expected_risk_is_what_updates_give(
    likelihood: str, risk: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "SMALL", 0 if compiled else 10**9)
    case = problem(likelihood=likelihood, k=5, n=40)
    pool = case.pool
    idx, eval_idx = pool.free_idx[:9], pool.free_idx[3:]
    for step in (0.7, 3.0 if compiled else 10.0):
        tried, got = lookahead(
            pool, idx, np.random.default_rng(0), risk=risk, n_candidates=99, n_eval=99, step_size=step
        )
        expected = brute_force(case, idx[tried], pool.free_idx, risk, step)
        close(-got, expected, rtol=2e-5 if compiled else 1e-10)
        shift = label_shift(pool, idx, eval_idx, step)
        got = expected_risk(pool.logits(eval_idx), shift, pool.probs(idx), risk)
        close(got, brute_force(case, idx, eval_idx, risk, step), rtol=2e-5 if compiled else 1e-10)


@pytest.mark.parametrize("risk", RISKS)
def test_compiled_and_plain_agree_far_from_zero(risk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.normal(size=(300, 13))
    logits[5] = 0.0  # all tied
    logits[6, :2] = 20.0  # two at the top
    shift = 5.0 * rng.normal(size=(20, 300))
    probs = rng.dirichlet(0.3 * np.ones(13), size=20)
    monkeypatch.setattr(threads, "SMALL", 10**9)
    plain = expected_risk(logits, shift, probs, risk)
    monkeypatch.setattr(threads, "SMALL", 0)
    close(expected_risk(logits, shift, probs, risk), plain, rtol=1e-4, atol=1e-6)


def test_lookahead_picks_the_least_expected_error() -> None:
    case = problem()
    picked = el.select(case.pool, "lookahead", 1, np.random.default_rng(0), n_candidates=999)
    free = case.pool.free_idx
    expected = brute_force(case, free, free, "error", case.pool.auto_step)
    assert picked[0] == free[np.argmin(expected)]


def test_candidates_are_uncertain_and_random_halves() -> None:
    pool, *_ = problem()
    free = pool.free_idx
    some, scores = lookahead(pool, free, np.random.default_rng(0), n_candidates=10)
    tried = set(some.tolist())
    p = np.sort(pool.probs(free), axis=1)
    narrow = np.argsort(p[:, -1] - p[:, -2], kind="stable")[:5]
    assert len(tried) == len(scores) == 10
    assert set(narrow.tolist()) < tried


def by_updates(case: Problem, tried: Any, idx: Any, val: Any, joint: bool, metric: str, step: float) -> Any:
    x, y = val
    scores = []
    for b in idx[tried]:
        after = el.update(case.pool.posterior, case.features[b], case.labels[b], step_size=step, joint=joint)
        p = el.predict_proba(after, x, "mean")
        right = np.mean(p.argmax(axis=1) == y)
        scores.append(right if metric == "accuracy" else np.mean(np.log(p[np.arange(len(y)), y])))
    return np.asarray(scores)


@pytest.mark.parametrize("metric", optimal.METRICS)
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "binary", "per_class"])
def test_optimal_batch_is_a_loop_over_updates(likelihood: str, joint: bool, metric: str) -> None:
    case = problem(likelihood=likelihood, k=4, n=50)
    val = problem(likelihood=likelihood, k=4, seed=3)
    idx = case.pool.free_idx
    for step in (1.3, 4.0):
        picked = el.optimal_batch(
            case.pool, case.labels, val.features, val.labels, 6, 40,
            rng=np.random.default_rng(1), metric=metric, joint=joint, step_size=step,
        )  # fmt: skip
        tried = draw_batches(case.pool, idx, 6, 40, "random", np.random.default_rng(1))
        scores = by_updates(case, tried, idx, (val.features, val.labels), joint, metric, step)
        chosen = [set(b) == set(picked.tolist()) for b in idx[tried].tolist()]
        close(scores[chosen][0], scores.max(), rtol=1e-5)
        if likelihood != "per_class":
            rows = np.c_[val.features, np.ones(len(val.features))]
            moved = optimal._in_kernel_space(case.pool, idx, case.labels[idx], tried, rows, step, joint)
            found = [optimal._score(logits, val.labels, metric) for logits in moved]
            close(np.concatenate(found), scores, rtol=1e-4)


@pytest.mark.parametrize("source", SOURCES)
def test_batches_hold_different_instances(source: str) -> None:
    pool, *_ = problem()
    tried = draw_batches(pool, pool.free_idx, 5, 31, source, np.random.default_rng(0))
    assert tried.shape == (31, 5)
    assert all(len(set(b)) == 5 for b in tried.tolist())
    assert len(set(map(tuple, tried.tolist()))) > 20


def test_boss_keeps_the_best_of_the_batches_that_strategies_propose() -> None:
    case = problem(n=120, d=6, k=4)
    idx, draws = case.pool.free_idx, np.random.default_rng(3)
    losses, batches = [], []
    for i in range(18):
        some = np.sort(draws.choice(len(idx), round(len(idx) / 2), replace=False))
        batches.append(idx[some][PROPOSING[i % 9](case.pool, idx[some], 4, draws)])
        after = el.update(
            case.pool.posterior, case.features[batches[-1]], case.labels[batches[-1]], step_size=2.0
        )
        p = el.predict_proba(after, case.features, "mean")
        losses.append(-np.mean(np.log(p[np.arange(len(p)), case.labels])))
    assert len({tuple(batch) for batch in batches}) > 12
    given = (case.pool, case.labels, case.features, case.labels, 4, 18)
    picked = el.optimal_batch(
        *given, rng=np.random.default_rng(3), candidates=idx, batches="boss", metric="log_loss", step_size=2.0
    )
    assert picked.tolist() == batches[int(np.argmin(losses))].tolist()


def test_optimal_batch_refuses_bad_input() -> None:
    case = problem()
    good = (case.pool, case.labels, case.features, case.labels)
    rng = np.random.default_rng(0)
    with pytest.raises(el.EverylabelError, match="n is 99, but 52 free"):
        el.optimal_batch(*good, 99, rng=rng)
    with pytest.raises(el.EverylabelError, match="metric is 'f1'"):
        el.optimal_batch(*good, 5, rng=rng, metric="f1")
    with pytest.raises(el.EverylabelError, match="batches is 'best'"):
        el.optimal_batch(*good, 5, rng=rng, batches="best")
    with pytest.raises(el.EverylabelError, match="val_labels has shape"):
        el.optimal_batch(*good[:3], case.labels[:3], 5, rng=rng)
    with pytest.raises(el.EverylabelError, match=r"labels has shape \(3,\)"):
        el.optimal_batch(case.pool, case.labels[:3], *good[2:], 5, rng=rng)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "binary"])
def test_greedy_optimal_batch_is_a_loop_over_updates(
    likelihood: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "SMALL", 0 if compiled else 10**9)
    case = problem(likelihood=likelihood, k=4, n=30)
    val = problem(likelihood=likelihood, k=4, seed=3)
    posterior, left, expected = case.pool.posterior, case.pool.free_idx.tolist(), []
    for _ in range(4):
        scores = []
        for i in left:
            after = el.update(posterior, case.features[[i]], case.labels[[i]], step_size=1.3)
            p = el.predict_proba(after, val.features, "mean")
            scores.append(np.mean(np.log(p[np.arange(len(p)), val.labels])))
        i = left.pop(int(np.argmax(scores)))
        posterior = el.update(posterior, case.features[[i]], case.labels[[i]], step_size=1.3)
        expected.append(i)
    given = case.pool, case.labels, val.features, val.labels, 4
    got = el.optimal_batch(*given, rng=np.random.default_rng(0), batches="greedy", step_size=1.3)
    assert got.tolist() == expected


def test_greedy_needs_a_shared_covariance() -> None:
    case = problem(likelihood="per_class")
    with pytest.raises(el.EverylabelError, match="batches is 'greedy', which needs one covariance"):
        el.optimal_batch(
            case.pool,
            case.labels,
            case.features,
            case.labels,
            2,
            rng=np.random.default_rng(0),
            batches="greedy",
        )
