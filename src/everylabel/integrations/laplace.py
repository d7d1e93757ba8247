"""laplace-torch: a fitted last-layer Laplace as a posterior, and a posterior as a last-layer Laplace.

>>> la = Laplace(model, "classification", subset_of_weights="last_layer", hessian_structure="full")
>>> la.fit(loader)
>>> posterior = from_laplace(la)  # predicts as la does, and learns from every label
>>> la = to_laplace(el.update(posterior, features, labels), model)

d features (without the bias), k classes. Their parameters are the layer's, weights (k, d) row by row and
then the biases (k,); ours are, class by class, d weights and the bias. Their structures become
    full    "full"         the same covariance, permuted
    kron    "full"         its dense form: with the prior among its eigenvalues it is no Kronecker product
    diag    "per_class"    diagonal matrices
A posterior of ours with a column per class becomes a full one there.
"""

from copy import deepcopy
from typing import Any

import numpy as np

from everylabel.core import EverylabelError, Posterior
from everylabel.core.arrays import to_numpy
from everylabel.core.errors import need

need("torch", "laplace", "everylabel.integrations.laplace")

import torch  # noqa: E402

from everylabel.models.last_layer import LastLayer  # noqa: E402

__all__ = ["from_laplace", "to_laplace"]

STRUCTURES = ("full", "kron", "diag")


def from_laplace(la: Any) -> Posterior:
    """Return the posterior of a fitted last-layer Laplace of a classifier, in float64.

    `everylabel.predict_proba` (mean-field) equals `la(x)` with link_approx="probit"; features are those of
    `everylabel.torch.LastLayer(model)`. It has no data, so update it by "second_order" or "first_order".

    Examples
    --------
    >>> import torch
    >>> from laplace import Laplace
    >>> from everylabel.integrations.laplace import from_laplace
    >>> inputs, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10))
    >>> la = Laplace(model, "classification", subset_of_weights="last_layer", hessian_structure="full")
    >>> la.fit(torch.utils.data.DataLoader(list(zip(inputs[:100], labels[:100])), batch_size=50))
    >>> post = from_laplace(la)
    >>> post.mean.shape
    (9, 10)
    """
    subset, structure = getattr(la, "_key", (None, None))
    if subset != "last_layer" or structure not in STRUCTURES:
        raise EverylabelError(
            f"la is a {type(la).__name__}; expected a last-layer Laplace of laplace-torch: full, kron or diag"
        )
    if str(getattr(la.likelihood, "value", la.likelihood)) != "classification":
        raise EverylabelError("la is of a regression; expected likelihood='classification'")
    layer = la.model.last_layer
    if layer is None or getattr(la, "mean", None) is None or not hasattr(la, "n_outputs"):
        raise EverylabelError("la is not fitted; call la.fit(loader) first")
    prior = np.unique(to_numpy(torch.as_tensor(la.prior_precision)).astype(np.float64))
    if len(prior) != 1 or float(torch.as_tensor(la.prior_mean).abs().max()) != 0.0:
        raise EverylabelError(
            "la has several prior precisions, or a prior mean; expected one for all weights, around 0"
        )
    k, d = layer.weight.shape
    bias = layer.bias is not None
    flat = to_numpy(la.mean.detach().double())
    mean = flat[: k * d].reshape(k, d).T
    mean = np.concatenate([mean, flat[None, k * d :]]) if bias else mean
    order = _order(d, k, bias)
    likelihood, cov = "full", _covariance(la, structure)
    if structure == "diag":
        blocks = cov[order].reshape(k, d + bias)
        likelihood, cov = "per_class", blocks[:, :, None] * np.eye(d + bias)
    else:
        cov = cov[np.ix_(order, order)]
    return Posterior(mean=mean, cov=cov, likelihood=likelihood, prior_precision=float(prior[0]), bias=bias)


def to_laplace(posterior: Posterior, model: torch.nn.Module, layer: str | None = None) -> Any:
    """Return a `FullLLLaplace` of a copy of the model, with the posterior's mean as last layer.

    layer is its name, as in `everylabel.torch.LastLayer`. `la(x, link_approx="probit")` is `predict_proba`
    (mean-field); sampling, marginal likelihoods of the prior and the rest of laplace-torch work on it, except
    what needs the training loss.

    Examples
    --------
    >>> import torch
    >>> from everylabel.integrations.laplace import to_laplace
    >>> from everylabel.torch import LastLayer
    >>> inputs, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10))
    >>> la = to_laplace(LastLayer(model).laplace((inputs[:100], labels[:100])), model)
    >>> la(inputs[:3], pred_type="glm", link_approx="probit").shape
    torch.Size([3, 10])
    """
    lllaplace = need("laplace.lllaplace", "laplace", "to_laplace")
    if posterior.likelihood == "binary":
        raise EverylabelError(
            "posterior is 'binary', of one column; expected a column per class, as laplace-torch has"
        )
    head = LastLayer(deepcopy(model), layer)
    head.write(posterior)
    where, kind = head.layer.weight.device, head.layer.weight.dtype
    la = lllaplace.FullLLLaplace(
        head.model,
        "classification",
        prior_precision=posterior.prior_precision,
        last_layer_name=head.name,
    )
    k, d = head.layer.weight.shape
    order = _order(d, k, posterior.bias)
    precision = np.empty((len(order), len(order)))
    precision[np.ix_(order, order)] = np.linalg.inv(full_cov(posterior))
    curvature = precision - posterior.prior_precision * np.eye(len(order))
    la.H = torch.as_tensor(curvature, device=where, dtype=kind)
    parts = [head.layer.weight.detach().reshape(-1)]
    la.mean = torch.cat(parts if head.layer.bias is None else [*parts, head.layer.bias.detach()])
    la.n_outputs = la.model.output_size = k
    la.n_data = 0 if posterior.data is None else len(posterior.data.labels)
    la.model.eval()
    return la


def full_cov(posterior: Posterior) -> np.ndarray:
    """Return the covariance between all weights (k*d, k*d), class by class; d with the bias."""
    cov, (d, k) = np.asarray(to_numpy(posterior.cov), np.float64), posterior.mean.shape
    if posterior.likelihood == "full":
        return cov
    if posterior.likelihood == "matrix_normal":
        return np.kron(np.asarray(to_numpy(posterior.class_cov), np.float64), cov)
    if posterior.likelihood != "per_class":
        return np.kron(np.eye(k), cov)
    whole = np.zeros((k, d, k, d))
    whole[np.arange(k), :, np.arange(k), :] = cov
    return whole.reshape(k * d, k * d)


def _covariance(la: Any, structure: str) -> np.ndarray:
    """Return laplace-torch's covariance in its order; for "diag" the diagonal."""
    if structure == "diag":
        found = 1.0 / la.posterior_precision.double()
    elif structure == "kron":
        found = la.posterior_precision.to_matrix(exponent=-1).double()
    else:
        found = torch.linalg.inv(la.posterior_precision.double())
    return np.asarray(to_numpy(found.detach()))


def _order(d: int, k: int, bias: bool) -> np.ndarray:
    """Return the position of each of our parameters in laplace-torch's order."""
    weights = np.arange(k * d).reshape(k, d)
    return (np.c_[weights, k * d + np.arange(k)] if bias else weights).reshape(-1)
