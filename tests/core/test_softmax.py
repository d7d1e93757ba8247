"""Softmax over the last axis: against scipy, at logits that overflow, in every precision and library."""

from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

from everylabel.core.arrays import log_softmax, softmax


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4), (3, 1)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1000.0])
def test_equals_scipy_along_the_last_axis(shape: tuple[int, ...], scale: float) -> None:
    f = scale * np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(softmax(f), scipy.special.softmax(f, axis=-1), atol=1e-15)
    np.testing.assert_allclose(log_softmax(f), scipy.special.log_softmax(f, axis=-1), rtol=1e-12, atol=1e-14)


def test_softmax_does_not_overflow_and_keeps_impossible_classes_at_zero() -> None:
    f = np.array([[1e300, 0.0, -1e300], [-np.inf, 2.0, 2.0]])
    np.testing.assert_allclose(softmax(f), [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    np.testing.assert_allclose(np.exp(log_softmax(f)), [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])


@pytest.mark.parametrize("function", [softmax, log_softmax])
def test_kind_and_precision_are_those_of_the_logits(function: Any) -> None:
    f = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    assert function(f).dtype == np.float32
    tensor = function(torch.from_numpy(f))
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor.numpy(), function(f), rtol=1e-6)
