"""The default strategy with and without labels, batch or one by one, 2 to 150 classes, several people."""

import numpy as np
import pytest

import everylabel as el
from everylabel.core.posterior import Posterior
from everylabel.labelling.state.types import DEFAULTS
from everylabel.selection.strategies import DEFAULT


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def clusters(k: int, each: int = 8, d: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Instances around a centre of their class."""
    y = np.repeat(np.arange(k), each)
    return (6.0 * rng(1).normal(size=(k, d)))[y] + rng(2).normal(size=(k * each, d)), y


def prior(k: int, d: int = 12) -> Posterior:
    return el.laplace(np.zeros((d + 1, k)), np.zeros((0, d)), labels=np.zeros(0, int))


def test_model_equals_that_of_the_page() -> None:
    pool = el.Pool(*_taught(3))
    assert DEFAULTS["strategy"] == DEFAULT == "herding"
    np.testing.assert_array_equal(el.select(pool, n=4, rng=rng()), el.select(pool, "herding", 4, rng()))
    assert len(el.select(pool)) == 1  # one, drawn again every time
    with pytest.raises(el.EverylabelError, match="rng is a int"):
        el.select(pool, rng=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [2, 5, 150])
def test_default_reaches_most_classes_without_initial_labels(k: int) -> None:
    x, y = clusters(k)
    at_once = el.select(el.Pool(x, prior(k)), n=k, rng=rng())
    assert len(set(at_once.tolist())) == k
    assert len(set(y[at_once].tolist())) > 0.9 * k
    if k == 150:
        return  # label by label it takes a minute
    pool = el.Pool(x, prior(k), method="exact")
    asked = el.select(pool, n=2 * k, rng=rng(), ask=lambda i: int(y[i]))
    assert len(set(y[asked].tolist())) > 0.9 * k
    assert np.mean(pool.logits().argmax(axis=1) == y) > 0.9


@pytest.mark.parametrize("k", [2, 150])
def test_with_labels_the_default_picks_from_uncovered_clusters(k: int) -> None:
    x, y = clusters(k)
    known = np.arange(0, len(x), 16)  # every other class has a label
    post = el.laplace(el.fit_map(x[known], y[known], k), x[known], labels=y[known])
    for ask in (None, lambda i: int(y[i])):
        pool = el.Pool(x, post, labelled_idx=known, labels=y[known])
        picked = el.select(pool, n=max(1, k // 15), rng=rng(), ask=ask)
        assert len(set(y[picked].tolist())) == len(picked)
        assert np.mean(y[picked] % 2) == 1.0


def test_people_who_label_at_once_get_dissimilar_items() -> None:
    y = clusters(6, each=20)[1]
    pool = el.Pool(*_taught(6, each=20))
    for _ in range(4):
        pool.condition(int(el.select(pool, rng=rng())[0]))  # out with a person
    assert len(set(y[pool.leased_idx].tolist())) == 4
    for i in pool.leased_idx:
        pool.add(int(i), int(y[i]))
    assert len(pool.leased_idx) == 0


def test_a_choice_from_a_sample_is_the_same_for_the_same_generator() -> None:
    x = rng(5).normal(size=(40_000, 4)).astype(np.float32)
    y = (x[:50, 0] > 0).astype(int)
    pool = el.Pool(x, el.laplace(el.fit_map(x[:50], y, 2), x[:50]), labelled_idx=np.arange(50), labels=y)
    first, again, other = (el.select(pool, n=5, rng=rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert set(first.tolist()) != set(other.tolist())


def _taught(k: int, each: int = 8) -> tuple[np.ndarray, Posterior]:
    x, y = clusters(k, each)
    some = [0, len(x) - 1]
    return x, el.laplace(el.fit_map(x[some], y[some], k), x[some])
