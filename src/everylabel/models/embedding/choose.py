"""Which backend embeds: by the kind of the items and the name a user gives.

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
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.models.embedding import sentences, vision
from everylabel.models.embedding.backend import Backend

FITTED = ("tfidf", "pixels", "table")  # learned from the items
ALIASES = {"bert": "cls:bert-base-uncased", "minilm": sentences.DEFAULT, "dinov2": vision.DEFAULT}
PREFIXES = ("cls:", "mean:", "st:", "timm:")
Sample = Callable[[], Any]


class How(NamedTuple):
    """How a network is run: items at once, where, by code of its own, beside a server, in so many threads."""

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
    """Return whether a model for texts knows what words mean, also such as no text of the user's has."""
    return model != "tfidf" and (model is not None or find_spec("sentence_transformers") is not None)


def is_pretrained(kind: str, model: str | None) -> bool:
    """Return whether a model is the same whatever the items are; TF-IDF and pixels learn from them."""
    if kind == "text":
        return knows_words(model)
    missing = None in (find_spec("transformers"), find_spec("torch"))
    return kind == "image" and model != "pixels" and not (model is None and missing)


def local_place(model: str) -> Path | None:
    """Return where on this machine a model lies; None if it is one on the hub, or one of ours."""
    name = ALIASES.get(model, model)
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
    rest = name.removeprefix(prefix)
    folder = _timm_folder(rest) if prefix == "timm:" else ""
    if folder:
        return Path(folder)
    return Path(rest) if Path(rest).exists() and name not in FITTED else None


def _timm_folder(name: str) -> str:
    """Return the folder that timm loads for a name, as it reads it: LOCAL-DIR://any/folder is one, too."""
    try:
        parts = urlsplit(name)
    except ValueError:  # nothing that timm would take
        return name
    return parts.path if parts.scheme == "local-dir" else ""


def choose(kind: str, model: str | None, sample: Sample, how: How) -> Backend:
    """Return the backend for these items; `sample` gives some of them to those that must be fitted."""
    if model is not None and not isinstance(model, str):
        model = str(model)
    model = ALIASES.get(model, model) if model else None
    if kind == "text":
        return _text(model, sample, how)
    if kind == "image":
        return _image(model, sample, how)
    if model not in (None, "table"):
        raise EverylabelError(f"model is {model!r}; a table has one only: expected None")
    from everylabel.models.embedding.tables import Table

    return Table.fit(sample())


def _text(model: str | None, sample: Sample, how: How) -> Backend:
    if model is None and not knows_words(None):
        _say("texts are embedded by TF-IDF + SVD", "text", "a language model")
        model = "tfidf"
    if model == "tfidf":
        from everylabel.models.embedding.tfidf import Tfidf

        return Tfidf.fit(sample())
    prefix, _, name = (model or "").partition(":")
    if prefix in ("cls", "mean") and name:
        from everylabel.models.embedding.tokens import Tokens

        return Tokens(name, *how, prefix)
    return sentences.Sentences((model or sentences.DEFAULT).removeprefix("st:"), *how)


def _image(model: str | None, sample: Sample, how: How) -> Backend:
    if model is None and None in (find_spec("transformers"), find_spec("torch")):
        _say("images are embedded by scaled pixels + PCA", "image", "a vision model")
        model = "pixels"
    if model == "pixels":
        from everylabel.models.embedding.pixels import Pixels

        return Pixels.fit(sample())
    if model is not None and model.startswith("timm:"):
        from everylabel.models.embedding.timm_images import Timm

        return Timm(model.removeprefix("timm:"), *how)
    if model is not None and model.endswith(".onnx"):
        from everylabel.models.embedding.onnx_images import Onnx

        return Onnx(model, *how)
    return vision.Vision(model or vision.DEFAULT, *how)


def _say(what: str, extra: str, better: str) -> None:
    warnings.warn(f"{what}; for {better}: pip install 'everylabel[{extra}]'", EverylabelWarning, stacklevel=5)
