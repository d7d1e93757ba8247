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
from typing import Any

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.models.embedding import images, texts
from everylabel.models.embedding.backend import Backend

ALIASES = {"bert": "cls:bert-base-uncased", "minilm": texts.DEFAULT, "dinov2": images.DEFAULT}
Sample = Callable[[], Any]


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
    return knows_words(model) if kind == "text" else kind == "image" and _sees_images(model)


def _sees_images(model: str | None) -> bool:
    """Return whether an image model is a network."""
    there = None not in (find_spec("transformers"), find_spec("torch"))
    return model != "pixels" and (model is not None or there)


def choose(kind: str, model: str | None, sample: Sample, **options: Any) -> Backend:
    """Return the backend for these items.

    sample : returns items to fit TF-IDF, pixels or a table on
    options : how to run a network, the fields of `PretrainedNetwork`
    """
    if model is not None and not isinstance(model, str):
        model = str(model)
    model = ALIASES.get(model, model) if model else None
    if kind == "text":
        return _text(model, sample, options)
    if kind == "image":
        return _image(model, sample, options)
    if model not in (None, "table"):
        raise EverylabelError(f"model is {model!r}; tables have one encoder: expected None")
    from everylabel.models.embedding.tables import Table

    return Table.fit(sample())


def _text(model: str | None, sample: Sample, options: dict[str, Any]) -> Backend:
    if model is None and not knows_words(None):
        _warn_of_fallback("texts are embedded by TF-IDF + SVD", "text", "a language model")
        model = "tfidf"
    if model == "tfidf":
        return texts.Tfidf.fit(sample())
    prefix, _, name = (model or "").partition(":")
    if prefix in ("cls", "mean") and name:
        return texts.Tokens(name, **options, pooling=prefix)
    return texts.Sentences((model or texts.DEFAULT).removeprefix("st:"), **options)


def _image(model: str | None, sample: Sample, options: dict[str, Any]) -> Backend:
    if model is None and not _sees_images(None):
        _warn_of_fallback("images are embedded by scaled pixels + PCA", "image", "a vision model")
        model = "pixels"
    if model == "pixels":
        return images.Pixels.fit(sample())
    if model is not None and model.startswith("timm:"):
        return images.Timm(model.removeprefix("timm:"), **options)
    if model is not None and model.endswith(".onnx"):
        return images.Onnx(model, **options)
    return images.Vision(model or images.DEFAULT, **options)


def _warn_of_fallback(what: str, extra: str, better: str) -> None:
    warnings.warn(f"{what}; for {better}: pip install 'everylabel[{extra}]'", EverylabelWarning, stacklevel=5)
