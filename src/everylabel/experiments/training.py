"""Training in the experiments: by the paper's recipe, or fast, to the exact optimum from where it was.

n points, d features, k classes; mean (d+1, k), the last row is the bias.
"""

from typing import Any

import numpy as np

from everylabel.core import fit_map, laplace
from everylabel.core.likelihoods.likelihood import one_hot
from everylabel.core.newton import Objective, Point, inner, newton_step
from everylabel.core.posterior import Posterior
from everylabel.core.preconditioner import build
from everylabel.core.softmax import softmax
from everylabel.experiments.data import Data

MAX_STEPS, MAX_PRODUCTS = 50, 1000


def train(x: np.ndarray, y: np.ndarray, data: Data, training: str, rng: np.random.Generator) -> np.ndarray:
    """Return last-layer weights by the paper's recipe or, fast, by exact training."""
    if training == "fast":
        return np.asarray(fit_map(x, y, data.n_classes, tol=1e-4))
    from everylabel.models.recipe import train_head

    rate = data.setting.learning_rate
    return train_head(x, y, data.n_classes, rng, learning_rate=rate).numpy().astype(np.float64)


def train_with_torchs_parts(x: np.ndarray, y: np.ndarray, data: Data) -> Any:
    """Return a layer trained by the paper's recipe as one writes it with torch's own parts, to be timed."""
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


def refit(
    x: np.ndarray, y: np.ndarray, n_classes: int, init: np.ndarray | None, tol: float = 1e-3
) -> np.ndarray:
    """Return what fit_map(..., init=init, tol=tol) does, in a third of the time where there are many points.

    The same Newton steps, with all passes in single precision and the preconditioner of the start.
    """
    if init is None or len(x) <= x.shape[1]:
        return np.asarray(fit_map(x, y, n_classes, init=init, tol=tol))
    design = np.c_[x, np.ones(len(x))].astype(np.float32)
    label_sums = design.T.astype(np.float64) @ one_hot(y, n_classes)
    objective = Objective(design, np.ones(len(x), np.float32), label_sums, 1.0, softmax)
    at_zero = objective.gradient(0.0 * init, np.full((len(x), n_classes), 1 / n_classes, np.float32))
    target = tol * inner(at_zero, at_zero) ** 0.5
    logits = design @ init.astype(np.float32)
    point = Point(init, logits, softmax(logits))
    inverse = build(design, objective.weights, point.probs, 1.0, 0)
    for _ in range(MAX_STEPS):
        gradient = objective.gradient(point.mean, point.probs)
        if inner(gradient, gradient) ** 0.5 <= target:
            return np.asarray(point.mean)
        point = newton_step(objective, point, gradient, inverse.apply, 0.0, MAX_PRODUCTS).end
    return np.asarray(fit_map(x, y, n_classes, init=point.mean, tol=tol))
