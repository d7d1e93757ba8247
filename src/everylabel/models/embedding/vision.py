"""Images by a transformers vision model: its class token, as the paper does with DINOv2-ViT-S/14."""

from functools import cached_property
from typing import Any

import numpy as np

from everylabel.core.errors import need
from everylabel.models.embedding.backend import load_transformers
from everylabel.models.embedding.images import ImageNetwork, pooled

DEFAULT = "facebook/dinov2-small"


class Vision(ImageNetwork):
    """A transformers vision model with its processor, by local folder or hub name."""

    form = "vision"

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """Return processor and model."""
        return load_transformers(self, "AutoImageProcessor", "image", "model='pixels' (--model pixels)")

    def encode_batch(self, images: list[Any]) -> np.ndarray:
        processor, model = self.parts
        torch = need("torch", "image", "embedding images")
        inputs = processor(images, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            output = model(**inputs).last_hidden_state
        return pooled(output.float().cpu().numpy())
