"""Deep ensembles and MC-dropout as sources of members for the Monte Carlo update."""

import numpy as np
import pytest
import torch
from torch import nn

import everylabel as el
from everylabel.torch import dropout_logits, ensemble_logits, train_ensemble, train_head


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def network(k: int = 3, dropout: float = 0.4) -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, k)
    )


def data(n: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def test_an_ensemble_is_its_models() -> None:
    (x, y), models = data(), [network() for _ in range(3)]
    logits = ensemble_logits(models, x, batch_size=7)
    assert logits.shape == (3, 30, 3)
    for model, member in zip(models, logits, strict=True):
        assert model.training
        torch.testing.assert_close(model.eval()(x), member)
    probs = el.mix(logits, el.reweight(logits, y, step_size=1.0))
    assert probs.shape == (30, 3)


def test_dropout_varies_batch_norm_does_not() -> None:
    (x, y), model = data(), network().train()
    state = torch.random.get_rng_state()
    first = dropout_logits(model, (x, y), 40, np.random.default_rng(0), batch_size=11)
    again = dropout_logits(model, x, 40, np.random.default_rng(0), batch_size=11)
    other = dropout_logits(model, x, 40, np.random.default_rng(1))
    assert first.shape == (40, 30, 3)
    torch.testing.assert_close(first, again)
    assert not torch.allclose(first, other)
    assert first.std(dim=0).min() > 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    assert model[1].num_batches_tracked == 0  # type: ignore[index]
    many = dropout_logits(model, x, 2000, np.random.default_rng(2)).mean(dim=0)
    torch.testing.assert_close(many, model.eval()(x), atol=0.1, rtol=0.1)  # the average is the plain pass


def test_one_output_gives_two_logits() -> None:
    x, model = data()[0], network(1)
    logits = ensemble_logits([model], x)
    assert logits.shape == (1, 30, 2)
    torch.testing.assert_close(logits[0].softmax(1)[:, 1], torch.sigmoid(model.eval()(x))[:, 0])


def test_trained_heads_are_samples() -> None:
    x, y = data()
    ensemble = train_ensemble(x, y, 3, 4, np.random.default_rng(0), epochs=5)
    expected = train_head(x, y, 3, np.random.default_rng(0).spawn(4)[2], epochs=5)
    torch.testing.assert_close(ensemble.members[2], expected)
    updated = el.update(ensemble, x[:5], y[:5], step_size=1.0)
    assert not torch.allclose(updated.log_weights, ensemble.log_weights)
    assert float(updated.log_weights.exp().sum()) == pytest.approx(1.0)
    assert el.predict_proba(updated, x).shape == (30, 3)


def test_bad_input_is_named() -> None:
    x, rng = data()[0], np.random.default_rng(0)
    with pytest.raises(el.EverylabelError, match="models give logits none"):
        ensemble_logits([], x)
    with pytest.raises(el.EverylabelError, match=r"\(30, 3\), \(30, 4\)"):
        ensemble_logits([network(), network(4)], x)
    with pytest.raises(el.EverylabelError, match="no dropout with p above 0"):
        dropout_logits(network(dropout=0.0), x, 5, rng)
    with pytest.raises(el.EverylabelError, match="readable more than once"):
        ensemble_logits([network(), network()], iter([x]))
    with pytest.raises(el.EverylabelError, match="n is 0"):
        dropout_logits(network(), x, 0, rng)
