"""A fine-tuned encoder with its head as one network, traced for ONNX."""

from copy import deepcopy
from typing import IO

import numpy as np
import torch

from everylabel.models.finetuning.encoder import TunedEncoder

INPUTS = {"text": ["input_ids", "attention_mask"], "image": ["pixel_values"]}
EXAMPLES = ["a text of some words", "a"]  # two lengths, so that the mask matters


class EncoderWithHead(torch.nn.Module):
    """Inputs of the encoder in, the most probable class and probabilities out.

    The encoders before and after fine-tuning share all weights except those of the tuned blocks. The graph
    shares them, too, and ONNX Runtime computes the common part once.
    """

    def __init__(self, tuned: TunedEncoder, weights: np.ndarray, bias: np.ndarray) -> None:
        super().__init__()
        encoder = tuned.encoder
        own = {id(value) for value in encoder.upper.parameters()}
        shared = {id(value): value for value in encoder.model.parameters() if id(value) not in own}
        self.kind, self.encoders = encoder.kind, []
        for blocks in [tuned.frozen, tuned.tuned] if tuned.trusted else [tuned.frozen]:
            self.encoders.append(deepcopy(encoder, dict(shared)))
            self.encoders[-1].set_weights(blocks)
        self.models = torch.nn.ModuleList(each.model for each in self.encoders)
        self.weights, self.bias = (
            torch.nn.Parameter(torch.as_tensor(part, dtype=torch.float32, device=encoder.device))
            for part in (weights, bias)
        )

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return class numbers (n,) and probabilities (n, k)."""
        given = dict(zip(INPUTS[self.kind], inputs, strict=True))
        logits = torch.cat([each.outputs(given) for each in self.encoders], dim=1) @ self.weights + self.bias
        return logits.argmax(dim=1), torch.softmax(logits, dim=1)


def trace(tuned: TunedEncoder, weights: np.ndarray, bias: np.ndarray, file: IO[bytes], opset: int) -> None:
    """Write the graph of an encoder with its head."""
    kind = tuned.encoder.kind
    if kind == "text":
        example = tuned.encoder.inputs(EXAMPLES)
        free: dict[int, str] = {0: "n", 1: "tokens"}
    else:
        example = tuned.encoder.inputs([np.zeros((64, 64, 3), np.uint8)] * 2)
        free = {0: "n"}
    names = INPUTS[kind]
    torch.onnx.export(
        EncoderWithHead(tuned, weights, bias).eval(),
        tuple(example[name] for name in names),
        file,  # type: ignore[arg-type]
        input_names=names,
        output_names=["label", "probabilities"],
        dynamic_axes={**dict.fromkeys(names, free), "probabilities": {0: "n"}, "label": {0: "n"}},
        opset_version=opset,
        dynamo=False,  # the other exporter needs onnxscript
    )
