"""One training of an encoder's upper blocks on labelled items, from stored states.

k classes; f the features of an item, g_c those of the name of class c, both of norm 1; W, b the frozen head.
    loss = CE(W f + b, y) + CE(f'g / TEMPERATURE, y)        CE the cross-entropy, g = (g_1 ... g_k)
The linear layer starts as the head fitted on frozen features. The second term is left out if the labels do
not confirm the class names, because misleading names do harm.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils import parametrize

from everylabel.models.finetuning.encoder import States

TEMPERATURE = 0.1
MANY = 16  # classes above which a third of the blocks is trained, for longer, by names of the batch alone
CLIP = 1.0  # norm of the gradient
Tick = Callable[[float], None]  # called with the share that is done; may raise to stop


class Recipe(NamedTuple):
    """How the blocks are trained; the defaults are the best of the settings that were tried."""

    steps: int | None = None  # by the number of labels
    batch_size: int = 24
    learning_rate: float | None = None  # learning rate of the blocks; None: by the number of labels
    head_rate: float = 1e-3  # learning rate of the linear layer
    weight_decay: float = 0.01
    warm_up: float = 0.1  # share of the steps
    rank: int | None = None  # rank of LoRA (use a learning rate of 2e-3); None trains all weights

    def n_steps(self, n: int, k: int) -> int:
        """Return the number of steps for n labels of k classes."""
        if self.steps is not None:
            return self.steps
        usual = 20 + (n - 200) * 0.08 if k <= MANY else n / 5
        return int(np.clip(usual, 20, 60))

    def rate(self, n: int) -> float:
        """Return the blocks' learning rate for n labels: larger if each label is seen fewer times."""
        return 2e-4 * float(np.clip(n / 64, 1, 2)) if self.learning_rate is None else self.learning_rate


class NameStates(NamedTuple):
    """Positions of the class names' phrases among the states, and the class of each."""

    rows: np.ndarray
    classes: np.ndarray

    def of(self, labels: np.ndarray) -> Self:
        """Return only the phrases of some classes."""
        some = np.isin(self.classes, labels)
        return self._replace(rows=self.rows[some], classes=self.classes[some])


def trained_share(k: int) -> float:
    """Return the share of blocks to train: with few labels per class, fewer blocks overfit less.

    MiniLM: Banking-77 with 308 labels gained 1.6 points with 2 of 6 blocks (-.1 to 3.1 over four draws of
    labels) and 1.5 with 3 (one draw, more overfitted); TREC-6 with 64 labels needs 3, .89 against .82 with 2.
    """
    return 1 / 2 if k <= MANY else 1 / 3


def train_blocks(
    states: States,
    rows: np.ndarray,
    labels: np.ndarray,
    head: tuple[np.ndarray, np.ndarray],
    names: NameStates | None,
    recipe: Recipe,
    seed: int,
    tick: Tick = lambda _: None,
) -> list[float]:
    """Train the encoder's upper blocks in place; return the loss of each step.

    rows, labels : labelled items among the states, their class numbers
    head : weights (d, k) and biases (k,) on frozen features
    """
    encoder, rng = states.encoder, np.random.default_rng(seed)
    weights, bias = (torch.as_tensor(part, dtype=torch.float32, device=encoder.device) for part in head)
    weights, bias = weights.requires_grad_(), bias.requires_grad_()
    steps = recipe.n_steps(len(rows), weights.shape[1])
    warm_up = max(1, int(recipe.warm_up * steps))
    losses = []
    with _training(states, seed), _trained_weights(encoder.upper, recipe.rank) as blocks:
        groups = [
            {"params": blocks, "lr": recipe.rate(len(rows))},
            {"params": [weights, bias], "lr": recipe.head_rate},
        ]
        optimiser = torch.optim.AdamW(groups, weight_decay=recipe.weight_decay, betas=(0.9, 0.98))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warm_up, (steps - step) / max(1, steps - warm_up))
        )
        for step, batch in enumerate(_batches(labels, recipe.batch_size, steps, rng)):
            loss = _loss(states, rows[batch], labels[batch], weights, bias, names)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_([*blocks, weights, bias], CLIP)
            optimiser.step()
            schedule.step()
            losses.append(float(loss.detach()))
            tick((step + 1) / steps)
    return losses


def _loss(
    states: States,
    rows: np.ndarray,
    labels: np.ndarray,
    weights: torch.Tensor,
    bias: torch.Tensor,
    names: NameStates | None,
) -> torch.Tensor:
    """Return the loss of one batch."""
    targets = torch.as_tensor(labels, device=weights.device)
    if names is not None and weights.shape[1] > MANY:
        names = names.of(labels)
    phrases = np.empty(0, np.int64) if names is None else names.rows
    both = states.forward(np.r_[rows, phrases])
    features = both[: len(rows)]
    loss = functional.cross_entropy(features @ weights + bias, targets)
    if names is None or not np.isin(labels, names.classes).any():
        return loss
    named, of = np.unique(names.classes, return_inverse=True)
    sums = torch.zeros(len(named), both.shape[1], device=both.device)
    sums = sums.index_add(0, torch.as_tensor(of, device=both.device), both[len(rows) :])
    has_name = np.isin(labels, named)
    to = torch.as_tensor(np.searchsorted(named, labels[has_name]), device=both.device)
    nearness = functional.normalize(features[has_name]) @ functional.normalize(sums).T
    return loss + functional.cross_entropy(nearness / TEMPERATURE, to)


def _batches(labels: np.ndarray, size: int, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield `steps` batches: all labels in random order, repeatedly."""
    size = min(size, len(labels))
    order = np.concatenate([rng.permutation(len(labels)) for _ in range(size * steps // len(labels) + 1)])
    for step in range(steps):
        yield order[step * size : (step + 1) * size]


@contextmanager
def _training(states: States, seed: int) -> Iterator[None]:
    """Train the upper blocks with dropout from a seed; restore torch's generator afterwards."""
    encoder = states.encoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder.model.eval()
        encoder.upper.train()
        try:
            yield
        finally:
            encoder.model.eval()


class _LowRank(torch.nn.Module):
    """A weight matrix plus the product of two thin ones, the first starting at 0: LoRA (Hu et al. 2021)."""

    def __init__(self, weight: torch.Tensor, rank: int) -> None:
        super().__init__()
        out, into = weight.shape
        self.up = torch.nn.Parameter(weight.new_zeros(out, rank))
        self.down = torch.nn.Parameter(torch.randn(rank, into).to(weight) / into**0.5)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.up @ self.down


@contextmanager
def _trained_weights(blocks: torch.nn.Module, rank: int | None) -> Iterator[list[torch.nn.Parameter]]:
    """Yield the weights to train: all, or thin matrices beside the linear layers, merged afterwards."""
    if rank is None:
        yield list(blocks.parameters())
        return
    linear = [part for part in blocks.modules() if isinstance(part, torch.nn.Linear)]
    thin = [_LowRank(part.weight, rank) for part in linear]
    for part, added in zip(linear, thin, strict=True):
        parametrize.register_parametrization(part, "weight", added)
    try:
        yield [weight for added in thin for weight in added.parameters()]
    finally:
        for part in linear:
            parametrize.remove_parametrizations(part, "weight")
