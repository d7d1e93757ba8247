"""Conversion between laplace-torch's last-layer Laplace and a posterior keeps predictions."""

import warnings
from typing import Any

import numpy as np
import pytest

import everylabel as el
from tests.integrations.data import digits

torch = pytest.importorskip("torch", reason="needs the extra everylabel[torch]")

from everylabel.integrations.laplace import from_laplace, full_cov, to_laplace  # noqa: E402
from everylabel.torch import LastLayer  # noqa: E402

PRIOR = 0.7
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # by its dependencies


@pytest.fixture(scope="module")
def library() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit", DeprecationWarning)
        return pytest.importorskip("laplace", reason="needs laplace-torch (make install)")


def network(bias: bool = True) -> tuple[Any, Any, Any]:
    """Return a small trained network, its inputs and labels."""
    torch.manual_seed(0)
    rows, numbers = digits(300, 4)
    x, y = torch.tensor(rows, dtype=torch.float32), torch.tensor(numbers)
    model = torch.nn.Sequential(torch.nn.Linear(64, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4, bias=bias))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x[:200]), y[:200]).backward()
        optimiser.step()
    return model, x, y


def fitted(library: Any, structure: str, bias: bool = True, **options: Any) -> tuple[Any, Any, Any, Any]:
    model, x, y = network(bias)
    how = {"subset_of_weights": "last_layer", "hessian_structure": structure, "prior_precision": PRIOR}
    la = library.Laplace(model, "classification", **{**how, **options})
    data = torch.utils.data.TensorDataset(x[:200], y[:200])
    la.fit(torch.utils.data.DataLoader(data, batch_size=64))
    return la, model, x[200:], y[200:]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("structure", ["full", "kron", "diag"])
def test_conversion_round_trip(library: Any, structure: str, bias: bool) -> None:
    la, model, x, _ = fitted(library, structure, bias)
    wanted = la(x, pred_type="glm", link_approx="probit").numpy()
    posterior = from_laplace(la)
    assert posterior.bias == bias
    features = LastLayer(model).features(x).double().numpy()
    np.testing.assert_allclose(el.predict_proba(posterior, features), wanted, atol=1e-5)
    assert np.abs(el.predict_proba(posterior, features, method="mean") - wanted).max() > 1e-3
    back = to_laplace(posterior, model)
    np.testing.assert_allclose(back(x, pred_type="glm", link_approx="probit").numpy(), wanted, atol=1e-5)
    again = from_laplace(back)
    np.testing.assert_allclose(again.cov, full_cov(posterior), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_full_covariance_equals_ours(library: Any, bias: bool) -> None:
    la, model, _, _ = fitted(library, "full", bias)
    _, x, y = network(bias)
    own = LastLayer(model).laplace((x[:200], y[:200]), "full", PRIOR)
    found = from_laplace(la)
    np.testing.assert_allclose(found.mean, own.mean.numpy())
    np.testing.assert_allclose(found.cov, own.cov.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "per_class", "matrix_normal", "full"])
def test_updated_posterior_converts(library: Any, likelihood: str) -> None:
    model, x, y = network()
    head = LastLayer(model)
    posterior = head.laplace((x[:100], y[:100]), likelihood, PRIOR)
    posterior = el.update(posterior, head.features(x[100:110]), y[100:110])
    before = model(x[200:]).detach()
    la = to_laplace(posterior, model)
    wanted = el.predict_proba(posterior, head.features(x[200:])).numpy()
    np.testing.assert_allclose(la(x[200:], pred_type="glm", link_approx="probit").numpy(), wanted, atol=2e-5)
    drawn = la(x[200:230], pred_type="glm", link_approx="mc", n_samples=2000).numpy()
    np.testing.assert_allclose(drawn, wanted[:30], atol=0.1)  # their sampler knows the covariance, too
    assert torch.equal(model(x[200:]), before)  # a copy has the new weights


def test_unsupported_conversion_is_refused(library: Any) -> None:
    model = network()[0]
    with pytest.raises(el.EverylabelError, match="expected a last-layer Laplace"):
        from_laplace(model)
    blank = library.Laplace(model, "classification", subset_of_weights="last_layer")
    with pytest.raises(el.EverylabelError, match="not fitted"):
        from_laplace(blank)
    several = torch.linspace(0.5, 1.5, 28)
    with pytest.raises(el.EverylabelError, match="several prior precisions"):
        from_laplace(fitted(library, "full", prior_precision=several)[0])
    with pytest.raises(el.EverylabelError, match="'binary'"):
        to_laplace(el.laplace(np.zeros((7, 1)), np.zeros((0, 6)), "binary"), model)
    with pytest.raises(el.EverylabelError, match="expected a posterior made from this layer"):
        to_laplace(el.laplace(np.zeros((8, 4)), np.zeros((0, 7))), model)
