"""Functions that train a whole network on labelled items: `train_network` by the paper's recipe, `train_with`
with another library.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, need
from everylabel.models.forward import logits_of
from everylabel.models.last_layer import LastLayer

Train = Callable[[torch.nn.Module, "LabelledItems"], torch.nn.Module | None]


class LabelledItems(torch.utils.data.Dataset):
    """Labelled items of a pool as a dataset of (input, label); dicts hold the label under "labels"."""

    def __init__(self, pool: Any, idx: np.ndarray, labels: np.ndarray) -> None:
        self.pool, self.idx = pool, idx
        self.labels = torch.as_tensor(labels, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.idx)

    def __getitem__(self, at: int) -> Any:
        i = int(self.idx[at])
        if isinstance(self.pool, Mapping):
            return {**{key: value[i] for key, value in self.pool.items()}, "labels": self.labels[at]}
        item = self.pool[i]
        if isinstance(item, (tuple, list)):  # a user's dataset: its own labels are ignored
            item = item[0]
        return torch.as_tensor(item) if isinstance(item, np.ndarray) else item, self.labels[at]


def train_network(
    model: torch.nn.Module,
    labelled: torch.utils.data.Dataset,
    *,
    layers: str = "all",
    epochs: int = 200,
    learning_rate: float = 0.01,
    batch_size: int = 64,
    weight_decay: float = 1e-4,
) -> torch.nn.Module:
    """Train a network by the paper's recipe (RAdam, 200 epochs, batches of 64, cosine), and return it.

    Parameters
    ----------
    model, labelled
        As `ActiveLearner` passes them: a network that returns logits, a dataset of (input, label).
    layers : {"all", "last"}
        Train the whole network, or only its last linear layer on frozen features.
    epochs, learning_rate, batch_size, weight_decay
        The paper's values for a last layer; whole networks often need a learning rate of 0.001.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import train_network
    >>> inputs, targets = torch.tensor(x[:200], dtype=torch.float32), torch.tensor(y[:200])
    >>> data = torch.utils.data.TensorDataset(inputs, targets)
    >>> model = train_network(torch.nn.Linear(64, 10), data, epochs=100)
    >>> bool((model(inputs).argmax(1) == targets).float().mean() > 0.8)
    True
    """
    check_choice(layers, "layers", ["all", "last"])
    parameters = list(model.parameters() if layers == "all" else LastLayer(model).layer.parameters())
    place = parameters[0].device
    optimiser = torch.optim.RAdam(parameters, lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)
    loader = torch.utils.data.DataLoader(labelled, batch_size=batch_size, shuffle=True)
    model.train(layers == "all")
    for _ in range(epochs):
        for batch in loader:
            optimiser.zero_grad()
            batch_loss(model, batch, place).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        schedule.step()
    return model.eval()


def batch_loss(model: torch.nn.Module, batch: Any, place: torch.device) -> torch.Tensor:
    """Return the cross-entropy of one batch: a mapping with "labels", or (inputs, labels)."""
    if isinstance(batch, Mapping):
        labels = batch["labels"]
        output = model(**{key: value.to(place) for key, value in batch.items() if key != "labels"})
    else:
        inputs, labels = batch
        output = model(inputs.to(place))
    logits = logits_of(output)
    if logits is None:
        raise EverylabelError(f"model returns a {type(output).__name__}; expected logits (n, k)")
    return torch.nn.functional.cross_entropy(logits.float(), labels.to(place))


class Settings(NamedTuple):
    """Training settings; `options` are passed to the library."""

    epochs: int
    learning_rate: float
    batch_size: int
    options: dict[str, Any]


def train_with(
    library: str,
    *,
    epochs: int = 20,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    **options: Any,
) -> Train:
    """Return a function train(model, labelled) -> model that trains the whole network with a library.

    Parameters
    ----------
    library : {"skorch", "transformers", "lightning", "lora"}
        skorch's NeuralNetClassifier (Adam), Hugging Face's Trainer (for a pool that is a dict of tensors),
        Lightning's Trainer (Adam), or LoRA by peft: low-rank matrices beside the linear layers are trained
        with the last layer by `train_network` and merged afterwards, so the network's structure stays the
        same. The library must be installed.
    epochs, learning_rate, batch_size
        Settings of the training.
    options
        Passed to NeuralNetClassifier, TrainingArguments, lightning.Trainer, or peft.LoraConfig (r, ...).

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import ActiveLearner, train_with
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    >>> pool = torch.tensor(x[:500], dtype=torch.float32)
    >>> learner = ActiveLearner(model, pool, train=train_with("skorch", epochs=5))
    >>> for batch in learner.rounds(n=1, batch_size=10):
    ...     for i in batch:
    ...         batch.label(i, y[i])
    >>> len(learner.history)
    1
    """
    check_choice(library, "library", list(TRAINERS))
    return partial(TRAINERS[library], how=Settings(epochs, learning_rate, batch_size, options))


def _skorch(model: torch.nn.Module, labelled: LabelledItems, how: Settings) -> torch.nn.Module:
    net = need("skorch", None, "training").NeuralNetClassifier(
        model,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        max_epochs=how.epochs,
        lr=how.learning_rate,
        batch_size=how.batch_size,
        device=next(model.parameters()).device.type,
        **{"train_split": None, "verbose": 0, "iterator_train__shuffle": True, **how.options},
    )
    trained: torch.nn.Module = net.fit(labelled, y=None).module_
    return trained.eval()


def _transformers(model: torch.nn.Module, labelled: LabelledItems, how: Settings) -> torch.nn.Module:
    transformers = need("transformers", None, "training")
    need("accelerate", None, "training")  # its Trainer needs it, and would say so only late
    place = next(model.parameters()).device
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            num_train_epochs=how.epochs,
            learning_rate=how.learning_rate,
            per_device_train_batch_size=how.batch_size,
            seed=int(torch.initial_seed() % 2**31),  # the learner's seed
            use_cpu=place.type == "cpu",
            **{"save_strategy": "no", "report_to": "none", "disable_tqdm": True, **how.options},
        )
        transformers.Trainer(model, arguments, train_dataset=labelled).train()
    return model.to(place).eval()


def _lightning(model: torch.nn.Module, labelled: LabelledItems, how: Settings) -> torch.nn.Module:
    lightning = need("lightning", None, "training")
    place = next(model.parameters()).device

    class Module(lightning.LightningModule):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return batch_loss(self.network, batch, self.device)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=how.learning_rate)

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = lightning.Trainer(
        max_epochs=how.epochs, **{"accelerator": place.type, **dict.fromkeys(quiet, False), **how.options}
    )
    loader = torch.utils.data.DataLoader(labelled, batch_size=how.batch_size, shuffle=True)
    trainer.fit(Module(), loader)
    return model.to(place).eval()


def _lora(model: torch.nn.Module, labelled: LabelledItems, how: Settings) -> torch.nn.Module:
    peft, last = need("peft", None, "training"), LastLayer(model).name
    linear = [
        name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear) and name != last
    ]
    if not linear:
        raise EverylabelError("model has no linear layer below the last; expected some, for LoRA")
    config = peft.LoraConfig(**{"target_modules": linear, "modules_to_save": [last], **how.options})
    adapted = peft.get_peft_model(model, config)
    train_network(
        adapted, labelled, epochs=how.epochs, learning_rate=how.learning_rate, batch_size=how.batch_size
    )
    merged: torch.nn.Module = adapted.merge_and_unload()
    return merged.requires_grad_(True).eval()


TRAINERS: dict[str, Callable[..., torch.nn.Module]] = {
    "skorch": _skorch,
    "transformers": _transformers,
    "lightning": _lightning,
    "lora": _lora,
}
