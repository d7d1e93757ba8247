"""Texts by a plain transformers model: the first token ([CLS], the paper's BERT features) or the mean.

cls    h = t_1                                 of the last hidden layer's tokens t_1 ... t_T
mean   h = sum_i m_i t_i / sum_i m_i           with m the attention mask; not normalised
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from everylabel.core.errors import need
from everylabel.models.embedding.backend import Network, clean, load_transformers, model_key
from everylabel.models.embedding.sentences import INSTEAD

MAX_TOKENS = 512  # the paper's


@dataclass
class Tokens(Network):
    """A transformers encoder with its tokeniser, by local folder or hub name."""

    pooling: str = "cls"  # or "mean"

    chunk = 1024

    @property
    def key(self) -> str:
        return f"{self.pooling} {model_key(self.name)}"

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """Return tokeniser and model."""
        return load_transformers(self, "AutoTokenizer", "text", INSTEAD)

    def encode(self, items: Any) -> np.ndarray:
        texts = clean(items)
        order = np.argsort([len(text) for text in texts], kind="stable")  # alike lengths, little padding
        rows = [
            self._batch([texts[i] for i in order[at : at + self.batch_size]])
            for at in range(0, len(texts), self.batch_size)
        ]
        features = np.concatenate(rows)
        return features[np.argsort(order)]

    @cached_property
    def max_tokens(self) -> int:
        """Return how many tokens of a text are taken: the paper's number, or what the model can hold."""
        tokenizer, model = self.parts
        places = getattr(model.config, "max_position_embeddings", None) or MAX_TOKENS
        return int(min(MAX_TOKENS, tokenizer.model_max_length, places))

    def _batch(self, texts: list[str]) -> np.ndarray:
        tokenizer, model = self.parts
        torch = need("torch", "text", "embedding by a transformers model")
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        )
        tokens = tokens.to(model.device)
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
            if self.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                mask = tokens["attention_mask"][:, :, None]
                pooled = (hidden * mask).sum(1) / mask.sum(1)
        return np.asarray(pooled.float().cpu().numpy())
