"""The lean training loop against torch's own optimiser and schedule."""

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.torch import train_head


def _reference(x: torch.Tensor, y: torch.Tensor, k: int, seed: int, epochs: int) -> torch.Tensor:
    """The recipe by torch's own classes, with the same start and batches."""
    rng = np.random.default_rng(seed)
    d = x.shape[1]
    start = rng.uniform(-1 / np.sqrt(d), 1 / np.sqrt(d), size=(d + 1, k)).astype(np.float32)
    layer = torch.nn.Linear(d, k)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(start[:-1].T))
        layer.bias.copy_(torch.from_numpy(start[-1]))
    optimiser = torch.optim.RAdam(layer.parameters(), lr=0.05, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(x)))
        for batch in (order[i : i + 16] for i in range(0, len(x), 16)):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(layer(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        schedule.step()
    return torch.cat([layer.weight.T, layer.bias[None]]).detach()


def test_equals_torch_radam() -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(50, 6)), dtype=torch.float32)
    y = torch.tensor(rng.integers(3, size=50))
    mean = train_head(
        x, y, 3, np.random.default_rng(7), learning_rate=0.05, epochs=20, batch_size=16, weight_decay=1e-2
    )
    torch.testing.assert_close(mean, _reference(x, y, 3, 7, 20), atol=2e-5, rtol=1e-4)


def test_result_goes_into_laplace() -> None:
    rng = np.random.default_rng(0)
    x, y = torch.tensor(rng.normal(size=(50, 6))), torch.tensor(rng.integers(3, size=50))
    post = el.laplace(train_head(x, y, 3, rng, epochs=3), x)
    assert post.bias
    assert isinstance(el.predict_proba(post, x), torch.Tensor)


def test_bad_input_is_named() -> None:
    with pytest.raises(el.EverylabelError, match="features has no rows"):
        train_head(np.zeros((0, 2)), [], 2, np.random.default_rng(0))
    with pytest.raises(el.EverylabelError, match="learning_rate is 0"):
        train_head(np.zeros((1, 2)), [0], 2, np.random.default_rng(0), learning_rate=0)
