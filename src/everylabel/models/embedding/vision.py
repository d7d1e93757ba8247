"""Images by a transformers vision model: its class token, as the paper does with DINOv2-ViT-S/14."""

from functools import cached_property
from typing import Any

import numpy as np

from everylabel.core.errors import need
from everylabel.models.embedding.backend import cannot_load, model_key, on_device, quiet
from everylabel.models.embedding.images import encode_in_batches, pooled

DEFAULT = "facebook/dinov2-small"


class Vision:
    """A transformers vision model with its processor, by local folder or hub name."""

    chunk = 256

    def __init__(self, model: str, batch_size: int, device: str | None) -> None:
        self.name, self.batch_size, self.device = model, batch_size, device
        self.key = f"vision {model_key(model)}"

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """Return processor and model."""
        library = need("transformers", "image", "embedding images")
        try:
            with quiet():
                model = library.AutoModel.from_pretrained(self.name)
                return library.AutoImageProcessor.from_pretrained(self.name), on_device(model, self.device)
        except (OSError, ValueError) as error:
            raise cannot_load(self.name, error, "model='pixels'") from error

    def encode(self, items: Any) -> np.ndarray:
        return encode_in_batches(items, self._batch, self.batch_size)

    def _batch(self, images: list[Any]) -> np.ndarray:
        processor, model = self.parts
        torch = need("torch", "image", "embedding images")
        inputs = processor(images, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            output = model(**inputs).last_hidden_state
        return pooled(output.float().cpu().numpy())
