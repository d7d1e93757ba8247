"""Images by any ONNX file that takes (n, 3, h, w) or (n, h, w, 3); pixels normalised as ImageNet's."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.models.embedding.hub import cannot_load
from everylabel.models.embedding.images import IMAGENET, ImageNetwork, pixels, pooled


@dataclass
class Onnx(ImageNetwork):
    """An ONNX file, run by onnxruntime; its first output is taken."""

    form = "onnx"

    def __post_init__(self) -> None:
        library = need("onnxruntime", "onnx", "embedding by an ONNX file")
        try:
            self.session = library.InferenceSession(self.name, providers=library.get_available_providers())
        except Exception as error:  # onnxruntime has an error class for each cause
            raise cannot_load(self.name, error, "model='pixels' (--model pixels)") from error
        self.input = self.session.get_inputs()[0]
        shape = self.input.shape
        if len(shape) != 4 or 3 not in (shape[1], shape[3]):
            raise EverylabelError(
                f"model {self.name!r} takes {shape}; expected images: (n, 3, h, w) or (n, h, w, 3)"
            )
        self.channels_last = shape[1] != 3
        sides = shape[1:3] if self.channels_last else shape[2:4]
        height, width = (side if isinstance(side, int) else 224 for side in sides)
        self.size = height, width
        self.fixed = shape[0] if isinstance(shape[0], int) else 0  # some files fix the batch size
        self.batch_size = self.fixed or self.batch_size

    def encode_batch(self, images: list[Any]) -> np.ndarray:
        filled = images + [images[-1]] * (self.fixed - len(images))
        inputs = pixels(filled, self.size, *IMAGENET)
        if self.channels_last:
            inputs = np.ascontiguousarray(inputs.transpose(0, 2, 3, 1))
        output = self.session.run(None, {self.input.name: inputs})[0]
        return pooled(np.asarray(output))[: len(images)]
