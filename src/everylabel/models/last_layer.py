"""`LastLayer`: the posterior of any network's last linear layer, and writing it back into the network.

n points, d features, k outputs.
    layer  logits = features W' + b        W (k, d), b (k,) or none: torch.nn.Linear
    mean   (d+1, k) = [W'; b]              (d, k) without a bias
The features are the layer's inputs, read by a hook in one pass without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from everylabel.core import Posterior, laplace
from everylabel.core.errors import EverylabelError
from everylabel.models.forward import (
    BATCH_SIZE,
    batches,
    evaluating,
    logits_of,
    tensors_of,
    unwrap,
)


class LastLayer:
    """The last linear layer of a network, as features and as weights.

    Parameters
    ----------
    model : torch.nn.Module
        Any network that ends in a `torch.nn.Linear`: also compiled, parallel, Lightning,
        timm or Hugging Face ones. Its training mode is restored afterwards.
    layer : str or torch.nn.Linear, optional
        The layer's name ("classifier.out_proj") or the layer itself. None takes the last linear layer, and
        the first pass checks that its output is the model's. For a given layer it checks that no other
        linear layer runs after it, unless the layer's output is among the model's.

    Examples
    --------
    >>> import torch
    >>> from everylabel.torch import LastLayer
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    >>> images, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    >>> head = LastLayer(model)
    >>> post = head.laplace((images[:100], labels[:100]))
    >>> post = el.update(post, head.features(images[100:101]), labels[100:101])
    >>> head.write(post)  # model(images) predicts with the updated weights now
    """

    def __init__(self, model: torch.nn.Module, layer: str | torch.nn.Linear | None = None) -> None:
        if not isinstance(model, torch.nn.Module):
            raise EverylabelError(f"model is a {type(model).__name__}; expected a torch.nn.Module")
        self.model = unwrap(model)
        self.name, self.layer = _find(self.model, layer)
        self._asked_for = layer is not None
        self._checked = False  # whether the layer is known to be linear and its output the model's
        _check_layer(self.name, self.layer)
        _check_alone(self.model, self.name, self.layer)

    def __repr__(self) -> str:
        return (
            f"LastLayer({self.name!r}, {self.layer.in_features} features, {self.layer.out_features} outputs)"
        )

    def features(self, data: Any, *, batch_size: int = BATCH_SIZE) -> torch.Tensor:
        """Return the features (n, d) of inputs, on the model's device and in its precision.

        data is a tensor, a dict of tensors, a dataset or a loader; labels in it are ignored.
        """
        features: list[torch.Tensor] = []
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []  # input and output of the layer in one batch
        later: list[str] = []  # other linear layers, run after this one in the first batch

        def remember(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor) -> None:
            seen.append((args[0] if args else kwargs["input"], output))

        def note(name: str) -> Callable[..., None]:
            return lambda *_: later.append(name) if seen else None

        hooks = [self.layer.register_forward_hook(remember, with_kwargs=True)]
        if not self._checked:
            others = _linear_layers(self.model).items()
            hooks += [part.register_forward_hook(note(name)) for name, part in others if name != self.name]
        try:
            with evaluating(self.model):
                for args, kwargs in batches(data, self.model, batch_size):
                    seen.clear()
                    output = self.model(*args, **kwargs)
                    rows, logits = self._rows(seen, logits_of(output))
                    self._check_output(rows, logits, output, later)
                    features.append(rows)
        finally:
            for hook in hooks:
                hook.remove()
        if not features:
            raise EverylabelError("data has no batches; expected at least one instance")
        return torch.cat(features)

    def mean(self) -> torch.Tensor:
        """Return the layer's weights (d+1, k) in float64, the bias in the last row; (d, k) without."""
        rows = [self.layer.weight.detach().T]
        if self.layer.bias is not None:
            rows.append(self.layer.bias.detach()[None])
        return torch.cat(rows).double()

    def laplace(
        self,
        data: Any,
        likelihood: str | None = None,
        prior_precision: float = 1.0,
        *,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> Posterior:
        """Return the posterior of the trained layer on its training data (Eq. 3), in one pass.

        data is the training data of the model: a loader, a dataset, or (inputs, labels).
        likelihood is "gaussian" unless the layer has one output: then it is "binary".
        Further options are those of `everylabel.laplace`: classes, and labels and weights in the order of
        data, so that a loader must not shuffle.
        """
        in_order = [name for name in ("labels", "weights") if options.get(name) is not None]
        if in_order and isinstance(getattr(data, "sampler", None), torch.utils.data.RandomSampler):
            raise EverylabelError(
                f"data is a loader that shuffles, and {in_order[0]} is in the order of the rows; expected a "
                "loader with shuffle=False"
            )
        one = self.layer.out_features == 1
        likelihood = likelihood or ("binary" if one else "gaussian")
        if one and likelihood != "binary":
            raise EverylabelError(
                f"likelihood is {likelihood!r} and layer {self.name!r} has one output; expected 'binary'"
            )
        features = self.features(data, batch_size=batch_size)
        return laplace(self.mean(), features, likelihood, prior_precision, **options)

    def write(self, posterior: Posterior) -> None:
        """Write the posterior's mean into the network: model(x) then predicts with it.

        The layer keeps its precision and device. A binary posterior of a layer with two outputs
        moves both, by half of the change each.
        """
        mean = torch.as_tensor(posterior.mean).to(self.layer.weight.device)
        k, d, has_bias = self.layer.out_features, self.layer.in_features, self.layer.bias is not None
        if posterior.likelihood == "binary" and k == 2:
            middle = self.mean().mean(dim=1, keepdim=True)
            mean = (
                torch.cat([middle - mean / 2, middle + mean / 2], dim=1) if len(mean) == len(middle) else mean
            )
        if tuple(mean.shape) != (d + has_bias, k) or posterior.bias != has_bias:
            raise EverylabelError(
                f"posterior has {posterior.n_features} features, {posterior.n_classes} classes and "
                f"bias={posterior.bias}; layer {self.name!r} takes {d} features, gives {k} output(s) and has "
                f"bias={has_bias}: expected a posterior made from this layer"
            )
        weights = mean.to(self.layer.weight.dtype)
        if not bool(torch.isfinite(weights).all()):
            raise EverylabelError(
                f"posterior's mean is not finite in the layer's {weights.dtype}; nothing was written: "
                "keep the layer in float32"
            )
        with torch.no_grad():
            self.layer.weight.copy_(weights[:d].T)
            if self.layer.bias is not None:
                self.layer.bias.copy_(weights[d])

    def _rows(
        self, seen: list[tuple[torch.Tensor, torch.Tensor]], output: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one row of features per instance, and the layer's output, from the hook's records."""
        if not seen:
            raise EverylabelError(f"layer {self.name!r} was not run by the model; {_pass_one(self.model)}")
        if len(seen) > 1:
            raise EverylabelError(
                f"layer {self.name!r} is run {len(seen)} times in one pass; expected one run once, at the end"
            )
        features, logits = seen[0]
        if features.ndim == 3 and output is not None and output.ndim == 2:
            # a head on every token, from which the model picks one: take that token's features
            picked = (logits == output[:, None, :]).all(dim=2)
            if not bool(picked.any(dim=1).all()):
                raise EverylabelError(
                    f"the model's output is of none of the tokens that layer {self.name!r} is given; "
                    "expected a head on one token, or on features averaged before it"
                )
            at = picked.int().argmax(dim=1)
            rows = torch.arange(len(at), device=at.device)
            features, logits = features[rows, at], logits[rows, at]
        if features.ndim != 2:
            raise EverylabelError(
                f"layer {self.name!r} is given shape {tuple(features.shape)}; expected (n, d), "
                "one row per instance"
            )
        return features, logits

    def _check_output(
        self, features: torch.Tensor, logits: torch.Tensor, given: Any, later: list[str]
    ) -> None:
        """Raise after the first batch if this is not the last layer, or not a plain linear one."""
        if self._checked:
            return
        if not self._asked_for and not _same(logits, logits_of(given)):
            raise EverylabelError(
                f"the model's output is not that of layer {self.name!r}; {_pass_one(self.model)}"
            )
        if later and not any(_same(logits, output) for output in tensors_of(given)):
            raise EverylabelError(
                f"layer is {self.name!r}, after which the model runs {later[-1]!r}, and its output is not "
                f"the model's; {_pass_one(self.model)}"
            )
        if not _is_linear(self.layer, features, logits):
            raise EverylabelError(
                f"layer {self.name!r} does not compute weights times input plus bias (or its input is "
                "changed afterwards); expected a plain torch.nn.Linear"
            )
        self._checked = True


def _find(model: torch.nn.Module, layer: str | torch.nn.Linear | None) -> tuple[str, torch.nn.Linear]:
    """Return the requested layer, or the last linear one if it is unambiguous."""
    linear = _linear_layers(model)
    if layer is not None:
        for name, module in linear.items():
            if layer is module or layer == name:
                return name, module
        raise EverylabelError(f"layer is {layer!r}, no linear layer of the model; {_pass_one(model)}")
    if not linear:
        raise EverylabelError(
            "model has no torch.nn.Linear; expected a network that ends in one (after embedding, use "
            "fit_map and laplace on the features)"
        )
    name, last = list(linear.items())[-1]
    parent = name.rpartition(".")[0]
    rivals = [
        other
        for other, module in linear.items()
        if other.rpartition(".")[0] == parent
        and module.in_features == last.in_features != module.out_features  # parallel, not one after the other
    ]
    in_a_row = isinstance(model.get_submodule(parent), torch.nn.Sequential)
    if len(rivals) > 1 and not in_a_row and last.in_features != last.out_features:
        raise EverylabelError(f"model has several last layers: {', '.join(rivals)}; {_pass_one(model)}")
    return name, last


def _linear_layers(model: torch.nn.Module) -> dict[str, torch.nn.Linear]:
    return {name: part for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}


def _pass_one(model: torch.nn.Module) -> str:
    """Return a hint that lists the linear layers, the last ones first."""
    named = [f"{n!r} ({m.in_features} to {m.out_features})" for n, m in _linear_layers(model).items()]
    shown = ", ".join(named[::-1][:10]) + (", ..." if len(named) > 10 else "")
    return f"expected layer= one of {shown}"


def _check_layer(name: str, layer: torch.nn.Linear) -> None:
    if torch.nn.parameter.is_lazy(layer.weight):
        raise EverylabelError(f"layer {name!r} has no weights yet; run one batch through the model first")
    if "weight" not in layer._parameters or torch.nn.utils.parametrize.is_parametrized(layer):
        raise EverylabelError(
            f"layer {name!r} is parametrised, so that weights cannot be written into it; "
            "call torch.nn.utils.parametrize.remove_parametrizations (or remove_weight_norm, "
            "remove_spectral_norm) first"
        )


def _check_alone(model: torch.nn.Module, name: str, layer: torch.nn.Linear) -> None:
    """Raise if another layer shares the weights: writing them would change the features too."""
    owners = [
        other
        for other, weights in model.named_parameters(remove_duplicate=False)
        if weights is layer.weight or weights is layer.bias
    ]
    if len(owners) > (1 if layer.bias is None else 2):
        raise EverylabelError(
            f"layer {name!r} shares its weights ({', '.join(owners)}); expected one with weights of its own"
        )


def _is_linear(layer: torch.nn.Linear, features: torch.Tensor, logits: torch.Tensor) -> bool:
    given = torch.nn.functional.linear(features.to(layer.weight.dtype), layer.weight, layer.bias)
    return torch.allclose(given.float(), logits.float(), rtol=1e-2, atol=1e-2, equal_nan=True)


def _same(logits: torch.Tensor, output: torch.Tensor | None) -> bool:
    """Return whether a model's output equals these logits or their probabilities."""
    if output is None or output.numel() != logits.numel():
        return False
    given, logits = output.detach().reshape(logits.shape).float(), logits.float()
    known = (logits, logits.softmax(1), logits.log_softmax(1), logits.sigmoid())
    return any(torch.allclose(given, value, rtol=1e-2, atol=1e-3, equal_nan=True) for value in known)
