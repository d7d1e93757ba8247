"""Training in the experiments, by the paper's recipe or fast to the exact optimum, and metrics.

n points, d features, k classes; mean (d+1, k), the last row is the bias; probs (n, k).
"""

from typing import Any

import numpy as np

from everylabel.core import fit_map, laplace
from everylabel.core.posterior import Posterior
from everylabel.experiments.data import Data


def train(x: np.ndarray, y: np.ndarray, data: Data, training: str, rng: np.random.Generator) -> np.ndarray:
    """Return last-layer weights by the paper's recipe or, fast, by exact training."""
    if training == "fast":
        return np.asarray(fit_map(x, y, data.n_classes, tol=1e-4))
    from everylabel.models.paper_recipe import train_head

    rate = data.setting.learning_rate
    return train_head(x, y, data.n_classes, rng, learning_rate=rate).numpy().astype(np.float64)


def train_with_torchs_parts(x: np.ndarray, y: np.ndarray, data: Data) -> Any:
    """Return a layer trained by the paper's recipe written with torch's own parts, for timing."""
    import torch

    rows = torch.utils.data.TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))
    batches = torch.utils.data.DataLoader(rows, batch_size=64, shuffle=True)
    layer = torch.nn.Linear(x.shape[1], data.n_classes)
    rate = data.setting.learning_rate
    optimiser = torch.optim.RAdam(layer.parameters(), lr=rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=200)
    for _ in range(200):
        for features, labels in batches:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(layer(features), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        schedule.step()
    return layer


def posterior(data: Data, idx: np.ndarray, training: str, rng: np.random.Generator) -> Posterior:
    """Return the Laplace posterior of a head trained on these instances (prior precision 1)."""
    return laplace(train(data.x[idx], data.y[idx], data, training, rng), data.x[idx])


def accuracy(probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of labels that the most probable class gets right."""
    return float(np.mean(np.argmax(probs, axis=1) == labels))


def distance(probs: np.ndarray, others: np.ndarray) -> float:
    """Return the mean total variation between two sets of predictions, from 0 to 1."""
    return float(np.mean(0.5 * np.sum(np.abs(probs - others), axis=1)))


def share_of_gain(base: float, updated: float, retrained: float) -> float:
    """Return the update's gain in accuracy divided by retraining's; NaN if retraining gains nothing."""
    gain = retrained - base
    return (updated - base) / gain if gain > 0 else float("nan")
