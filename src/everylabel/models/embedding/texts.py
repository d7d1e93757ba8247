"""Encoders of texts: a sentence-transformers model, a plain transformers model, or TF-IDF without any model.

Sentences   the model's own pooling
Tokens      cls    h = t_1                         of the last hidden layer's tokens t_1 ... t_T (the paper's)
            mean   h = sum_i m_i t_i / sum_i m_i   with m the attention mask; not normalised
Tfidf       h = c V^T    with c (n, t) the TF-IDF counts of n texts and V (r, t) the leading directions of
                         the sample (truncated SVD, LSA)
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.models.embedding.backend import PretrainedNetwork, clean, load_transformers, model_key, quiet
from everylabel.models.embedding.bert_onnx import BertOnnx, can_run
from everylabel.models.embedding.hub import cannot_load, located

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
INSTEAD = "model='tfidf' (--model tfidf)"


class Sentences(PretrainedNetwork):
    """A sentence-transformers model, by local folder or hub name."""

    form, chunk = "sentences", 1024

    @cached_property
    def fast(self) -> BertOnnx | None:
        """The same model without torch, where `bert_onnx` can run it."""
        if find_spec("onnxruntime") is None:
            self._library()  # a missing library is reported before a missing model
        folder = Path(located(self.name, INSTEAD, self.trust_code).name)
        threads = max(1, (os.cpu_count() or 1) - 1) if self.beside else self.threads
        return BertOnnx(folder, threads) if self.device in (None, "cpu") and can_run(folder) else None

    @cached_property
    def model(self) -> Any:
        library = self._library()
        name, local = located(self.name, INSTEAD, self.trust_code)
        try:
            with quiet():
                how: Any = {"local_files_only": local, "trust_remote_code": self.trust_code}
                return library.SentenceTransformer(name, device=self.device, **how)
        except (OSError, ValueError) as error:
            raise cannot_load(self.name, error, INSTEAD) from error

    def _library(self) -> Any:
        return need("sentence_transformers", "text", "embedding by a sentence model")

    def encode(self, items: Any) -> np.ndarray:
        if self.fast is not None:
            return self.fast.encode(clean(items))
        rows = self.model.encode(clean(items), batch_size=self.batch_size, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float32)


MAX_TOKENS = 512  # the paper's


@dataclass
class Tokens(PretrainedNetwork):
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
        order = np.argsort(
            [len(text) for text in texts], kind="stable"
        )  # similar lengths need little padding
        rows = [
            self._batch([texts[i] for i in order[at : at + self.batch_size]])
            for at in range(0, len(texts), self.batch_size)
        ]
        features = np.concatenate(rows)
        return features[np.argsort(order)]

    @cached_property
    def max_tokens(self) -> int:
        """Return the number of tokens at which a text is cut: the paper's, or the model's limit if lower."""
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


DIMENSIONS = 256
MAX_TERMS = 50_000


class Tfidf:
    """TF-IDF + SVD, fitted on a sample of the texts."""

    name, kind, chunk = "tfidf", "text", 4096

    def __init__(self, key: str, terms: Any, directions: np.ndarray | None) -> None:
        self.key, self.terms, self.directions = key, terms, directions

    @classmethod
    def fit(cls, sample: list[str]) -> "Tfidf":
        """Return TF-IDF weights and directions of a sample."""
        from sklearn.decomposition import TruncatedSVD

        texts = clean(sample)
        terms, directions = _vectoriser(max_features=MAX_TERMS), None
        try:
            counts = terms.fit_transform(texts)
        except ValueError as error:
            raise EverylabelError(
                "items hold no words to learn TF-IDF from; expected some of at least two letters or digits"
            ) from error
        if counts.shape[1] > DIMENSIONS:
            with np.errstate(invalid="ignore"):  # texts may be all alike
                svd = TruncatedSVD(min(DIMENSIONS, counts.shape[0]), random_state=0).fit(counts)
            directions = svd.components_.astype(np.float32)
        return cls("tfidf 2 " + hashlib.sha256("\0".join(texts).encode()).hexdigest(), terms, directions)

    @classmethod
    def from_arrays(cls, key: str, arrays: Mapping[str, np.ndarray]) -> "Tfidf":
        """Return a saved fit."""
        names = arrays["terms"].tobytes().decode().split("\n")
        terms = _vectoriser(vocabulary={name: i for i, name in enumerate(names)})
        terms.idf_ = arrays["idf"]
        return cls(key, terms, arrays.get("directions"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the fit as plain arrays, for a file."""
        names = "\n".join(self.terms.get_feature_names_out())  # a term holds no line end
        learned = {"terms": np.frombuffer(names.encode(), np.uint8), "idf": self.terms.idf_}
        return learned if self.directions is None else {**learned, "directions": self.directions}

    def encode(self, items: Any) -> np.ndarray:
        counts = self.terms.transform(clean(items))
        rows = counts.toarray() if self.directions is None else counts @ self.directions.T
        return np.asarray(rows, dtype=np.float32)


def _vectoriser(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), **options)
