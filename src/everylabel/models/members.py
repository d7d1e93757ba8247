"""The MC-based networks of the paper (App. A.1): deep ensembles and MC-dropout.

m members, n points, k classes. Their logits (m, n, k) go into `everylabel.reweight` and
`everylabel.mix`; an ensemble of last layers is `Samples`, which `update` and `predict_proba` take.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from everylabel.core import Samples
from everylabel.core.checks import check_count, check_rng
from everylabel.core.errors import EverylabelError
from everylabel.models.forward import BATCH_SIZE, batches, evaluating, logits_of, unwrap
from everylabel.models.recipe import train_head


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
        for batch in batches(data, model, batch_size):
            logits = logits_of(model(*batch.args, **batch.kwargs))
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
