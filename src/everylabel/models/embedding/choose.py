"""Choose the encoder by the kind of the items and the model name that the user gives.

text    None, "st:NAME", NAME or folder    sentence-transformers; None falls back to "tfidf"
        "cls:NAME", "mean:NAME", "bert"    a transformers encoder's first token, or mean of tokens
        "tfidf"                            TF-IDF + truncated SVD
image   None, NAME or folder               a transformers vision model; None falls back to "pixels"
        "timm:NAME", "FILE.onnx"           a timm model, an ONNX file
        "pixels"                           scaled pixels + PCA
table   None                               scikit-learn's column transformer
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.models.embedding import images, texts
from everylabel.models.embedding.backend import Backend

ALIASES = {"bert": "cls:bert-base-uncased", "minilm": texts.DEFAULT, "dinov2": images.DEFAULT}
Sample = Callable[[], Any]


class NetworkOptions(NamedTuple):
    """How to run a network; the fields are those of `backend.Network`."""

    batch_size: int = 32
    device: str | None = None
    trust_code: bool = False
    beside: bool = False
    threads: int = 0


def kind_of(model: str | None) -> str | None:
    """Return the kind of items a model's name implies; None if it could be any."""
    name = ALIASES.get(str(model), str(model))
    if name == "tfidf" or name.startswith(("cls:", "mean:", "st:")):
        return "text"
    return "image" if name == "pixels" or name.startswith("timm:") or name.endswith(".onnx") else None


def knows_words(model: str | None) -> bool:
    """Return whether a text model knows words that none of the user's texts contain."""
    return model != "tfidf" and (model is not None or find_spec("sentence_transformers") is not None)


def is_pretrained(kind: str, model: str | None) -> bool:
    """Return whether a model ignores the items; TF-IDF and pixels are fitted on them."""
    if kind == "text":
        return knows_words(model)
    missing = None in (find_spec("transformers"), find_spec("torch"))
    return kind == "image" and model != "pixels" and not (model is None and missing)


def choose(kind: str, model: str | None, sample: Sample, how: NetworkOptions) -> Backend:
    """Return the backend for these items; `sample` returns items to fit TF-IDF, pixels or a table on."""
    if model is not None and not isinstance(model, str):
        model = str(model)
    model = ALIASES.get(model, model) if model else None
    if kind == "text":
        return _text(model, sample, how)
    if kind == "image":
        return _image(model, sample, how)
    if model not in (None, "table"):
        raise EverylabelError(f"model is {model!r}; tables have one encoder: expected None")
    from everylabel.models.embedding.tables import Table

    return Table.fit(sample())


def _text(model: str | None, sample: Sample, how: NetworkOptions) -> Backend:
    if model is None and not knows_words(None):
        _say("texts are embedded by TF-IDF + SVD", "text", "a language model")
        model = "tfidf"
    if model == "tfidf":
        return texts.Tfidf.fit(sample())
    prefix, _, name = (model or "").partition(":")
    if prefix in ("cls", "mean") and name:
        return texts.Tokens(name, *how, prefix)
    return texts.Sentences((model or texts.DEFAULT).removeprefix("st:"), *how)


def _image(model: str | None, sample: Sample, how: NetworkOptions) -> Backend:
    if model is None and None in (find_spec("transformers"), find_spec("torch")):
        _say("images are embedded by scaled pixels + PCA", "image", "a vision model")
        model = "pixels"
    if model == "pixels":
        return images.Pixels.fit(sample())
    if model is not None and model.startswith("timm:"):
        return images.Timm(model.removeprefix("timm:"), *how)
    if model is not None and model.endswith(".onnx"):
        return images.Onnx(model, *how)
    return images.Vision(model or images.DEFAULT, *how)


def _say(what: str, extra: str, better: str) -> None:
    warnings.warn(f"{what}; for {better}: pip install 'everylabel[{extra}]'", EverylabelWarning, stacklevel=5)
