"""Texts by a sentence-transformers model: pooled as the model says."""

import os
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import need
from everylabel.models.embedding.backend import Network, clean, quiet
from everylabel.models.embedding.bert_onnx import BertOnnx, can_run
from everylabel.models.embedding.hub import cannot_load, located

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
INSTEAD = "model='tfidf' (--model tfidf)"


class Sentences(Network):
    """A sentence-transformers model, by local folder or hub name."""

    form, chunk = "sentences", 1024

    @cached_property
    def fast(self) -> BertOnnx | None:
        """The model run without torch, if it can be."""
        if find_spec("onnxruntime") is None:
            self._library()  # which is named before a model is looked for
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
