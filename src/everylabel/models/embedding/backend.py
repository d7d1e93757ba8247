"""The interface of an encoder, and the base of pretrained ones.

To add one: copy `Sentences` in `texts.py` (pretrained) or `Tfidf` there (has `fit(sample)` in place of a
model's name, and a line in `FITTED` of `embed.py`), and give it a name in `choose.py`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from everylabel.core.errors import need
from everylabel.models.embedding.hub import cannot_load, located


class Backend(Protocol):
    """A model that turns items into rows of features; it is loaded when the first chunk needs it."""

    @property
    def key(self) -> str:
        """Return a name of model and settings: the same key and items give the same features."""

    @property
    def chunk(self) -> int:
        """Return how many items are encoded and cached at a time."""

    def encode(self, items: Any) -> np.ndarray:
        """Return features (n, d) of a chunk; a row of NaN where an item cannot be read."""


@dataclass
class PretrainedNetwork:
    """Base of the pretrained encoders: a network by its folder, file or hub name."""

    name: str
    batch_size: int = 32  # items that go through the network together
    device: str | None = None  # None: the best there is
    trust_code: bool = False  # run code that the model brings
    beside: bool = False  # runs beside a server: leave one core to it
    threads: int = 0  # without a server; 0: one per core

    form: ClassVar[str]  # name of the backend, in its key
    chunk: ClassVar[int]

    @property
    def key(self) -> str:
        return f"{self.form} {model_key(self.name)}"


def load_transformers(network: PretrainedNetwork, inputs: str, extra: str, instead: str) -> tuple[Any, Any]:
    """Return processor or tokeniser (a transformers class by name) and model."""
    library = need("transformers", extra, "embedding by a transformers model")
    source = located(network.name, instead, network.trust_code)
    try:
        with quiet():
            where: Any = {"local_files_only": source.local, "trust_remote_code": network.trust_code}
            model = library.AutoModel.from_pretrained(source.name, **where)
            prepare = getattr(library, inputs).from_pretrained(source.name, **where)
            return prepare, on_device(model, network.device)
    except (OSError, ValueError) as error:
        raise cannot_load(network.name, error, instead) from error


def model_key(model: str) -> str:
    """Return the identity of a model: its hub name, or sizes and times of its local files."""
    path = Path(model)
    if not path.exists():
        return model
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]
    return f"{path.name} {stats}"


def on_device(model: Any, device: str | None) -> Any:
    """Return a torch model ready to predict, on the device named or the best there is."""
    torch = need("torch", "torch", "a neural network")
    return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()


def clean(texts: Iterable[str]) -> list[str]:
    """Return texts as valid Unicode; lone surrogates become question marks."""
    return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]


@contextmanager
def quiet() -> Iterator[None]:
    """Load a transformers model without its own progress bars."""
    logging = need("transformers.utils.logging", "text", "embedding by a transformers model")
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
