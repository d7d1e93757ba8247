"""Images by a timm model: "timm:resnet18" and the like, its pooled features before the classifier."""

from functools import cached_property
from typing import Any

import numpy as np

from everylabel.core.errors import need
from everylabel.models.embedding.backend import on_device
from everylabel.models.embedding.hub import cannot_load
from everylabel.models.embedding.images import IMAGENET, ImageNetwork, pixels, pooled


class Timm(ImageNetwork):
    """A timm model without its classifier; size, mean and deviation as it was trained with."""

    form = "timm"

    @cached_property
    def model(self) -> Any:
        library = need("timm", "timm", "embedding by a timm model")
        try:
            return on_device(library.create_model(self.name, pretrained=True, num_classes=0), self.device)
        except (OSError, ValueError, RuntimeError) as error:
            raise cannot_load(self.name, error, "model='pixels' (--model pixels)") from error

    def encode_batch(self, images: list[Any]) -> np.ndarray:
        trained = self.model.pretrained_cfg
        torch = need("torch", "timm", "embedding by a timm model")
        _, height, width = trained.get("input_size", (3, 224, 224))
        scale = trained.get("mean", IMAGENET[0]), trained.get("std", IMAGENET[1])
        inputs = torch.from_numpy(pixels(images, (height, width), *scale))
        with torch.inference_mode():
            output = self.model(inputs.to(next(self.model.parameters()).device))
        return pooled(output.float().cpu().numpy())
