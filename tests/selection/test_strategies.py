"""Each strategy against a slow twin that follows its paper to the letter."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.pool.view import best, candidates
from everylabel.selection.sampling import Members, entropies, kmeans
from everylabel.selection.strategies import bait, bald, get
from everylabel.selection.strategies.badge import badge, badge_norm
from everylabel.selection.strategies.bemps import core_scores
from everylabel.selection.strategies.coreset import coreset
from everylabel.selection.strategies.herding import herding
from everylabel.selection.strategies.stochastic import stochastic
from everylabel.selection.strategies.strategy import Strategy, all_scores, best_of_few
from everylabel.selection.strategies.typiclust import typiclust
from tests.selection.problems import problem

close = np.testing.assert_allclose


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def design(features: Any) -> Any:
    return np.c_[features, np.ones(len(features))]


def entropy(p: Any) -> Any:
    return -np.sum(p * np.log(p), axis=-1)


def test_uncertainty_scores_are_their_definitions() -> None:
    pool, features, *_ = problem(k=4)
    free = pool.free_idx
    p = el.predict_proba(pool.posterior, features[free], "mean")
    s = np.sort(p, axis=1)
    for name, scores in {
        "least_confident": 1 - s[:, -1],
        "entropy": entropy(p),
        "margin": s[:, -2] - s[:, -1],
        "variance": el.logit_variance(pool.posterior, features[free])[:, 0],
    }.items():
        picked = el.select(pool, name, 10, rng())
        np.testing.assert_array_equal(picked, free[np.argsort(-scores, kind="stable")[:10]])


def explicit_gradients(pool: el.Pool, features: Any, idx: Any) -> Any:
    """Return the gradient of the loss for the most likely label over all d * k weights."""
    p = el.predict_proba(pool.posterior, features[idx], "mean")
    r = p - np.eye(p.shape[1])[p.argmax(axis=1)]
    return np.einsum("nk,nd->nkd", r, design(features[idx])).reshape(len(idx), -1)


def test_badge_is_k_means_plus_plus_on_explicit_gradients() -> None:
    pool, features, *_ = problem(k=4)
    free = pool.free_idx
    g = explicit_gradients(pool, features, free)
    norms = np.sum(g**2, axis=1)
    picked, draws = [int(np.argmax(norms))], rng(3)
    while len(picked) < 8:
        nearest = np.min([np.sum((g - g[i]) ** 2, axis=1) for i in picked], axis=0)
        total = np.cumsum(nearest)
        picked.append(int(np.searchsorted(total, draws.random() * total[-1], side="right")))
    assert badge(pool, free, 8, rng(3)).tolist() == picked
    close(badge_norm(pool, free, rng()), norms)


@pytest.mark.parametrize("n_labelled", [8, 0])
def test_coreset_is_k_center_greedy(n_labelled: int) -> None:
    pool, features, *_ = problem()
    if not n_labelled:
        pool = el.Pool(features, pool.posterior)
    free, x = pool.free_idx, design(features)
    known = pool.labelled_idx.tolist()
    expected: list[int] = []
    for _ in range(6):
        if not known:
            far = -np.sum((x - x.mean(axis=0)) ** 2, axis=1)
        else:
            far = np.min([np.sum((x - x[i]) ** 2, axis=1) for i in known], axis=0)
        expected.append(int(free[np.argmax(far[free])]))
        known.append(expected[-1])
    assert free[coreset(pool, free, 6, rng())].tolist() == expected


def test_bald_is_the_mutual_information_of_many_members() -> None:
    pool, features, *_ = problem()
    members = Members(pool, 40, rng(1))
    p = np.exp(np.einsum("nd,mdk->mnk", design(features[pool.free_idx]), members.weights))
    p /= p.sum(axis=2, keepdims=True)
    close(members.probs(pool.free_idx), p, rtol=1e-4)
    scores = entropy(p.mean(axis=0)) - entropy(p).mean(axis=0)
    picked = el.select(pool, "bald", 4, rng(1), n_samples=40)
    np.testing.assert_array_equal(picked, pool.free_idx[np.argsort(-scores)[:4]])


def joint_information(p: Any) -> float:
    """Return I(y_1..b; w) by enumerating all labellings of a batch's p (m, b, k)."""
    _, b, k = p.shape
    total = 0.0
    for labels in itertools.product(range(k), repeat=b):
        joint = np.mean(np.prod([p[:, t, y] for t, y in enumerate(labels)], axis=0))
        total -= joint * np.log(joint)
    return total - float(entropy(p).mean(axis=0).sum())


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_batchbald_is_greedy_on_the_enumerated_information(likelihood: str) -> None:
    pool, *_ = problem(n=20, likelihood=likelihood)
    free = pool.free_idx
    p = Members(pool, 15, rng(2)).probs(free).astype(np.float64)
    picked: list[int] = []
    for _ in range(4):
        gains = [joint_information(p[:, [*picked, i]]) if i not in picked else -1 for i in range(len(free))]
        picked.append(int(np.argmax(gains)))
    got = bald.batchbald(pool, free, 4, rng(2), n_samples=15, n_labellings=10_000)
    assert got.tolist() == picked


def test_batchbald_by_drawn_labellings_is_close() -> None:
    pool, *_ = problem(n=30)
    p = Members(pool, 30, rng(2)).probs(pool.free_idx[:5])
    likelihood, weights = bald._labellings(p, 100, rng(0))
    likelihood, weights = bald._labellings(p, 20_000, rng(0)) if len(weights) > 100 else (likelihood, weights)
    drawn = np.concatenate([bald._labellings(p[:, :4], 200, rng(s))[0] for s in range(100)])
    got = bald._entropy_given(drawn, np.full(len(drawn), 1 / len(drawn)), p[:, 4:])[0]
    wide = p.astype(np.float64)
    added = joint_information(wide) - joint_information(wide[:, :4])  # by enumeration
    close(got, added + entropy(wide[:, 4:]).mean(axis=0).sum(), rtol=0.02)


def test_batchbald_picks_no_instance_twice_in_large_batches() -> None:
    features = rng(0).normal(size=(150, 20))
    pool = el.Pool(features, el.laplace(rng(1).normal(size=(21, 77)) * 0.05, features[:10]))
    assert len(set(el.select(pool, "batchbald", 60, rng(0)).tolist())) == 60


def test_coreset_picks_no_instance_twice_far_from_the_origin() -> None:
    features = (1e5 + rng(0).normal(size=(60, 64))).astype(np.float32)
    post = el.laplace(np.zeros((65, 3)), features[:5])
    pool = el.Pool(features, post, labelled_idx=np.arange(5), labels=np.array([0, 1, 2, 0, 1]))
    assert len(set(el.select(pool, "coreset", 10, rng(0)).tolist())) == 10


def test_as_many_are_tried_as_are_taken() -> None:
    pool, *_ = problem(n=80)
    few = el.select(pool, "lookahead", 30, rng(0), n_candidates=5)
    assert not np.array_equal(np.sort(few)[5:], pool.free_idx[:25])


def test_the_step_size_reaches_look_ahead() -> None:
    pool, *_ = problem(n=80)
    small, large = (el.select(pool, "lookahead", 10, rng(0), step_size=step) for step in (0.01, 1000.0))
    assert not np.array_equal(small, large)


def test_lazy_batchbald_looks_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, *_ = problem(n=900, d=6)
    monkeypatch.setattr(bald, "AT_ONCE", 8)
    looked: list[int] = []
    original = bald._entropy_given

    def count(likelihood: Any, weights: Any, probs: Any) -> Any:
        looked.append(probs.shape[1])
        return original(likelihood, weights, probs)

    monkeypatch.setattr(bald, "_entropy_given", count)
    lazy = bald.batchbald(pool, pool.free_idx, 5, rng(2), n_tried=900)
    assert sum(looked) < 0.5 * 4 * len(pool.free_idx)
    monkeypatch.setattr(bald, "AT_ONCE", 10**6)
    np.testing.assert_array_equal(lazy, bald.batchbald(pool, pool.free_idx, 5, rng(2), n_tried=900))


@pytest.mark.parametrize("seed", range(6))
def test_bait_forward_and_backward_are_dense_traces(seed: int) -> None:
    pool, features, *_ = problem(n=24, seed=seed, n_labelled=3)
    free, x = pool.free_idx, design(features)
    p = el.predict_proba(pool.posterior, features, "mean")
    c = 1 - np.sum(p**2, axis=1)
    fisher = (x[free].T * c[free]) @ x[free] / len(free)
    precision = np.linalg.inv(pool.posterior.cov)

    def left(some: list[int]) -> float:
        a = np.linalg.inv(precision + sum(c[i] * np.outer(x[i], x[i]) for i in some))
        return float(np.trace(a @ fisher))

    picked: list[int] = []
    for _ in range(6):
        picked.append(min((int(i) for i in free if i not in picked), key=lambda i: left([*picked, i])))
    while len(picked) > 3:
        picked.remove(min(picked, key=lambda i: left([j for j in picked if j != i])))
    assert free[bait.bait(pool, free, 3, rng())].tolist() == picked


@pytest.mark.parametrize("score", ["mse", "log"])
def test_bemps_is_a_loop_over_labels(score: str) -> None:
    pool, *_ = problem()
    p = Members(pool, 12, rng(4)).probs(pool.free_idx).astype(np.float64)
    some, others = p[:, :6], p[:, 10:25]
    expected = []
    for c in range(6):
        total = 0.0
        for y in range(3):
            weights = some[:, c, y] / some[:, c, y].sum()
            after, now = np.einsum("m,mek->ek", weights, others), others.mean(axis=0)
            change = (after - now) ** 2 if score == "mse" else after * np.log(after / now)
            total += some[:, c, y].mean() * change.sum(axis=1).mean()
        expected.append(total)
    close(core_scores(some, others, score), expected)


def test_epig_is_the_mutual_information_of_two_labels() -> None:
    pool, *_ = problem()
    p = Members(pool, 12, rng(4)).probs(pool.free_idx).astype(np.float64)
    joint = np.einsum("mcy,mez->ceyz", p[:, :5], p[:, 5:]) / 12
    product = p[:, :5].mean(axis=0)[:, None, :, None] * p[:, 5:].mean(axis=0)[None, :, None, :]
    information = np.sum(joint * np.log(joint / product), axis=(2, 3)).mean(axis=1)
    close(core_scores(p[:, :5], p[:, 5:], "log"), information)
    target = pool.free_idx[7:9]
    members = Members(pool, 30, rng(9))
    expected = core_scores(members.probs(pool.free_idx), members.probs(target), "log")
    picked = el.select(pool, "epig", 1, rng(9), target_idx=target, n_samples=30)
    assert picked[0] == pool.free_idx[np.argmax(expected)]


@pytest.mark.parametrize("kind", ["power", "softmax"])
def test_stochastic_draws_by_score(kind: str) -> None:
    pool, *_ = problem(n=14)
    free = pool.free_idx
    p = np.sort(pool.probs(free), axis=1)
    score = 1 - (p[:, -1] - p[:, -2])
    chances = score**2 if kind == "power" else np.exp(2 * score)
    draws = rng()
    first = [stochastic(pool, free, 2, draws, score="margin", kind=kind, beta=2.0)[0] for _ in range(4000)]
    close(np.bincount(first, minlength=len(free)) / 4000, chances / chances.sum(), atol=0.03)


def test_typiclust_takes_the_middle_of_the_largest_cluster_without_a_label() -> None:
    draws = rng(1)
    sizes, centres = (30, 20, 10), 20.0 * np.eye(3)
    features = np.concatenate([c + draws.normal(size=(n, 3)) for c, n in zip(centres, sizes, strict=True)])
    post = el.laplace(draws.normal(size=(4, 3)), features[:1])
    pool = el.Pool(features, post, labelled_idx=[0], labels=[0])
    picked = pool.free_idx[typiclust(pool, pool.free_idx, 2, rng())]
    assert 30 <= picked[0] < 50
    assert 50 <= picked[1] < 60
    for i, (low, high) in zip(picked, ((30, 50), (50, 60)), strict=True):
        members = np.arange(low, high)
        distances = np.linalg.norm(features[members][:, None] - features[members][None], axis=2)
        typical = np.sort(distances, axis=1)[:, 1 : 1 + min(20, len(members) // 2)].mean(axis=1)
        assert i == members[np.argmin(typical)]


def test_kmeans_finds_clusters_and_leaves_none_empty() -> None:
    draws = rng(1)
    truth = np.repeat(np.arange(4), 25)
    rows = (10.0 * np.eye(4)[truth] + draws.normal(size=(100, 4))).astype(np.float32)
    found = kmeans(rows, 4, rng(2))
    assert len(set(zip(truth.tolist(), found.tolist(), strict=True))) == 4
    assert len(set(kmeans(np.ones((9, 2), np.float32), 5, rng()).tolist())) == 5


@pytest.mark.parametrize("likelihood", ["gaussian", "binary", "per_class"])
def test_margins_class_by_class_are_those_of_the_softmax(likelihood: str) -> None:
    for seed, k in enumerate((2, 3, 9)):
        k = 2 if likelihood == "binary" else k
        pool, *_ = problem(n=300, k=k, seed=seed, likelihood=likelihood)
        for idx in (pool.free_idx, pool.free_idx[::7], pool.free_idx[5:6]):
            plain = PoolView.margins(pool, idx)
            close(pool.margins(idx), plain, rtol=1e-9, atol=1e-12)


def test_a_wider_gap_can_be_the_smaller_margin() -> None:
    logits = np.zeros((3, 6), np.float32)
    logits[0] = [0.2, 0.0, -10.0, -10.0, -10.0, -10.0]  # margin 0.10
    logits[1] = [0.3, 0.0, 0.0, 0.0, 0.0, 0.0]  # margin 0.06, since all classes share the rest
    logits[2] = [5.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    pool = el.Pool(logits, el.laplace(np.eye(6), logits))
    assert el.select(pool, "margin").tolist() == [1]


def test_best_takes_the_first_of_ties_and_no_nan() -> None:
    assert best(np.array([1.0, 3.0, 3.0 + 1e-9, np.nan, -np.inf]), 1).tolist() == [1]
    assert best(np.array([1.0, 3.0, 3.0 + 1e-9, np.nan, 2.0]), 3).tolist() == [1, 2, 4]
    close(entropies(np.array([[1.0, 0.0]])), 0.0)


def test_labellings_are_drawn_from_their_member() -> None:
    """Four members, each nearly sure of a label of its own: a labelling tells who gave it."""
    p = np.full((4, 3, 4), 0.01, np.float32)
    p[np.arange(4), :, np.arange(4)] = 0.97
    likelihood, _ = bald._labellings(p, 20, rng(0))
    assert np.mean(likelihood.argmax(axis=1) == rng(0).integers(4, size=20)) > 0.9


@pytest.mark.parametrize(
    ("likelihood", "out", "seed"),
    [("gaussian", False, 5), ("per_class", True, 3), ("binary", True, 6), ("binary", True, 27)],
)
def test_herding_is_a_loop_over_what_is_covered(likelihood: str, out: bool, seed: int) -> None:
    given = problem(n=50, d=5, k=4, likelihood=likelihood, seed=seed, n_labelled=6)
    pool, free = given.pool, given.pool.free_idx
    if out:
        pool.condition(int(free[7]))  # with an annotator: covered as if it had its label
    known = np.flatnonzero(pool.state != Where.FREE).tolist()
    x = given.features - given.features[pool.free_idx].mean(axis=0)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    f = np.asarray(pool.logits(), np.float64)
    f = f / np.sqrt(1 + np.pi / 8 * np.asarray(pool.variances(), np.float64))[:, None]
    p = np.sort(np.exp(f) / np.exp(f).sum(axis=1, keepdims=True), axis=1)
    at_mean = np.asarray(pool.probs(), np.float64)
    guess, unsure = at_mean.argmax(axis=1), (1 - (p[:, -1] - p[:, -2])) ** 2
    usual, weights, kept = np.mean([unsure[e] for e in pool.free_idx]), dict[int, float](), dict[int, float]()
    for y in np.unique(guess).tolist():
        share = np.mean([at_mean[e][y] for e in pool.free_idx])
        own = np.mean([unsure[e] for e in pool.free_idx if guess[e] == y] or [1.0])
        rarity = max(0.0, 1 - pool.n_classes * share)
        kept[y] = 1 - rarity**3 if likelihood == "binary" else 1.0
        weights[y] = float((usual / own) ** rarity / share)
    nearest = [min(np.sum((x[i] - x[j]) ** 2) for j in known if j != i) for i in known]
    width = max(np.quantile(nearest, 0.25), 0.05)
    expected = list[int]()

    def kernel(i: int, j: int) -> float:
        return float(np.exp(-np.sum((x[i] - x[j]) ** 2) / width))

    for _ in range(3):
        gains = {
            int(c): sum(
                weights[int(guess[e])]
                * unsure[e]
                * max(
                    0.0,
                    kernel(c, e)
                    - max(
                        [kept[int(guess[e])] * kernel(i, e) for i in known] + [kernel(i, e) for i in expected]
                    ),
                )
                for e in pool.free_idx
            )
            for c in pool.free_idx
            if c not in expected
        }
        expected.append(max(gains, key=lambda c: gains[c]))
    picked = herding(pool, pool.free_idx, 3, np.random.default_rng(0))
    assert pool.free_idx[picked].tolist() == expected


def test_candidates_hold_as_many_of_a_rare_predicted_class_as_of_a_common_one() -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(4000) >= 3800).astype(int)
    x = rng.normal(size=(4000, 3)) + 6.0 * y[:, None]
    pool = el.Pool(x, el.laplace(el.fit_map(x, y, 2), x))
    tried = candidates(pool, pool.free_idx, 200, rng, by_class=True)
    assert len(set(tried.tolist())) == 200
    assert set(tried[:100].tolist()) == set(np.argsort(pool.margins(pool.free_idx))[:100].tolist())
    assert 0.25 < np.mean(y[tried[100:]]) < 0.75
    assert np.mean(y[candidates(pool, pool.free_idx, 200, rng)[100:]]) < 0.2


@pytest.mark.parametrize("name", ["lookahead", "bemps", "epig"])
def test_the_best_of_those_tried_is_the_best_of_all_scores(name: str) -> None:
    pool = problem(n=400).pool
    for n in (1, 7):
        every = all_scores(get(name), pool, pool.free_idx, np.random.default_rng(n), n_candidates=50)
        assert np.isfinite(every).sum() == 50
        picked = el.select(pool, name, n, np.random.default_rng(n), n_candidates=50)
        assert picked.tolist() == pool.free_idx[best(every, n)].tolist()


def test_tied_scores_go_to_the_lowest_position() -> None:
    tried, found = np.array([5, 2, 9, 0]), np.array([1.0, 1.0, 1.0 + 1e-9, 0.5])
    strategy = Strategy("some", "some are tried", "none", few=lambda pool, idx, rng: (tried, found))
    every = all_scores(strategy, problem().pool, np.arange(12), rng())
    for n in (1, 2, 4):
        picked = best_of_few(lambda: (tried, found), n).tolist()
        assert picked == best(every, n).tolist() == [2, 5, 9, 0][:n]


def test_a_score_or_a_strategy_can_be_tried_without_adding_it() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)), np.arange(40) % 3
    post = el.laplace(el.fit_map(x[:20], y[:20], 3), x[:20])

    def most(pool: PoolView, idx: np.ndarray, rng: np.random.Generator, *, sign: float = 1.0) -> np.ndarray:
        return sign * pool.rows(idx)[:, 0]

    def last(pool: PoolView, idx: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        return np.arange(len(idx))[-n:]

    pool = el.Pool(x, post, labelled_idx=np.arange(20), labels=y[:20])
    order = 20 + np.argsort(-x[20:, 0])
    np.testing.assert_array_equal(el.select(pool, most, n=3), order[:3])
    np.testing.assert_array_equal(el.select(pool, most, n=3, sign=-1.0), order[::-1][:3])
    np.testing.assert_array_equal(el.select(pool, Strategy("last", "", "", pick=last), n=2), [38, 39])
    alone = Strategy("most", "", "", score=most, alone=True)
    np.testing.assert_array_equal(el.select(pool, alone, n=2, ask=lambda i: y[i]), order[:2])
    assert len(pool.labelled_idx) == 22
    with pytest.raises(el.EverylabelError, match=r"colour is not an option of strategy 'most'; .*: sign"):
        el.select(pool, most, colour=1)
    with pytest.raises(
        el.EverylabelError, match=r"'<lambda>' returned scores of shape \(3,\); expected \(18,\)"
    ):
        el.select(pool, lambda pool, idx, rng: np.zeros(3))
    with pytest.raises(el.EverylabelError, match="strategy is <built-in function max>, whose arguments"):
        el.select(pool, max)

    @dataclass
    class Weighing:  # one that is equal to another has no hash
        weight: float

        def __call__(self, pool: PoolView, idx: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return self.weight * pool.rows(idx)[:, 0]

    assert el.select(pool, Weighing(-1.0))[0] == np.setdiff1d(order, pool.labelled_idx, True)[-1]
    with pytest.raises(el.EverylabelError, match="strategy is a int; expected a name"):
        el.select(pool, 3)  # type: ignore[arg-type]
    for wrong in (
        {"pick": lambda pool, idx, n, rng: np.zeros(n, np.int64)},  # twice the same
        {"pick": lambda pool, idx, n, rng: [len(idx), 0]},
        {"pick": lambda pool, idx, n, rng: [3, 3, 4]},  # too many
        {"pick": lambda pool, idx, n, rng: [-1, 3, 4]},
        {"pick": lambda pool, idx, n, rng: [1.0, 2.0]},
        {"few": lambda pool, idx, rng: ([3], [1.0])},  # too few
    ):
        with pytest.raises(
            el.EverylabelError, match=r"'own' returned .*; expected 2 different positions of the 18"
        ):
            el.select(pool, Strategy("own", "", "", **wrong), n=2)
    with pytest.raises(el.EverylabelError, match="'own' has not one rule; expected exactly one of"):
        el.select(pool, Strategy("own", "", ""))
    cold = el.Pool(x, el.laplace(np.zeros((5, 3)), x[:0]))
    named = Strategy("random", "", "", score=most)  # by a name of ours, which needs no model
    picks = [el.select(cold, by, 3, np.random.default_rng(1)) for by in (named, "typiclust")]
    np.testing.assert_array_equal(picks[0], picks[1])
    picks = [el.select(cold, by, 3, np.random.default_rng(1)) for by in (most, "typiclust")]
    np.testing.assert_array_equal(picks[0], picks[1])
