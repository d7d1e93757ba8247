"""`train_with`: functions for `ActiveLearner(train=...)` that train with another library."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, need
from everylabel.models.active_learner import Labelled, Train, batch_loss, train_network
from everylabel.models.last_layer import LastLayer


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


def _skorch(model: torch.nn.Module, labelled: Labelled, how: Settings) -> torch.nn.Module:
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


def _transformers(model: torch.nn.Module, labelled: Labelled, how: Settings) -> torch.nn.Module:
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


def _lightning(model: torch.nn.Module, labelled: Labelled, how: Settings) -> torch.nn.Module:
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


def _lora(model: torch.nn.Module, labelled: Labelled, how: Settings) -> torch.nn.Module:
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
