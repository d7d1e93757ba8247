"""Class names teach the model: the phrases of each class, and their vectors by the encoder of the texts.

Vectors depend on the phrase and the encoder alone. They are cached in a file, in half precision, which
changes nothing that can be measured; the file may be deleted at any time.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_file
from everylabel.labelling.state.state import State
from everylabel.models.names import phrase

FORMAT = "everylabel class names"


class Encoder(NamedTuple):
    """The encoder of the texts, for words: its name, and a function from phrases to vectors (m, d)."""

    name: str
    encode: Callable[[Sequence[str]], np.ndarray]


def phrases_of(name: str, description: str | None) -> tuple[str, ...]:
    """Return the phrases of a class that are embedded: its name as words, and its description."""
    words = phrase(name)
    return (words,) if not description else (words, description)


class ClassNames:
    """Vectors of class names and descriptions; without an encoder there are none.

    path : file that caches the vectors
    """

    def __init__(self, encoder: Encoder | None = None, path: Path | None = None) -> None:
        self.encoder, self.path = encoder, path
        self._lock = threading.Lock()
        self._vectors: dict[str, np.ndarray] = {} if encoder is None else _read(path, encoder.name)
        self._of_class: dict[int, tuple[tuple[str, ...], np.ndarray]] = {}

    def missing(self, state: State, numbers: Iterable[int] | None = None) -> list[str]:
        """Return the phrases of classes (of all, unless some are given) that have no vector yet."""
        if self.encoder is None or not state.settings["names"]:
            return []
        wanted = [self._phrases(state, c) for c in (state.book.present if numbers is None else numbers)]
        return list(dict.fromkeys(one for some in wanted for one in some if one not in self._vectors))

    def learn(self, phrases: Sequence[str]) -> None:
        """Embed phrases and cache their vectors; this may load the encoder and take seconds."""
        if self.encoder is None or not phrases:
            return
        vectors = np.asarray(self.encoder.encode(list(phrases)), np.float16).astype(np.float64)
        with self._lock:
            self._vectors = {**self._vectors, **dict(zip(phrases, vectors, strict=True))}
            if self.path is not None:
                header = {"format": FORMAT, "version": VERSION, "encoder": self.encoder.name}
                stored = np.asarray(list(self._vectors.values()), np.float16)
                write_file(
                    self.path, header | {"phrases": list(self._vectors)}, {"vectors": stored}, mode=0o600
                )

    def add(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Take the vectors of phrases that are known already."""
        with self._lock:
            self._vectors = {
                **self._vectors,
                **{one: np.asarray(v, np.float64) for one, v in vectors.items()},
            }

    def vectors(self, state: State) -> dict[int, np.ndarray]:
        """Return the vectors (m, d) of each class; none if the setting is off.

        The vectors of a renamed class stay until those of its new name are learned.
        """
        if self.encoder is None or not state.settings["names"]:
            return {}
        known = self._vectors
        for number in state.book.present:
            phrases = self._phrases(state, number)
            before = self._of_class.get(number)
            if (before is None or before[0] != phrases) and all(one in known for one in phrases):
                self._of_class[number] = phrases, np.array([known[one] for one in phrases])
        return {c: self._of_class[c][1] for c in state.book.present if c in self._of_class}

    @staticmethod
    def _phrases(state: State, number: int) -> tuple[str, ...]:
        return phrases_of(state.book.names[number], state.book.descriptions.get(number))


def _read(path: Path | None, encoder: str) -> dict[str, np.ndarray]:
    """Return the cached vectors of an encoder; none if the file is missing, damaged or of another encoder."""
    if path is None or not path.exists():
        return {}
    try:
        header, arrays = read_file(path, FORMAT, "class names", "everylabel label")
        if header["encoder"] != encoder:
            return {}
        return dict(zip(header["phrases"], arrays["vectors"].astype(np.float64), strict=True))
    except (EverylabelError, KeyError, ValueError):
        return {}
