"""An encoder in two halves: the lower blocks run once per item, the upper ones can be trained.

The network runs its own code. To run the upper half alone, the forward passes of the lower blocks are
bypassed, and the last of them returns the stored states. So masks, positions, pooling and norms are the
network's own, and any BERT-like or ViT-like encoder works.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from everylabel.core.errors import EverylabelError, need
from everylabel.data.media import open_image
from everylabel.models.embedding.backend import clean, quiet
from everylabel.models.embedding.hub import cannot_load, located

BATCH_SIZE = 32  # items that are embedded at a time
CHUNK = 8  # items of a batch that are padded to one length: halves the time where lengths differ
CACHE_BYTES = 2 * 10**9  # states on disk: 100,000 texts of 25 tokens by MiniLM
RECORD, FROZEN = "finetuned.json", "frozen.safetensors"
INSTEAD = "frozen features (el.embed)"
Weights = dict[str, torch.Tensor]


class Encoder:
    """A text encoder (sentence-transformers) or an image encoder (transformers) that can be fine-tuned.

    Parameters
    ----------
    model : str, Path, SentenceTransformer, or (processor, model) of transformers
        A folder or hub name. A plain transformers encoder of texts is pooled by the mean of its tokens.
    kind : {"text", "image"}
        The kind of items.
    blocks : int or float
        Number or share of the upper blocks to train.
    """

    def __init__(
        self, model: Any, kind: str = "text", blocks: float = 0.5, device: str | None = None
    ) -> None:
        if kind not in ("text", "image"):
            raise EverylabelError(f"kind is {kind!r}; expected 'text' or 'image'")
        self.kind = kind
        self.processor: Any = None
        if isinstance(model, (str, Path)):
            model = _load(str(model), kind)
        if isinstance(model, tuple):
            self.processor, model = model
        if not isinstance(model, torch.nn.Module):
            raise EverylabelError(
                f"encoder is a {type(model).__name__}; expected the folder or name of a "
                "sentence-transformers or transformers model, or the model itself"
            )
        self.model: Any = model.to(device) if device else model
        all_blocks = find_blocks(self.model)
        trained = blocks if isinstance(blocks, int) else round(blocks * len(all_blocks))
        if not 1 <= trained < len(all_blocks):
            raise EverylabelError(
                f"blocks is {trained}; expected 1 to {len(all_blocks) - 1} of the encoder's {len(all_blocks)}"
            )
        self.lower, self.upper = all_blocks[:-trained], torch.nn.ModuleList(all_blocks[-trained:])
        self._template: torch.Tensor | None = None  # pixels of one image, whose shape all have

    @property
    def device(self) -> torch.device:
        return next(self.upper.parameters()).device

    def weights(self) -> Weights:
        """Return a copy of the upper blocks' weights."""
        return {name: value.detach().clone() for name, value in self.upper.state_dict().items()}

    def set_weights(self, weights: Weights) -> None:
        self.upper.load_state_dict(weights)

    def inputs(self, items: Sequence[Any]) -> dict[str, torch.Tensor]:
        """Return items as inputs of the network."""
        if self.kind == "image":
            images = [open_image(item) for item in items]
            if any(image is None for image in images):
                raise EverylabelError("texts holds an image that cannot be read; expected readable ones only")
            given = self.processor(images, return_tensors="pt")
            self._template = given["pixel_values"][:1]
        else:
            given = self.model.preprocess(clean(items))
        return {
            name: value.to(self.device) for name, value in given.items() if isinstance(value, torch.Tensor)
        }

    def stand_in(self, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return inputs of the right shape for a pass with stored states, without tokenising again."""
        if self.kind == "image":
            assert self._template is not None
            given = {"pixel_values": self._template.expand(len(mask), *self._template.shape[1:])}
        else:
            given = {"input_ids": torch.zeros_like(mask, dtype=torch.int64), "attention_mask": mask.long()}
        return {name: value.to(self.device) for name, value in given.items()}

    def outputs(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return features (n, d) of inputs made by `inputs`."""
        if self.kind == "text":
            return self.model(dict(inputs))["sentence_embedding"]
        hidden = self.model(**inputs).last_hidden_state
        return hidden[:, 0] if hidden.ndim == 3 else hidden.flatten(2).mean(2)

    def embed(self, items: Sequence[Any], batch_size: int = BATCH_SIZE) -> np.ndarray:
        """Return features (n, d) of new items, by the whole network."""
        rows: list[np.ndarray] = []
        order = _by_length(items)
        self.model.eval()
        with torch.inference_mode():
            for at in range(0, len(items), batch_size):
                some = [items[i] for i in order[at : at + batch_size]]
                rows.append(self.outputs(self.inputs(some)).float().cpu().numpy())
        return np.concatenate(rows)[np.argsort(order)]

    def save(self, folder: Path | str) -> Path:
        """Write a folder that sentence-transformers opens (for images: transformers)."""
        folder = Path(folder)
        if self.kind == "text":
            self.model.save(str(folder), create_model_card=False)
        else:
            self.model.save_pretrained(folder)
            self.processor.save_pretrained(folder)
        return folder


class TunedEncoder:
    """An encoder before and after fine-tuning, and whether the tuned features are in use.

    `finetune` returns it as `found.encoder`; `save` writes it and `load` reads it.

    Examples
    --------
    >>> from everylabel.torch import TunedEncoder
    >>> texts, labels = ["Who?", "Where?"] * 4, ["person", "place"] * 4
    >>> found = el.finetune("sentence-transformers/all-MiniLM-L6-v2", texts, labels)
    >>> folder = found.encoder.save("tuned")  # sentence-transformers opens it
    >>> bool(np.allclose(TunedEncoder.load(folder).embed(texts), found.embed(texts), atol=1e-4))
    True
    """

    def __init__(self, encoder: Encoder, frozen: Weights, tuned: Weights, trusted: bool) -> None:
        self.encoder, self.frozen, self.tuned, self.trusted = encoder, frozen, tuned, trusted

    def embed(self, items: Sequence[Any]) -> np.ndarray:
        """Return the features in use: frozen and tuned side by side if trusted, else the frozen ones."""
        with self._weights(self.frozen):
            if not self.trusted:
                return self.encoder.embed(items)
            rows = []
            for at in range(0, len(items), 1024):
                self.encoder.set_weights(self.frozen)
                states = States(self.encoder, items[at : at + 1024], dtype=np.float32)
                self.encoder.set_weights(self.tuned)
                rows.append(np.concatenate([states.features, states.embed()], axis=1))
            return np.concatenate(rows)

    def embed_tuned(self, items: Sequence[Any]) -> np.ndarray:
        """Return only the tuned features, trusted or not: the features of the saved folder."""
        with self._weights(self.tuned):
            return self.encoder.embed(items)

    def save(self, folder: Path | str, extra: dict[str, Any] | None = None) -> Path:
        """Write the tuned encoder as a folder that sentence-transformers opens; weights as safetensors.

        The folder also holds the frozen weights of the tuned blocks and a record, so that `load` gives both
        features.
        """
        files = need("safetensors.torch", "text", "saving an encoder")
        with self._weights(self.tuned):
            folder = self.encoder.save(folder)
        files.save_file({key: value.contiguous() for key, value in self.frozen.items()}, folder / FROZEN)
        record = {"kind": self.encoder.kind, "blocks": len(self.encoder.upper), "trusted": self.trusted}
        (folder / RECORD).write_text(json.dumps({**record, **(extra or {})}, indent=1) + "\n")
        return folder

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Self:
        """Return what `save` wrote."""
        path = Path(folder)
        if not (path / RECORD).is_file():
            raise EverylabelError(f"folder is {str(folder)!r}, which has no {RECORD}; expected one of save()")
        record = json.loads((path / RECORD).read_text())
        encoder = Encoder(path, record["kind"], record["blocks"], device)
        files = need("safetensors.torch", "text", "loading an encoder")
        frozen = files.load_file(path / FROZEN, device=str(encoder.device))
        return cls(encoder, frozen, encoder.weights(), bool(record["trusted"]))

    @contextmanager
    def _weights(self, weights: Weights) -> Iterator[None]:
        """Run the block with these weights; restore the earlier weights afterwards."""
        before = self.encoder.weights()
        try:
            self.encoder.set_weights(weights)
            yield
        finally:
            self.encoder.set_weights(before)


class States:
    """Hidden states of items below the trained blocks, and the features of the untrained encoder.

    States are in an unnamed temporary file: it disappears with the process, and the system may drop its pages
    when memory is short.
    """

    def __init__(
        self,
        encoder: Encoder,
        items: Sequence[Any],
        *,
        most_bytes: int = CACHE_BYTES,
        tick: Callable[[float], None] = lambda _: None,
        dtype: Any = np.float16,
    ) -> None:
        self.encoder, self.n = encoder, len(items)
        self.lengths = np.zeros(self.n, np.int64)
        features: list[np.ndarray] = []
        order = _by_length(items)
        with tempfile.TemporaryFile() as file:  # the map outlives it, and goes with the last reference
            for at in range(0, self.n, BATCH_SIZE):
                idx = order[at : at + BATCH_SIZE]
                given = encoder.inputs([items[i] for i in idx])
                hidden, rows = _split_pass(encoder, given)
                self.map_size = hidden.shape[2:] if hidden.ndim == 4 else None  # of a convolution
                hidden = hidden.flatten(2)
                mask = given.get("attention_mask", hidden.new_ones(hidden.shape[:2])).bool()
                self.lengths[idx] = mask.sum(1).cpu().numpy()
                features.append(rows)
                file.write(hidden[mask].float().cpu().numpy().astype(dtype).tobytes())
                if file.tell() > most_bytes:
                    raise EverylabelError(
                        f"cache_bytes is {most_bytes:,}, which the states of {at + len(idx):,} of {self.n:,} "
                        "items fill; expected more room, or fewer unlabelled items (embed the rest by "
                        "the result)"
                    )
                tick(min(1.0, (at + len(idx)) / self.n))
            file.flush()
            self.table = np.memmap(file, dtype, "r").reshape(-1, hidden.shape[2])
        self.features = np.concatenate(features)[np.argsort(order)]  # features by the untrained encoder
        self.ends = np.empty_like(self.lengths)
        self.ends[order] = np.cumsum(self.lengths[order])

    def forward(self, idx: np.ndarray) -> torch.Tensor:
        """Return features of some items by the encoder's upper half with its current weights."""
        order = np.argsort(self.lengths[idx], kind="stable")
        parts = [self._forward(idx[order[at : at + CHUNK]]) for at in range(0, len(idx), CHUNK)]
        return torch.cat(parts)[torch.from_numpy(np.argsort(order))]

    def _forward(self, idx: np.ndarray) -> torch.Tensor:
        """Return features of items that are padded to one length."""
        encoder, lengths = self.encoder, torch.from_numpy(self.lengths[idx])
        rows = np.concatenate([self.table[self.ends[i] - self.lengths[i] : self.ends[i]] for i in idx])
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        hidden = torch.zeros(*mask.shape, rows.shape[1])
        hidden[mask] = torch.from_numpy(rows).float()
        if self.map_size is not None:
            hidden = hidden.reshape(*mask.shape, *self.map_size)
        with _bypassed(encoder, hidden.to(encoder.device)):
            return encoder.outputs(encoder.stand_in(mask))

    def embed(
        self, idx: np.ndarray | None = None, tick: Callable[[float], None] = lambda _: None
    ) -> np.ndarray:
        """Return features (n, d) of items (all by default), by the encoder's current weights."""
        idx = np.arange(self.n) if idx is None else np.asarray(idx)
        order = np.argsort(self.lengths[idx], kind="stable")
        rows: list[np.ndarray] = []
        self.encoder.model.eval()
        with torch.inference_mode():
            for at in range(0, len(idx), BATCH_SIZE):
                rows.append(self._forward(idx[order[at : at + BATCH_SIZE]]).float().cpu().numpy())
                tick(min(1.0, (at + BATCH_SIZE) / len(idx)))
        return np.concatenate(rows)[np.argsort(order)]


def find_blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the encoder's blocks: the longest list of modules of one class, not nested in another."""
    alike = {
        name: list(part)
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.ModuleList)
        and len(part) > 1
        and len({type(block) for block in part}) == 1
    }
    outer = [part for name, part in alike.items() if not any(name.startswith(f"{other}.") for other in alike)]
    if not outer:
        raise EverylabelError(
            f"encoder is a {type(model).__name__} without a list of blocks that are alike; expected a "
            "BERT-like or ViT-like encoder, or one of stages (ConvNeXt, ResNet), to train its upper blocks"
        )
    return max(outer, key=len)


def _load(name: str, kind: str) -> Any:
    """Return the model and its image processor."""
    library = need(
        "sentence_transformers" if kind == "text" else "transformers", kind, "fine-tuning an encoder"
    )
    source = located(name, INSTEAD, False)
    try:
        with quiet():
            if kind == "text":
                return library.SentenceTransformer(source.name, device="cpu", local_files_only=source.local)
            parts = (library.AutoImageProcessor, library.AutoModel)
            return tuple(part.from_pretrained(source.name, local_files_only=source.local) for part in parts)
    except (OSError, ValueError) as error:
        raise cannot_load(name, error, INSTEAD) from error


def _by_length(items: Sequence[Any]) -> np.ndarray:
    """Return an order that puts texts of similar length together, so that little is padded."""
    lengths = [len(item) if isinstance(item, str) else 0 for item in items]
    return np.argsort(lengths, kind="stable")


def _split_pass(encoder: Encoder, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, np.ndarray]:
    """Return the input states of the first upper block, and the features, of one whole pass."""
    seen: list[torch.Tensor] = []

    def remember(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.append(args[0] if args else kwargs["hidden_states"])

    hook = encoder.upper[0].register_forward_pre_hook(remember, with_kwargs=True)
    try:
        encoder.model.eval()
        with torch.inference_mode():
            rows = encoder.outputs(given).float().cpu().numpy()
    finally:
        hook.remove()
    return seen[0], rows


@contextmanager
def _bypassed(encoder: Encoder, states: torch.Tensor) -> Iterator[None]:
    """Let the lower blocks return these states, without computing them."""

    def given(hidden: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return states

    for block in encoder.lower:
        block.forward = given
    try:
        yield
    finally:
        for block in encoder.lower:
            del block.forward
