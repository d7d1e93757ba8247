"""What a backend must offer; one file a backend, listed in `choose.py`.

To add a pretrained one: copy `sentences.py`, and give it a name in `choose.py`. One that learns from the
items has `fit(sample)` in place of a model's name, as `tfidf.py` has; `fitted.py` keeps it for others.
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
        """Return what names the model and its settings: the same key and items give the same features."""

    @property
    def chunk(self) -> int:
        """Return how many items are encoded and cached at a time."""

    def encode(self, items: Any) -> np.ndarray:
        """Return features (n, d) of a chunk; a row of NaN where an item cannot be read."""


@dataclass
class Network:
    """A pretrained network, by its folder, file or hub name: what is common to all backends that are one."""

    name: str
    batch_size: int
    device: str | None
    trust_code: bool = False  # of a model that brings its own
    beside: bool = False  # a server: a core is left to that
    threads: int = 0  # that compute, where there is no such server; 0: as many as there are cores

    form: ClassVar[str]  # of the backend, in its key
    chunk: ClassVar[int]

    @property
    def key(self) -> str:
        return f"{self.form} {model_key(self.name)}"


def load_transformers(network: Network, inputs: str, extra: str, instead: str) -> tuple[Any, Any]:
    """Return what prepares the inputs, a class of transformers by name, and the model."""
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
    """Return what identifies a model: a hub name, or the state of a local folder or file."""
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
    """Return texts that every tokeniser takes: what is not valid Unicode becomes a question mark."""
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
