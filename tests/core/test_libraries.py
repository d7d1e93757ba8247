"""NumPy, torch and array-api-strict give the same numbers, and results of the given kind."""

from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.core.arrays import to_numpy
from tests.conftest import LIKELIHOODS

close = np.testing.assert_allclose

LIBRARIES: dict[str, Any] = {"torch": torch.as_tensor, "strict": array_api_strict.asarray}


def _run(convert: Any, likelihood: str, dtype: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    k = 2 if likelihood == "binary" else 3
    features = convert(rng.normal(size=(20, 4)).astype(dtype))
    labels = convert(rng.integers(k, size=20))
    new, new_labels = convert(rng.normal(size=(3, 4)).astype(dtype)), convert(rng.integers(k, size=3))
    mean = el.fit_map(features, labels, k, 0.5, binary=likelihood == "binary")
    post = el.laplace(mean, features, likelihood, 0.5)
    results = {"mean": mean, "cov": post.cov}
    for joint in (False, True):
        moved = el.update(post, new, new_labels, step_size=3.0, joint=joint)
        results[f"mean {joint}"], results[f"cov {joint}"] = moved.mean, moved.cov
    results["first"] = el.update(post, new, new_labels, "first_order").mean
    told = el.laplace(mean, features, likelihood, 0.5, labels=labels)
    several = el.update(told, new[:2, :], new_labels[:2], "exact")
    one = el.update(several, new[2:, :], new_labels[2:], "exact")
    results["exact"], results["exact cov"] = one.mean, one.cov
    results["exact forget"] = el.forget(one, new[:1, :], new_labels[:1]).mean
    results["condition"] = el.condition(post, new).cov
    results["forget"] = el.forget(
        el.update(post, new[:1, :], new_labels[:1]), new[:1, :], new_labels[:1]
    ).mean
    results["variance"] = el.logit_variance(post, features)
    for method in ("mean", "mean_field"):
        results[method] = el.predict_proba(post, features, method)
    results["drawn"] = el.predict_proba(post, new, "monte_carlo", n_samples=9, rng=np.random.default_rng(1))
    samples = el.update(el.sample(post, 8, np.random.default_rng(2)), new, new_labels)
    results["weights"] = samples.log_weights
    results["mixture"] = el.predict_proba(samples, features)
    if likelihood != "binary":
        results["more exact"] = el.update(el.add_class(told), new, new_labels, "exact").mean
        results["more"] = el.update(el.add_class(post), new, new_labels).cov
    return results


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_same_numbers_same_kind(library: str, likelihood: str, dtype: Any) -> None:
    expected = _run(np.asarray, likelihood, dtype)
    kind = type(LIBRARIES[library](np.zeros(1)))
    for name, value in _run(LIBRARIES[library], likelihood, dtype).items():
        assert isinstance(value, kind), name
        close(to_numpy(value), expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_covariances_stay_double_for_single_features() -> None:
    post = el.laplace(np.zeros((3, 2), np.float32), np.ones((2, 2), np.float32))
    assert post.cov.dtype == np.float64
    assert el.update(post, np.ones((1, 2), np.float32), [1]).cov.dtype == np.float64


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.astype(np.float16),
        lambda x: x.astype(np.int8),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.astype(">f8"),
        lambda x: x.tolist(),
    ],
)
def test_unusual_arrays_work(make: Any) -> None:
    rng = np.random.default_rng(0)
    features, new = np.round(rng.normal(size=(6, 3)) * 4), np.round(rng.normal(size=(2, 3)) * 4)
    post = el.laplace(np.zeros((4, 2)), features)
    odd = el.laplace(np.zeros((4, 2)), make(features))
    close(odd.cov, post.cov)
    close(el.update(odd, make(new), [0, 1]).mean, el.update(post, new, [0, 1]).mean)
    close(el.predict_proba(odd, make(new)), el.predict_proba(post, new))


def test_tensors_that_need_gradients_work() -> None:
    layer = torch.nn.Linear(3, 2)
    features = torch.ones(2, 3, requires_grad=True)
    post = el.laplace(torch.cat([layer.weight.T, layer.bias[None]]), features)
    for method in ("second_order", "first_order", "exact"):
        moved = el.update(post, features, torch.tensor([0, 1]), method, weights=features[:, 0])
        assert not moved.mean.requires_grad
        assert not moved.cov.requires_grad
        assert not el.predict_proba(moved, features).requires_grad
    assert not el.fit_map(features, torch.tensor([0, 1]), 2).requires_grad


def test_a_pool_takes_bfloat16_which_numpy_does_not_have() -> None:
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(40, 4))).to(torch.bfloat16)
    y = torch.arange(40) % 3
    post = el.laplace(el.fit_map(x[:20], y[:20], 3), x[:20])
    pool, same = (el.Pool(rows, post, labelled_idx=range(20), labels=y[:20]) for rows in (x, x.double()))
    for each in (pool, same):
        each.add(30, 1)
    np.testing.assert_allclose(pool.logits(pool.free_idx), same.logits(same.free_idx), rtol=1e-5, atol=1e-5)
    for name in ("herding", "coreset", "badge", "margin"):
        picks = [el.select(each, name, 3, np.random.default_rng(1)).tolist() for each in (pool, same)]
        assert picks[0] == picks[1]
