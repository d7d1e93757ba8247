"""Forward passes through a user's network: batches, wrappers, outputs and training mode.

The input may be a tensor, a dict of tensors (Hugging Face), a pair (inputs, labels), a dataset or a loader of
any of these; the output are batches the model can be called with, without labels.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from everylabel.core.errors import EverylabelError

LABEL_KEYS = ("labels", "label", "label_ids")
BATCH_SIZE = 256


class ModelInput(NamedTuple):
    """The arguments of one call of the model."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def unwrap(model: torch.nn.Module) -> torch.nn.Module:
    """Return the network inside torch.compile, DataParallel and DistributedDataParallel.

    It shares its weights with the wrapped one; hooks work on it with any wrapper.
    """
    while True:
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Context manager: no gradients, evaluation mode; afterwards each module's mode is restored."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def batches(data: Any, model: torch.nn.Module, batch_size: int = BATCH_SIZE) -> Iterator[ModelInput]:
    """Yield batches on the model's device from any supported kind of data."""
    place = next(model.parameters(), torch.empty(0))
    for batch in _split(data, batch_size):
        yield _model_input(batch, place)


def logits_of(output: Any) -> torch.Tensor | None:
    """Return the logits in a model's output: a tensor, a tuple that starts with one, or `.logits`."""
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if isinstance(output, torch.Tensor) else None


def tensors_of(output: Any) -> list[torch.Tensor]:
    """Return all tensors in a model's output: the output itself, or those in nested tuples and dicts."""
    if isinstance(output, torch.Tensor):
        return [output]
    parts = output.values() if isinstance(output, Mapping) else output
    if not isinstance(output, (Mapping, tuple, list)):
        parts = vars(output).values() if hasattr(output, "__dict__") else ()
        return [part for part in parts if isinstance(part, torch.Tensor)]
    return [tensor for part in parts for tensor in tensors_of(part)]


def count(data: Any) -> int:
    """Return the number of instances (of the inputs, in a pair), or 0 if it is unknown beforehand."""
    if isinstance(data, (tuple, Mapping)):
        return count(next(iter(data.values() if isinstance(data, Mapping) else data), ()))
    known = getattr(data, "dataset", data)  # a loader's length is its number of batches
    return 0 if isinstance(known, list) or not hasattr(known, "__len__") else len(known)


def _split(data: Any, size: int) -> Iterable[Any]:
    """Return an iterable of batches; tensors, dicts of tensors and datasets are split."""
    if isinstance(data, torch.utils.data.Dataset) and hasattr(data, "__len__"):
        return torch.utils.data.DataLoader(data, batch_size=size)
    if isinstance(data, (torch.Tensor, np.ndarray)):
        return (data[first : first + size] for first in range(0, len(data), size))
    if isinstance(data, Mapping):
        n = len(next(iter(data.values()), ()))
        return ({key: data[key][at : at + size] for key in data} for at in range(0, n, size))
    if isinstance(data, tuple):
        if len(data) != 2:
            raise EverylabelError(
                f"data is a tuple of {len(data)}; expected (inputs, labels), or a loader that yields batches"
            )
        try:
            inputs, labels = data[0], torch.as_tensor(data[1])
        except (TypeError, ValueError) as error:
            raise EverylabelError(
                f"labels in data are no numbers ({error}); expected class numbers"
            ) from error
        n = count(inputs)
        if n and len(labels) != n:
            raise EverylabelError(f"data has {n} inputs and {len(labels)} labels; expected the same number")
        return _split(inputs, size)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return data
    raise EverylabelError(
        f"data is a {type(data).__name__}; expected a tensor, a dict of tensors, (inputs, labels), "
        "a dataset or a loader"
    )


def _model_input(batch: Any, place: torch.Tensor) -> ModelInput:
    """Return the inputs of a batch: all but the last of several (the labels), and no labels of a mapping."""
    inputs = batch if isinstance(batch, (tuple, list)) else [batch]
    inputs = inputs[:-1] if len(inputs) > 1 else inputs
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        named = {key: _to(value, place) for key, value in inputs[0].items() if key not in LABEL_KEYS}
        return ModelInput((), named)
    return ModelInput(tuple(_to(value, place) for value in inputs), {})


def _to(value: Any, place: torch.Tensor) -> Any:
    """Move a value to the device of the model's weights; NumPy floats also take the weights' precision."""
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(value)
        fractions = value.is_floating_point() and place.is_floating_point()  # weights may be quantised
        value = value.to(place.dtype) if fractions else value
    return value.to(place.device, non_blocking=True) if isinstance(value, torch.Tensor) else value
