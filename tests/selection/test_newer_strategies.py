"""Falcun, DropQuery, ALFA-Mix, ProbCover, MaxHerding and the expectations of BAIT against slow twins."""

from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.sampling import kmeans, most_central
from everylabel.selection.strategies.bait import bait
from everylabel.selection.strategies.falcun import falcun
from everylabel.selection.strategies.flips import alfamix, dropquery
from everylabel.selection.strategies.herding import herding, maxherding
from everylabel.selection.strategies.probcover import probcover
from everylabel.selection.strategies.refine import PROPOSING
from tests.selection.problems import Problem, problem


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def probabilities(given: Problem, idx: Any) -> Any:
    return el.predict_proba(given.pool.posterior, given.features[idx], "mean")


def linear(given: Problem) -> tuple[Any, Any]:
    """Return the weights (d, k) and bias (k,) of two or more logits."""
    mean = np.asarray(given.pool.posterior.mean)
    mean = np.c_[0 * mean, mean] if mean.shape[1] == 1 else mean
    return mean[:-1], mean[-1]


def unit(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def draw(chances: Any, draws: np.random.Generator) -> int:
    total = np.cumsum(chances)
    return int(np.searchsorted(total, draws.random() * total[-1], side="right"))


@pytest.mark.parametrize(("likelihood", "gamma"), [("gaussian", 10.0), ("binary", 3.0)])
def test_falcun_draws_by_uncertainty_and_distance_of_predictions(likelihood: str, gamma: float) -> None:
    given = problem(k=4, likelihood=likelihood, seed=2)
    free = given.pool.free_idx
    p = probabilities(given, free)
    ordered = np.sort(p, axis=1)
    unsure = 1 - (ordered[:, -1] - ordered[:, -2])
    distance, expected, draws = list(unsure), list[int](), rng(3)
    for _ in range(8):
        chances = [
            0.0 if i in expected else (u + d) ** gamma
            for i, (u, d) in enumerate(zip(unsure, distance, strict=True))
        ]
        expected.append(draw(chances, draws))
        last = p[expected[-1]]
        distance = [min(d, float(np.sum(np.abs(q - last)))) for d, q in zip(distance, p, strict=True)]
        low, high = min(distance), max(distance)
        distance = [(d - low) / (high - low) for d in distance]
    assert falcun(given.pool, free, 8, rng(3), gamma=gamma).tolist() == expected


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
@pytest.mark.parametrize("n", [3, 40])
def test_dropquery_clusters_instances_that_flip_in_most_draws(likelihood: str, n: int) -> None:
    given = problem(likelihood=likelihood, seed=4, d=6)
    free, (weights, bias) = given.pool.free_idx, linear(given)
    x, draws = given.features[free], rng(7)
    now = np.argmax(x @ weights + bias, axis=1)
    flips = np.zeros(len(x), int)
    for _ in range(5):
        mask = draws.random(x.shape, dtype=np.float32) >= 0.6
        for i in range(len(x)):
            flips[i] += (
                np.argmax(sum(x[i, j] * weights[j] / 0.4 for j in range(6) if mask[i, j]) + bias) != now[i]
            )
    order = sorted(range(len(x)), key=lambda i: (-flips[i], i))
    chosen = np.array([i for i in order if flips[i] > 2.5])
    chosen = np.array(order[:n]) if len(chosen) < n else chosen
    expected = chosen[most_central(x[chosen], n, draws)]
    picked = dropquery(given.pool, free, n, rng(7), dropout=0.6, n_draws=5)
    assert picked.tolist() == expected.tolist()


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
@pytest.mark.parametrize("n", [3, 30])
def test_alfamix_mixes_each_class_mean_in_feature_by_feature(likelihood: str, n: int) -> None:
    given = problem(likelihood=likelihood, seed=5, n_labelled=12)
    pool, free, (weights, bias) = given.pool, given.pool.free_idx, linear(given)
    step, flipped = 0.3, list[int]()
    for at, i in enumerate(free):
        z, p = given.features[i], probabilities(given, [i])[0]
        now = int(np.argmax(p))
        gradient = weights @ (p - np.eye(len(p))[now])
        for y in np.unique(pool.labels[pool.labelled_idx]):
            anchor = given.features[pool.labels == y].mean(axis=0)
            gap = anchor - z
            share = step / np.sqrt(len(z)) * np.linalg.norm(gap) * gradient / (np.linalg.norm(gradient) * gap)
            mixed = share * anchor + (1 - share) * z
            if np.argmax(mixed @ weights + bias) != now:
                flipped.append(at)
                break
    assert 3 < len(flipped) < 30
    draws, chosen = rng(2), np.array(flipped)
    if n > len(chosen):
        others = np.setdiff1d(np.arange(len(free)), chosen)
        chosen = np.r_[chosen, draws.choice(others, n - len(chosen), replace=False)]
    expected = chosen[most_central(given.features[free][chosen], n, draws)]
    assert alfamix(pool, free, n, rng(2), step=step).tolist() == expected.tolist()


def test_the_most_central_are_the_nearest_to_the_mean_of_each_cluster() -> None:
    rows = rng(1).normal(size=(50, 3))
    cluster = kmeans(rows, 4, rng(2))
    for c, i in enumerate(most_central(rows, 4, rng(2))):
        members = np.flatnonzero(cluster == c)
        centre = rows[members].mean(axis=0)
        assert i == min(members, key=lambda j: np.sum((rows[j] - centre) ** 2))


@pytest.mark.parametrize("purity", [0.95, 0.7])
def test_probcover_takes_the_ball_that_covers_most(purity: float) -> None:
    given = problem(n=80, seed=6)
    pool, free = given.pool, given.pool.free_idx
    centre = given.features[free].mean(axis=0)
    x, known = unit(given.features[free] - centre), unit(given.features[pool.labelled_idx] - centre)
    cluster = kmeans(x, 3, rng(1))
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    radii = np.unique(distances)
    foreign = np.where(cluster[:, None] == cluster, np.inf, distances).min(axis=1)  # the nearest of another
    pure = [r for r in radii if np.mean(foreign >= r) >= purity]
    radius = max(pure)
    covered = {i for i in range(len(x)) if min(np.linalg.norm(known - x[i], axis=1)) < radius}
    expected: list[int] = []
    for _ in range(4):
        balls = [set(np.flatnonzero(distances[i] < radius).tolist()) - covered for i in range(len(x))]
        expected.append(max(range(len(x)), key=lambda i: (i not in expected, len(balls[i]), -i)))
        covered |= balls[expected[-1]]
    assert probcover(pool, free, 4, rng(1), purity=purity).tolist() == expected


def test_maxherding_covers_without_a_look_at_the_model() -> None:
    given = problem(n=50, d=5, seed=3, n_labelled=6)
    pool, free, known = given.pool, given.pool.free_idx, given.pool.labelled_idx.tolist()
    x = unit(given.features - given.features[free].mean(axis=0))
    nearest = [min(np.sum((x[i] - x[j]) ** 2) for j in known if j != i) for i in known]
    width, expected = max(np.quantile(nearest, 0.25), 0.05), list[int]()
    similar = np.exp(-np.sum((x[:, None] - x) ** 2, axis=2) / width)
    for _ in range(4):
        gains = {
            int(c): sum(max(0.0, similar[c, e] - max(similar[j, e] for j in known)) for e in free)
            for c in free
            if c not in known
        }
        expected.append(max(gains, key=lambda c: gains[c]))
        known.append(expected[-1])
    assert free[maxherding(pool, free, 4, rng())].tolist() == expected


def expected_fisher(p: Any, expectation: str) -> list[tuple[float, Any]]:
    """Return (chance, gradient by the logits) of the labels that BAIT's authors or successors expect."""
    if expectation == "binary":  # one logit, of the likeliest class against the rest
        top = float(p.max())
        return [(top, np.array([1 - top])), (1 - top, np.array([-top]))]
    top2 = np.argsort(p)[-2:] if expectation == "top2" else np.arange(len(p))
    return [(float(p[y] / p[top2].sum()), np.eye(len(p))[y] - p) for y in top2]


@pytest.mark.parametrize("expectation", ["all", "top2", "binary"])
@pytest.mark.parametrize("oversample", [1.0, 2.0])
def test_bait_takes_the_curvature_that_its_successors_expect(expectation: str, oversample: float) -> None:
    given = problem(n=24, k=4, seed=1, n_labelled=4)
    pool, free = given.pool, given.pool.free_idx
    h = np.c_[given.features, np.ones(len(given.features))]
    blocks: list[Any] = []  # by outer products of explicit gradients, traced over the classes
    for i in free:
        gradients = [
            (chance, np.outer(r, h[i]))
            for chance, r in expected_fisher(probabilities(given, [i])[0], expectation)
        ]
        blocks.append(sum(chance * g.T @ g for chance, g in gradients))
    fisher, precision = np.mean(blocks, axis=0), np.linalg.inv(np.asarray(pool.posterior.cov))

    def left(picked: list[int]) -> float:
        return float(
            np.trace(np.linalg.inv(precision + sum((blocks[i] for i in picked), 0 * fisher)) @ fisher)
        )

    picked: list[int] = []
    while len(picked) < 3 * oversample:
        picked.append(min((i for i in range(len(free)) if i not in picked), key=lambda i: left([*picked, i])))
    while len(picked) > 3:
        picked.remove(min(picked, key=lambda i: left([j for j in picked if j != i])))
    found = bait(pool, free, 3, rng(), expectation=expectation, oversample=oversample)
    assert found.tolist() == picked


def test_refine_is_herding_among_repeated_proposals() -> None:
    given = problem(n=150, d=6, k=4, seed=8)
    pool, left, draws = given.pool, given.pool.free_idx.tolist(), rng(4)
    for _ in range(3):
        proposed = set[int]()
        for i in range(11):
            some = np.array(left)[np.sort(draws.choice(len(left), round(0.3 * len(left)), replace=False))]
            proposed |= set(some[PROPOSING[i % 9](pool, some, 5, draws)].tolist())
        left = sorted(proposed)
    assert len(left) < 50
    expected = np.array(left)[herding(pool, np.array(left), 5, draws)]
    picked = el.select(pool, "refine", 5, rng(4), n_batches=11, n_rounds=3, share=0.3)
    assert picked.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("falcun", {"gamma": -1}, "gamma is -1; expected a finite number of at least 0"),
        ("dropquery", {"dropout": 1.0}, "dropout is 1.0; expected a number between 0 and 1"),
        ("dropquery", {"n_draws": 0}, "n_draws is 0"),
        ("alfamix", {"step": 0}, "step is 0"),
        ("probcover", {"purity": 1.5}, "purity is 1.5; expected a number between 0 and 1"),
        ("bait", {"oversample": 0.5}, "oversample is 0.5; expected a number of at least 1"),
        ("bait", {"expectation": "top3"}, "expectation is 'top3'; expected one of 'all'"),
    ],
)
def test_options_are_checked(name: str, options: Any, message: str) -> None:
    with pytest.raises(el.EverylabelError, match=message):
        el.select(problem().pool, name, 2, rng(), **options)
