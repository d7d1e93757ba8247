"""What embeds other items, or words, as a project's own items were embedded."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.labelling.model.class_names import Encoder
from everylabel.models.embedding import embed
from everylabel.models.embedding.choose import knows_words
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.feature_files import EMBEDDER, RECORD, USUAL, check_fit, record_of
from everylabel.projects.trust import Trust

Progress = Callable[[int, int], Any]  # rows done, rows in all


def embed_as(items: Any, place: Path, trust: Trust, progress: Progress | None = None) -> np.ndarray:
    """Return features of other items, embedded as those that lie in this place; NaN for broken images."""
    kind, model, fit = made_by(place, trust)
    show = None if progress is None else lambda done: progress(done, len(items))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*rows of NaN", EverylabelWarning)  # the caller tells them
        how: dict[str, Any] = {"kind": kind, "fit": fit, "trust_model_code": trust.code}
        return embed(items, model, progress=show, **how)


def embedder_as(place: Path, trust: Trust) -> Embedder:
    """Return what does the same again and again, loaded once."""
    kind, model, fit = made_by(place, trust)
    return Embedder(kind, model, trust.code, fit)


def made_by(place: Path, trust: Trust) -> tuple[str, str | None, Path | None]:
    """Return the kind of items, the model, and what it learned, of the features in a place."""
    record = record_of(place)
    if record is None:
        raise FileNotFoundError(place / RECORD)
    kind, model = record["what"]["kind"], record["what"]["model"]
    if record["fitted_on"]:
        check_fit(place, record)
        return kind, None, place / EMBEDDER
    model = USUAL[kind] if model is None else model  # never another one, whatever is installed by now
    trust.check(model)
    return kind, model, None


def word_encoder(
    kind: str, place: Path | None, model: str | None, width: int, trust: Trust
) -> Encoder | None:
    """Return what embeds words as a source's texts were, or None: TF-IDF and images know no words.

    kind, place : what is labelled, and where its features lie if they were embedded here
    model, width : what made features that came with the source, if it is known, and how many there are
    trust : whether it may be loaded
    """
    if place is not None:
        record = record_of(place) if kind == "text" else None
        fitted = record is None or record["fitted_on"]
        model = None if record is None or fitted else record["what"]["model"] or USUAL[kind]
    if model is None or kind == "image" or not knows_words(model):
        return None
    return Encoder(model, partial(_words, model, width, trust))


def _words(model: str, width: int, trust: Trust, phrases: Sequence[str]) -> np.ndarray:
    trust.check(model)
    vectors = embed(list(phrases), model, kind="text", trust_model_code=trust.code)
    if vectors.shape[1] != width:
        raise EverylabelError(
            f"model {model!r} has {vectors.shape[1]} features of a name, and the source {width}; expected "
            "--model with the one that embedded its texts, or --names-prior off"
        )
    return vectors
