"""Class names as the model is taught them: which phrases a class has, and their vectors in an event.

Vectors are kept in the log with the phrases they are of, so that a replay needs no encoder and is the same to
the bit. They are in half precision, which changes nothing that can be measured.
"""

import base64
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from everylabel.models.names import phrase


class Encoder(NamedTuple):
    """What embedded the texts, for words: its name, and phrases become vectors (m, d)."""

    name: str
    encode: Callable[[Sequence[str]], np.ndarray]


def phrases_of(name: str, description: str | None) -> tuple[str, ...]:
    """Return what is embedded of a class: its name as words, and its description."""
    words = phrase(name)
    return (words,) if not description else (words, description)


def packed(vectors: np.ndarray) -> str:
    """Return vectors (m, d) as text."""
    return base64.b64encode(np.ascontiguousarray(vectors, dtype="<f2").tobytes()).decode()


def unpacked(text: str, m: int) -> np.ndarray:
    """Return m vectors from text."""
    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float64).reshape(m, -1)
