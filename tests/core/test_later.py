"""A covariance that is made when somebody asks for it is the one that would have been made at once."""

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.core import posterior as posteriors
from tests.conftest import design

close = np.testing.assert_allclose


def _learned(n: int, b: int, prior: float = 0.4, asked: bool = False) -> tuple[el.Posterior, Any, Any]:
    """Return a posterior after 12 labels and, b at a time, as many as n; their instances and weights."""
    rng = np.random.default_rng(n + b)
    x, y, w = rng.normal(size=(n, 9)), rng.integers(3, size=n), rng.uniform(0.3, 2.0, n)
    mean = el.fit_map(x[:12], y[:12], 3, prior, weights=w[:12])
    post = el.laplace(mean, x[:12], "gaussian", prior, weights=w[:12], labels=y[:12])
    for i in range(12, n, b):
        some = slice(i, i + b)
        post = el.update(post, x[some], y[some], "exact", weights=w[some])
        assert not asked or post.cov.shape == (10, 10)
    return post, x, w


@pytest.mark.parametrize(("n", "b"), [(13, 1), (16, 1), (19, 7), (60, 1), (72, 5)])
def test_it_is_the_inverse_of_the_whole_precision(n: int, b: int) -> None:
    post, x, w = _learned(n, b)
    assert post.later is not None
    assert post.later.features.shape[0] <= posteriors.AT_ONCE
    whole = 0.4 * np.eye(10) + design(x).T @ (w[:, None] * design(x))
    close(post.cov, np.linalg.inv(whole), rtol=1e-8, atol=1e-10)
    assert post.cov is post.cov


def test_whoever_asks_in_between_changes_no_bit() -> None:
    np.testing.assert_array_equal(_learned(60, 1, asked=True)[0].cov, _learned(60, 1)[0].cov)


def test_one_that_was_made_goes_along_and_one_that_is_given_counts() -> None:
    post = _learned(20, 4)[0]
    cov = post.cov
    assert post.replace(mean=2.0 * post.mean).cov is cov
    given = dataclasses.replace(post, cov=np.eye(10))
    np.testing.assert_array_equal(given.replace(mean=post.mean).cov, np.eye(10))


def test_copies_have_it_too() -> None:
    post = _learned(20, 4)[0]
    moved = post.replace(mean=2.0 * post.mean)
    given = post.replace(cov=np.eye(10))
    again = pickle.loads(pickle.dumps(post))
    np.testing.assert_array_equal(given.cov, np.eye(10))
    assert (given.later, again.later) == (None, None)
    for copy in (moved, again, post.replace(mean=post.mean)):
        np.testing.assert_array_equal(copy.cov, post.cov)
    with pytest.raises(AttributeError, match="no attribute 'covariance'"):
        post.covariance  # noqa: B018


def test_what_may_not_be_possible_is_done_at_once() -> None:
    post, x, _ = _learned(16, 1)
    assert el.update(post, 1e3 * x[:1], [0], "exact", weights=[1e3]).later is None


def test_tensors_are_taken_in_later_too() -> None:
    post, x, _ = _learned(12, 1)
    assert post.data is not None
    labels = torch.tensor(post.data.labels)
    tensors = el.laplace(torch.tensor(post.mean), torch.tensor(x), "gaussian", 0.4, labels=labels)
    after = el.update(tensors, torch.tensor(x[:2]), labels[:2], "exact")
    assert after.later is not None
    assert isinstance(after.cov, torch.Tensor)
    both = design(np.r_[x, x[:2]])
    close(after.cov.numpy(), np.linalg.inv(0.4 * np.eye(10) + both.T @ both), rtol=1e-8, atol=1e-10)
