"""Encoders of images: a transformers vision model, a timm model, an ONNX file, or pixels without any model.

Vision   the class token, as the paper does with DINOv2-ViT-S/14
Timm     "timm:resnet18" and the like: the pooled features before the classifier
Onnx     a file that takes (n, 3, h, w) or (n, h, w, 3); pixels normalised like ImageNet's
Pixels   h = (x - center) V^T    with x (n, 3072) the pixels at 32 x 32 and V the leading directions of
                                 the sample (PCA)
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.data.media import image_bytes, open_image
from everylabel.models.embedding.backend import PretrainedNetwork, load_transformers, on_device
from everylabel.models.embedding.hub import cannot_load

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNetwork(PretrainedNetwork):
    """A network that takes images, a batch at a time."""

    chunk = 256

    def encode(self, items: Any) -> np.ndarray:
        return encode_in_batches(items, self.encode_batch, self.batch_size)

    def encode_batch(self, images: list[Any]) -> np.ndarray:
        """Return features of opened images."""
        raise NotImplementedError


def encode_in_batches(items: Any, encode: Callable[[list[Any]], np.ndarray], batch_size: int) -> np.ndarray:
    """Open and encode images batch by batch; a row of NaN for each that cannot be opened."""
    parts: list[tuple[np.ndarray, np.ndarray | None]] = []
    for at in range(0, len(items), batch_size):
        images = [open_image(item) for item in items[at : at + batch_size]]
        good = np.array([image is not None for image in images])
        parts.append((good, encode([image for image in images if image is not None]) if good.any() else None))
    d = next((rows.shape[1] for _, rows in parts if rows is not None), 0)
    features = np.full((len(items), d), np.nan, dtype=np.float32)
    at = 0
    for good, rows in parts:
        if rows is not None:
            features[at + np.flatnonzero(good)] = rows
        at += len(good)
    return features


def pixels(images: list[Any], size: tuple[int, int], mean: Any, std: Any) -> np.ndarray:
    """Return (n, 3, h, w) scaled pixels: the shorter side resized, the centre cut out, normalised."""
    height, width = size
    rows = []
    for image in images:
        scale = max(height / image.height, width / image.width)
        scaled = image.resize(
            (max(width, round(image.width * scale)), max(height, round(image.height * scale)))
        )
        left, top = (scaled.width - width) // 2, (scaled.height - height) // 2
        rows.append(np.asarray(scaled.crop((left, top, left + width, top + height)), dtype=np.float32))
    array = (np.stack(rows) / 255.0 - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def pooled(output: np.ndarray) -> np.ndarray:
    """Return (n, d): the class token of (n, t, d), the mean over the pixels of (n, d, h, w)."""
    if output.ndim == 4:
        output = output.mean(axis=(2, 3))
    elif output.ndim == 3:
        output = output[:, 0]
    return np.asarray(output.reshape(len(output), -1), dtype=np.float32)


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


class Timm(ImageNetwork):
    """A timm model without its classifier; image size, mean and deviation are those of its training."""

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


SIDE = 32
DIMENSIONS = 128
FIT_ON = 2000


class Pixels:
    """Pixels + PCA, fitted on a sample of the images."""

    name, kind, chunk = "pixels", "image", 1024

    def __init__(self, key: str, center: np.ndarray | None, directions: np.ndarray | None) -> None:
        self.key, self.center, self.directions = key, center, directions

    @classmethod
    def fit(cls, sample: list[Any]) -> "Pixels":
        """Return center and directions of a sample."""
        from sklearn.decomposition import PCA

        sample = sample[:: max(1, len(sample) // FIT_ON)]
        digests = [hashlib.sha256(image_bytes(item)).digest() for item in sample]
        key = "pixels 2 " + hashlib.sha256(b"".join(digests)).hexdigest()
        rows = cls(key, None, None).encode(sample)
        rows = rows[~np.isnan(rows).any(axis=1)] if rows.size else rows
        if not rows.size:
            raise EverylabelError("items holds no image that can be read; expected image files or PIL images")
        if len(rows) == 1:
            return cls(key, None, None)
        with np.errstate(invalid="ignore"):  # images may be all alike
            pca = PCA(min(DIMENSIONS, len(rows)), svd_solver="randomized", random_state=0).fit(rows)
        return cls(key, pca.mean_, pca.components_)

    @classmethod
    def from_arrays(cls, key: str, arrays: Mapping[str, np.ndarray]) -> "Pixels":
        """Return a saved fit."""
        return cls(key, arrays.get("center"), arrays.get("directions"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the fit as plain arrays, for a file."""
        if self.center is None or self.directions is None:
            return {}
        return {"center": self.center, "directions": self.directions}

    def encode(self, items: Any) -> np.ndarray:
        return encode_in_batches(items, self._batch, 256)

    def _batch(self, images: list[Any]) -> np.ndarray:
        rows = pixels(images, (SIDE, SIDE), 0.5, 0.5).reshape(len(images), -1)
        if self.center is None or self.directions is None:
            return rows
        return np.asarray((rows - self.center) @ self.directions.T, dtype=np.float32)
