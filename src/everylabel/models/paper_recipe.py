"""The paper's recipe for a last layer on frozen features (Sec. 4.1), and its MC-based networks (App. A.1).

RAdam (Liu et al., 2020), 200 epochs, batches of 64, cosine schedule, weight decay 1e-4; learning
rate 0.01 for images, 0.1 for text. One (d+1, k) parameter, with its gradient in closed form.

Deep ensembles and MC-dropout have m members. Their logits (m, n, k) at n points go into `everylabel.reweight`
and `everylabel.mix`; an ensemble of last layers is `Samples`, which `update` and `predict_proba` take.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from everylabel.core import Samples
from everylabel.core.checks import check_count, check_labels, check_matrix, check_positive, check_rng
from everylabel.core.errors import EverylabelError
from everylabel.models.forward import BATCH_SIZE, batches, evaluating, logits_of, unwrap


def train_head(
    features: Any,
    labels: Any,
    n_classes: int,
    rng: np.random.Generator,
    *,
    learning_rate: float = 0.01,
    epochs: int = 200,
    batch_size: int = 64,
    weight_decay: float = 1e-4,
) -> torch.Tensor:
    """Return last-layer weights (d+1, k) trained by the paper's recipe; the last row is the bias.

    Parameters
    ----------
    features, labels : tensor or array (n, d), (n,)
        Frozen features without a bias column, class numbers.
    n_classes : int
        Number of classes.
    rng : numpy.random.Generator
        Draws the initial weights (as torch.nn.Linear does) and the order of the batches.
    learning_rate, epochs, batch_size, weight_decay
        The paper's values; its learning rate for text is 0.1.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import train_head
    >>> mean = train_head(torch.tensor(x[:100]), y[:100], 10, rng, epochs=5)
    >>> post = el.laplace(mean, torch.tensor(x[:100]))
    """
    rng = check_rng(rng)
    n_classes = check_count(n_classes, "n_classes")
    epochs, batch_size = check_count(epochs, "epochs"), check_count(batch_size, "batch_size")
    learning_rate = check_positive(learning_rate, "learning_rate")
    weight_decay = check_positive(weight_decay, "weight_decay", zero=True)
    array = torch.as_tensor(check_matrix(features, "features"))
    labels = torch.as_tensor(check_labels(torch.as_tensor(labels), array.shape[0], n_classes, array))
    if array.shape[0] == 0:
        raise EverylabelError("features has no rows; expected at least one instance to train on")
    n, d = array.shape
    with torch.no_grad():
        design = torch.cat([array.float(), torch.ones(n, 1, device=array.device)], dim=1)
        targets = torch.nn.functional.one_hot(labels, n_classes).float()
        bound = 1.0 / math.sqrt(d)
        start = rng.uniform(-bound, bound, size=(d + 1, n_classes)).astype(np.float32)
        weights = torch.from_numpy(start).to(array.device)
        optimiser = torch.optim.RAdam([weights], learning_rate, weight_decay=weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)
        for _ in range(epochs):
            order = torch.from_numpy(rng.permutation(n)).to(array.device)
            x, y = design[order], targets[order]
            for first in range(0, n, batch_size):
                batch = x[first : first + batch_size]
                residual = torch.softmax(batch @ weights, dim=1).sub_(y[first : first + batch_size])
                weights.grad = batch.T @ residual.div_(len(batch))
                optimiser.step()
            schedule.step()
    return weights.detach()


def ensemble_logits(
    models: Sequence[torch.nn.Module], data: Any, *, batch_size: int = BATCH_SIZE
) -> torch.Tensor:
    """Return the logits (m, n, k) of a deep ensemble: several trained networks of the same classes.

    data is as for `LastLayer.features`, and must be readable once for each model. A network with one
    output is binary and gives the two logits of a softmax.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import ensemble_logits
    >>> models = [torch.nn.Linear(64, 10) for _ in range(3)]
    >>> ensemble_logits(models, torch.tensor(x[:5], dtype=torch.float32)).shape
    torch.Size([3, 5, 10])
    """
    members = [_logits(unwrap(model), data, batch_size) for model in models]
    if not members or len({member.shape for member in members}) > 1:
        shapes = ", ".join(str(tuple(member.shape)) for member in members) or "none"
        raise EverylabelError(f"models give logits {shapes}; expected at least one model, all alike (n, k)")
    return torch.stack(members)


def dropout_logits(
    model: torch.nn.Module, data: Any, n: int, rng: np.random.Generator, *, batch_size: int = BATCH_SIZE
) -> torch.Tensor:
    """Return the logits of n passes with dropout left on (MC-dropout): (n passes, points, classes).

    All layers except dropout are in evaluation mode. The same rng seed gives the same masks; torch's own
    generator is not changed.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import dropout_logits
    >>> model = torch.nn.Sequential(torch.nn.Dropout(0.2), torch.nn.Linear(64, 10))
    >>> dropout_logits(model, torch.tensor(x[:5], dtype=torch.float32), 20, rng).shape
    torch.Size([20, 5, 10])
    """
    n, rng = check_count(n, "n"), check_rng(rng)
    model = unwrap(model)
    if not _dropouts(model):
        raise EverylabelError("model has no dropout with p above 0; expected torch.nn.Dropout layers in it")
    with torch.random.fork_rng():
        torch.manual_seed(int(rng.integers(2**63)))
        return torch.stack([_logits(model, data, batch_size, dropout=True) for _ in range(n)])


def train_ensemble(
    features: Any, labels: Any, n_classes: int, n: int, rng: np.random.Generator, **recipe: Any
) -> Samples:
    """Return n last layers trained by the paper's recipe from different starts, with equal weights.

    The options are `train_head`'s. `update` reweights the members, `predict_proba` averages them.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import train_ensemble
    >>> features, labels = torch.tensor(x), torch.tensor(y)
    >>> ensemble = train_ensemble(features[:100], labels[:100], 10, n=2, rng=rng, epochs=5)
    >>> ensemble = el.update(ensemble, features[100:101], labels[100:101])  # weighs its members
    """
    n, rng = check_count(n, "n"), check_rng(rng)
    heads = [train_head(features, labels, n_classes, child, **recipe) for child in rng.spawn(n)]
    members = torch.stack(heads)
    log_weights = torch.full((n,), -float(np.log(n)), dtype=torch.float64, device=members.device)
    return Samples(members, log_weights, likelihood="gaussian", bias=True)


def _logits(model: torch.nn.Module, data: Any, batch_size: int, dropout: bool = False) -> torch.Tensor:
    """Return one member's logits (n, k) of all batches."""
    parts = []
    with evaluating(model):  # restores the mode of each module
        for module in _dropouts(model) if dropout else []:
            module.training = True
        for args, kwargs in batches(data, model, batch_size):
            logits = logits_of(model(*args, **kwargs))
            if logits is None:
                raise EverylabelError("the model's output has no logits; expected a tensor or .logits")
            parts.append(logits[:, None] if logits.ndim == 1 else logits)
    if not parts:
        raise EverylabelError("data has no batches; expected at least one instance, readable more than once")
    logits = torch.cat(parts)
    return torch.cat([torch.zeros_like(logits), logits], dim=1) if logits.shape[1] == 1 else logits


def _dropouts(model: torch.nn.Module) -> list[torch.nn.Module]:
    kinds = torch.nn.modules.dropout._DropoutNd
    return [module for module in model.modules() if isinstance(module, kinds) and module.p > 0]
