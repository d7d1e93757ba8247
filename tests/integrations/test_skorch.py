"""A posterior on the last layer of a network that skorch trains."""

from typing import Any

import numpy as np
import pytest

import everylabel as el
from tests.integrations.data import digits

torch = pytest.importorskip("torch", reason="needs the extra everylabel[torch]")
skorch = pytest.importorskip("skorch", reason="needs the extra everylabel[skorch]")

from everylabel.integrations.skorch import LastLayerPosterior  # noqa: E402
from everylabel.torch import LastLayer  # noqa: E402


def trained(posterior: LastLayerPosterior, *, softmax: bool = False, n: int = 100) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    x, y = digits(1000)
    x, y = x.astype(np.float32), y.astype(np.int64)
    parts = [torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)]
    net = skorch.NeuralNetClassifier(
        torch.nn.Sequential(*parts, *([torch.nn.Softmax(dim=1)] if softmax else [])),
        criterion=torch.nn.NLLLoss if softmax else torch.nn.CrossEntropyLoss,
        max_epochs=20,
        lr=0.3,
        verbose=0,
        batch_size=32,
        callbacks=[("posterior", posterior)],
    )
    return net.fit(x[:n], y[:n]), x, y


@pytest.mark.parametrize("softmax", [True, False])
def test_skorch_net_learns_after_training(softmax: bool) -> None:
    posterior = LastLayerPosterior()
    net, x, y = trained(posterior, softmax=softmax)
    before = net.score(x[300:], y[300:])
    for i in range(100, 200):
        posterior.learn(net, x[i : i + 1], y[i : i + 1])
    assert net.score(x[300:], y[300:]) > before


def test_skorch_net_equals_last_layer_and_update() -> None:
    posterior = LastLayerPosterior("2", "per_class", 0.5, step_size=3.0)
    net, x, y = trained(posterior)
    head = LastLayer(net.module_)
    own = head.laplace((torch.tensor(x[:100]), torch.tensor(y[:100])), "per_class", 0.5)
    np.testing.assert_allclose(posterior.posterior_.cov, own.cov)
    own = el.update(own, head.features(torch.tensor(x[100:140])), torch.tensor(y[100:140]), step_size=3.0)
    posterior.learn(net, x[100:140], y[100:140])
    np.testing.assert_allclose(posterior.posterior_.mean, own.mean)
    probs = torch.softmax(net.module_(torch.tensor(x[200:210])), dim=1).detach().numpy()
    np.testing.assert_allclose(net.predict_proba(x[200:210]), probs, rtol=1e-5)


def test_update_before_training_is_refused() -> None:
    with pytest.raises(el.EverylabelError, match="not trained yet"):
        LastLayerPosterior().learn(None, None, None)
