"""`TunedClassifier`: a fine-tuned encoder with its head, from items to probabilities, as files.

f, t the features of an item by the encoder before and after fine-tuning; d features in all, k classes.
    probabilities = softmax([f t] W + b)        W (d, k) and b (k,): the head, its scaling folded in
If fine-tuning is not trusted, the features are f alone. `save` writes the folder of `TunedEncoder.save`,
which sentence-transformers opens, and the head beside it. Such a folder can be written without torch.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.models.scaling import linear_layer

if TYPE_CHECKING:
    from everylabel.models.classifier import LaplaceClassifier
    from everylabel.models.finetuning.encoder import TunedEncoder

HEAD, CLASSES, README = "head.safetensors", "head.json", "README.md"
OPSET = 17


class TunedClassifier:
    """A fine-tuned encoder with its head: items in, probabilities out.

    Parameters
    ----------
    encoder : TunedEncoder
        `found.encoder`, where `found` is the result of `everylabel.finetune`.
    weights, bias : array (d, k), array (k,)
        The head on the features that the encoder gives.
    classes : sequence of str

    Examples
    --------
    >>> from everylabel.torch import TunedClassifier
    >>> texts, labels = ["Who?", "Where?"] * 4, ["person", "place"] * 4
    >>> found = el.finetune("sentence-transformers/all-MiniLM-L6-v2", texts, labels)
    >>> classifier = TunedClassifier.of(found.encoder, found.classifier())
    >>> folder = classifier.save("tuned-classifier")  # sentence-transformers opens it
    >>> TunedClassifier.load(folder).predict(["Who?"]).tolist()
    ['person']
    """

    def __init__(
        self, encoder: TunedEncoder, weights: np.ndarray, bias: np.ndarray, classes: Sequence[Any]
    ) -> None:
        self.encoder, self.weights, self.bias = encoder, np.asarray(weights), np.asarray(bias)
        self.classes = [str(name) for name in classes]
        if self.weights.shape[1:] != self.bias.shape or len(self.bias) != len(self.classes):
            raise EverylabelError(
                f"weights is of shape {self.weights.shape}, bias of {self.bias.shape}, and classes has "
                f"{len(self.classes)} names; expected (d, k), (k,) and k"
            )

    @classmethod
    def of(cls, encoder: TunedEncoder, classifier: LaplaceClassifier) -> Self:
        """Return an encoder with a classifier that was fitted on its features."""
        layer = linear_layer(classifier.posterior_, classifier._scaling)
        return cls(encoder, *layer, list(classifier.classes_))

    def predict_proba(self, items: Sequence[Any]) -> np.ndarray:
        """Return probabilities (n, k), columns in the order of `classes`."""
        if not len(items):
            return np.empty((0, len(self.classes)))
        logits = self.encoder.embed(items).astype(np.float64) @ self.weights + self.bias
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def predict(self, items: Sequence[Any]) -> np.ndarray:
        """Return the most probable class of each item."""
        return np.asarray(self.classes)[self.predict_proba(items).argmax(axis=1)]

    def save(self, folder: str | Path) -> Path:
        """Write the tuned encoder as a folder that sentence-transformers opens, and the head beside it."""
        folder = self.encoder.save(folder)
        write_head(folder, self.weights, self.bias, self.classes)
        return folder

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Load a folder written by `save` or `everylabel export --what model`."""
        from everylabel.models.finetuning.encoder import TunedEncoder

        place = Path(folder)
        if not (place / HEAD).is_file():
            raise EverylabelError(f"folder is {str(folder)!r}, which has no {HEAD}; expected one of save()")
        head = need("safetensors.numpy", "text", "loading a head").load_file(place / HEAD)
        classes = json.loads((place / CLASSES).read_text(encoding="utf-8"))["classes"]
        return cls(TunedEncoder.load(place, device), head["weight"].T, head["bias"], classes)

    def onnx(self) -> bytes:
        """Return an ONNX graph: of texts, from `input_ids` and `attention_mask` (n, tokens); of images, from
        `pixel_values`; to `label` (n,) and `probabilities` (n, k). Class names are in the metadata.
        """
        from everylabel.models.finetuning.graph import trace

        onnx = need("onnx", "export", "exporting as ONNX")
        written = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tracing: the tests compare lengths and batches of any size
            trace(self.encoder, self.weights, self.bias, written, OPSET)
        model = onnx.load_from_string(written.getvalue())
        model.producer_name = "everylabel"
        onnx.helper.set_model_props(model, {"classes": json.dumps(self.classes, ensure_ascii=False)})
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def copy_with_head(
    encoder: Path, folder: Path, weights: np.ndarray, bias: np.ndarray, classes: Sequence[str]
) -> None:
    """Copy an encoder's folder (written by `TunedEncoder.save`) and add a head; the copy appears whole or not
    at all.

    folder : new or empty
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise EverylabelError(f"path is {str(folder)!r}, which is there already; expected a new folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".everylabel-") as beside:
            part = Path(beside) / folder.name
            shutil.copytree(encoder, part)
            write_head(part, weights, bias, classes)
            part.replace(folder)
    except OSError as error:
        raise EverylabelError(f"path {str(folder)!r} cannot be written: {error.strerror or error}") from error


def write_head(folder: Path, weights: np.ndarray, bias: np.ndarray, classes: Sequence[str]) -> None:
    """Write the head and how to use it beside an encoder that `TunedEncoder.save` wrote."""
    files = need("safetensors.numpy", "text", "writing a head")
    head = {"weight": np.ascontiguousarray(weights.T, np.float32), "bias": np.asarray(bias, np.float32)}
    files.save_file(head, folder / HEAD)
    names = json.dumps({"classes": list(classes)}, ensure_ascii=False, indent=1)
    (folder / CLASSES).write_text(names + "\n", encoding="utf-8")
    record = json.loads((folder / "finetuned.json").read_text())
    (folder / README).write_text(_readme(record), encoding="utf-8")


def _readme(record: dict[str, Any]) -> str:
    """Return the README of the folder: how to get probabilities."""
    tuned = "[frozen.encode(texts), tuned.encode(texts)]" if record["trusted"] else "[frozen.encode(texts)]"
    which = (
        "Its embeddings and those from before fine-tuning"
        if record["trusted"]
        else "Its embeddings from before fine-tuning"
    )
    with_everylabel = """\
```python
from everylabel.torch import TunedClassifier

classifier = TunedClassifier.load(".")
probabilities = classifier.predict_proba(texts)  # columns in the order of classifier.classes
```
"""
    if record["kind"] != "text":
        head = "# A fine-tuned image encoder with its head\n\ntransformers opens this folder."
        return f"{head} Probabilities, by everylabel:\n\n{with_everylabel.replace('texts', 'images')}"
    return f"""\
# A fine-tuned text encoder with its head

`SentenceTransformer(".")` opens this folder and gives the embeddings after fine-tuning.
{which} go into the head (`{HEAD}`, classes in `{CLASSES}`). Probabilities, by everylabel:

{with_everylabel}
And without it:

```python
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

tuned, frozen = SentenceTransformer("."), SentenceTransformer(".")
blocks = max((part for part in frozen.modules() if isinstance(part, torch.nn.ModuleList)), key=len)
blocks[-{record["blocks"]}:].load_state_dict(load_file("frozen.safetensors"))
head, classes = load_file("{HEAD}"), json.loads(Path("{CLASSES}").read_text())["classes"]
features = torch.tensor(np.hstack({tuned}))
probabilities = torch.softmax(features @ head["weight"].T + head["bias"], dim=1)
```
"""
