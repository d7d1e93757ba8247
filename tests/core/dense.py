"""Slow twins: posteriors and updates by dense inverses and autograd, sharing nothing with src."""

from typing import Any

import numpy as np
import torch


def probabilities(features: Any, mean: Any) -> Any:
    """Return softmax, or sigmoid for one column, by the textbook formula."""
    f = features @ mean
    if mean.shape[1] == 1:
        return 1.0 / (1.0 + np.exp(-f))
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def targets(labels: Any, k: int) -> Any:
    return labels[:, None].astype(float) if k == 1 else np.eye(k)[labels]


def neg_log_likelihood(w: torch.Tensor, features: Any, labels: Any, weights: Any) -> torch.Tensor:
    """Return the weighted loss at weights w (d, k); k = 1 is the sigmoid."""
    f = torch.as_tensor(features) @ w
    if w.shape[1] == 1:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            f[:, 0], torch.as_tensor(labels).double(), reduction="none"
        )
    else:
        loss = torch.nn.functional.cross_entropy(f, torch.as_tensor(labels), reduction="none")
    return (torch.as_tensor(weights) * loss).sum()


def gradient(mean: Any, features: Any, labels: Any, weights: Any) -> Any:
    w = torch.tensor(mean, requires_grad=True)
    neg_log_likelihood(w, features, labels, weights).backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    return w.grad.numpy()


def hessian(mean: Any, features: Any, labels: Any, weights: Any) -> Any:
    """Return the loss's Hessian over vec(W), weight j of class c at c*d + j."""
    d, k = mean.shape

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return neg_log_likelihood(flat.reshape(k, d).T, features, labels, weights)

    start = torch.tensor(np.ascontiguousarray(mean.T).ravel())
    return torch.autograd.functional.hessian(loss, start, vectorize=True).numpy()  # type: ignore[no-untyped-call]


def curvature(likelihood: str, mean: Any, features: Any, labels: Any, weights: Any) -> Any:
    """Return the precision that instances add: (d, d), (k, d, d) or (k*d, k*d)."""
    d, k = mean.shape
    p = probabilities(features, mean)
    if likelihood in ("full", "binary"):
        return hessian(mean, features, labels, weights)
    if likelihood == "per_class":
        whole = hessian(mean, features, labels, weights)
        return np.stack([whole[c * d : (c + 1) * d, c * d : (c + 1) * d] for c in range(k)])
    top = p.max(axis=1)
    c = np.ones(len(features)) if likelihood == "gaussian" else top * (1 - top)
    return features.T @ np.diag(weights * c) @ features


def prior(likelihood: str, d: int, k: int, prior_precision: float) -> Any:
    if likelihood == "full":
        return prior_precision * np.eye(k * d)
    if likelihood == "per_class":
        return np.stack([prior_precision * np.eye(d)] * k)
    return prior_precision * np.eye(d)


def apply_cov(likelihood: str, cov: Any, grad: Any) -> Any:
    """Return the covariance applied to a gradient (d, k)."""
    d, k = grad.shape
    if likelihood == "full":
        return (cov @ np.ascontiguousarray(grad.T).ravel()).reshape(k, d).T
    if likelihood == "per_class":
        return np.stack([cov[c] @ grad[:, c] for c in range(k)], axis=1)
    return cov @ grad


def second_order(
    likelihood: str,
    mean: Any,
    precision: Any,
    features: Any,
    labels: Any,
    weights: Any,
    step: float,
    joint: bool,
) -> tuple[Any, Any]:
    """Return mean and precision after Eqs. 5-6, by dense inverses."""
    rows = [slice(None)] if joint else [slice(i, i + 1) for i in range(len(labels))]
    for r in rows:
        new = features[r], labels[r], weights[r]
        here = np.linalg.inv(precision + curvature(likelihood, mean, *new))
        mean = mean - step * apply_cov(likelihood, here, gradient(mean, *new))
        precision = precision + curvature(likelihood, mean, *new)
    return mean, precision
