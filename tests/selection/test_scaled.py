"""A pool with folded scaling equals a pool of a scaled copy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import everylabel as el
from everylabel.selection.pool import Pool
from everylabel.selection.pool.features import BLOCK, LazyFeatures, LazyScaled

N, D, K = 9000, 60, 4  # enough for the compiled loops


@pytest.fixture(params=["float16", "float32", "float64", "in a file"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> LazyScaled:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(N, D)) + 3.0
    if request.param == "in a file":
        np.save(tmp_path / "x.npy", raw.astype(np.float16))
        raw = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        raw = raw.astype(request.param)
    return LazyScaled(
        raw, np.full(D, 3.0), np.linalg.qr(rng.normal(size=(D, D)))[0] * rng.uniform(0.2, 1.0, D)
    )


def slow(seen: LazyScaled) -> np.ndarray:
    return (np.asarray(seen.raw, np.float64) - seen.center) @ seen.matrix


def posterior_of(rows: np.ndarray) -> el.Posterior:
    mean = np.random.default_rng(1).normal(size=(D + 1, K))
    return el.laplace(mean, rows[:50], prior_precision=1.0)


def test_rows_are_those_of_a_copy(seen: LazyScaled) -> None:
    whole = slow(seen)
    places: list[object] = [
        [],
        [3, 1, N - 1],
        slice(5, 5 + 2 * BLOCK + 1),
        np.arange(N) % 7 == 0,
        slice(4, 5),
    ]
    for at in places:
        np.testing.assert_allclose(seen[at], whole[at], atol=1e-4)  # type: ignore[call-overload]
    np.testing.assert_allclose(seen[8], whole[8], atol=1e-4)
    np.testing.assert_allclose(np.asarray(seen), whole, atol=1e-4)
    np.testing.assert_array_equal(seen[[17]][0], seen[np.arange(3, 40)][14])  # whatever was asked with it
    assert seen[8].dtype == np.float32
    assert (seen.shape, seen.size, len(seen), seen.first(9).shape) == ((N, D), N * D, N, (9, D))


def test_products_are_those_of_a_copy(seen: LazyScaled) -> None:
    whole, rng = slow(seen), np.random.default_rng(2)
    design, features = np.c_[whole, np.ones(N)], LazyFeatures(seen)
    w, half = rng.normal(size=(D + 1, K)), rng.normal(size=(D + 1, D + 1))
    np.testing.assert_allclose(features.product(w), (design @ w).T, atol=1e-3)
    np.testing.assert_allclose(features.product(w[:, 0]), design @ w[:, 0], atol=1e-3)
    np.testing.assert_allclose(features.norms(), np.sum(design**2, axis=1), rtol=1e-4)
    cov = half @ half.T
    np.testing.assert_allclose(features.quadratic(cov), np.sum((design @ cov) * design, axis=1), rtol=1e-3)
    np.testing.assert_allclose(np.concatenate([part for _, part in features.chunks()]), whole, atol=1e-4)
    nothing = np.zeros((D + 1, K))
    nothing[-1] = w[-1]
    np.testing.assert_allclose(features.product(nothing), (design @ nothing).T, atol=1e-5)
    np.testing.assert_allclose(features.product(nothing[:, 0]), design @ nothing[:, 0], atol=1e-5)


def _labels(pool: Pool) -> None:
    pool.add(3, 1)
    pool.condition(7)
    pool.add(8000, 0)


def _grown(pool: Pool) -> None:
    pool.add(3, 1)
    more = pool.features[10:30]
    pool.extend(pool.features.of(pool.features.raw[10:30]) if isinstance(pool.features, LazyScaled) else more)
    pool.extend(
        pool.features.of(pool.features.raw[30:35]) if isinstance(pool.features, LazyScaled) else more[:5]
    )
    pool.add(N + 4, 2)


def _strategies(pool: Pool) -> None:
    for name in ("herding", "lookahead", "coreset", "badge", "margin"):
        i = int(el.select(pool, name, rng=np.random.default_rng(3))[0])
        pool.add(i, i % K)


@pytest.mark.parametrize("happens", [_labels, _grown, _strategies])
@pytest.mark.parametrize("seen", ["float16"], indirect=True)
def test_a_pool_learns_as_one_of_a_copy(seen: LazyScaled, happens: Callable[[Pool], None]) -> None:
    whole = slow(seen)
    pools = [Pool(some, posterior_of(whole)) for some in (seen, whole)]
    for pool in pools:
        happens(pool)
    n = min(map(len, pools))
    np.testing.assert_array_equal(pools[0].state[:n], pools[1].state[:n])
    np.testing.assert_allclose(pools[0].logits()[:N], pools[1].logits()[:N], atol=5e-3)
    np.testing.assert_allclose(pools[0].variances()[:N], pools[1].variances()[:N], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("seen", ["float32"], indirect=True)
def test_mismatched_shapes_are_refused(seen: LazyScaled) -> None:
    whole = slow(seen)
    pool = Pool(seen, posterior_of(whole))
    with pytest.raises(el.EverylabelError, match="features is a ndarray; expected LazyScaled"):
        pool.extend(whole[:3])
    bare = el.laplace(np.zeros((D, K)), whole[:50], prior_precision=1.0)
    assert len(Pool(seen, bare)) == N  # of a copy
    with pytest.raises(ValueError, match="computed on request"):
        np.asarray(seen, copy=False)
