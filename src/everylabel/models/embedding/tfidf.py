"""Texts without any model: TF-IDF of words and pairs of words, then truncated SVD (LSA).

n texts, t terms, r dimensions:
    h = c V^T    with c (n, t) the weighted counts and V (r, t) the leading directions of the sample
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.models.embedding.backend import clean

DIMENSIONS = 256
MAX_TERMS = 50_000


class Tfidf:
    """TF-IDF + SVD, fitted on a sample of the texts."""

    name, kind, chunk = "tfidf", "text", 4096

    def __init__(self, key: str, terms: Any, directions: np.ndarray | None) -> None:
        self.key, self.terms, self.directions = key, terms, directions

    @classmethod
    def fit(cls, sample: list[str]) -> "Tfidf":
        """Return what is learned from some texts."""
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
        """Return what learned before."""
        names = arrays["terms"].tobytes().decode().split("\n")
        terms = _vectoriser(vocabulary={name: i for i, name in enumerate(names)})
        terms.idf_ = arrays["idf"]
        return cls(key, terms, arrays.get("directions"))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what was learned from the sample."""
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
