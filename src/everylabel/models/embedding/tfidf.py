"""Texts without any model: TF-IDF of words and pairs of words, then truncated SVD (LSA)."""

import hashlib
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.models.embedding.texts import clean

DIMENSIONS = 256
MAX_TERMS = 50_000


class Tfidf:
    """TF-IDF + SVD, fitted on a sample of the texts."""

    chunk = 4096

    def __init__(self, sample: list[str]) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = clean(sample)
        self.key = "tfidf " + hashlib.sha256("\0".join(texts).encode()).hexdigest()
        self.terms = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), max_features=MAX_TERMS)
        try:
            counts = self.terms.fit_transform(texts)
        except ValueError as error:
            raise EverylabelError(
                "items hold no words to learn TF-IDF from; expected texts with at least one word"
            ) from error
        self.svd = None
        if counts.shape[1] > DIMENSIONS:
            with np.errstate(invalid="ignore"):  # texts may be all alike
                self.svd = TruncatedSVD(min(DIMENSIONS, counts.shape[0]), random_state=0).fit(counts)

    def encode(self, items: Any) -> np.ndarray:
        counts = self.terms.transform(clean(items))
        rows = counts.toarray() if self.svd is None else self.svd.transform(counts)
        return np.asarray(rows, dtype=np.float32)
