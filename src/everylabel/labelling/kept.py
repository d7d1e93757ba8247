"""The model as plain arrays: a start that finds it need not train, nor replay what came before.

It is a shortcut, never the truth: it may be missing, and one that does not fit this very log up to its place
in it, these very features and this version is left alone. Where each label is learned exactly the pool is
small, and no model is kept. The ledger is: see `packing`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from everylabel.data.digests import row_hashes
from everylabel.labelling.events import Event, Refit
from everylabel.selection.pool.scaled import Scaled

FORMAT = 2  # of the arrays, and of what they mean: another number where a replay gives other ones

AT_A_TIME = 4096  # ids that are hashed together
NAME = "name of "  # and a column: the vectors of a class's name


class Kept(NamedTuple):
    """A model, or a ledger: its place in the log, and its arrays."""

    seq: int
    log: str  # digest of all events up to there
    rows: str  # digest of the items and their features
    made_by: str
    arrays: Mapping[str, np.ndarray]


class Marked(Protocol):
    """A log whose events have digests."""

    def mark(self, seq: int) -> str:
        """Return a digest of all events up to one, itself among them; "" if it is not there."""


class Shelf(Protocol):
    """Where a model and a ledger are kept: in files, `projects.model_file.ModelFile`."""

    def put(self, kept: Kept, what: str = "model") -> None:
        """Keep it in place of the one before, whole or not at all."""

    def get(self, what: str = "model", again: bool = False) -> Kept | None:
        """Return the one that is kept, if there is one and it is whole; again : once more soon."""

    def discard(self, what: str) -> None:
        """Take the one that is kept away, and keep none any more: it may not vouch for the log."""

    def note(self, sentence: str) -> None:
        """Tell a person that the one that is kept is of no use."""


def rows_digest(ids: Sequence[str], features: np.ndarray | Scaled) -> str:
    """Return a digest of items and of their features as the model sees them."""
    total = hashlib.blake2b(digest_size=16)
    for at in range(0, len(ids), AT_A_TIME):  # as of all in one text, which may be long
        some = "\n".join([*([""] if at else []), *ids[at : at + AT_A_TIME]])
        total.update(some.encode("utf-8", "surrogatepass"))
    parts = [features] if isinstance(features, np.ndarray) else []
    if isinstance(features, Scaled):
        total.update(f"{features.raw.shape} {features.raw.dtype.str}".encode())
        parts = [row_hashes(features.raw), features.center, features.matrix]
    for part in parts:
        total.update(np.ascontiguousarray(part))  # type: ignore[arg-type]
    return total.hexdigest()


def maker() -> str:
    """Return what makes the numbers: those of another version need not be those of a replay."""
    from everylabel import __version__

    return f"{FORMAT}, everylabel {__version__}, numpy {np.__version__}"


def usable(shelf: Shelf | None, log: Marked, events: Sequence[Event], after: int = 0) -> Kept | None:
    """Return a kept model that is of this log, whose events after one these are, and of its last training."""
    kept = None if shelf is None else shelf.get()
    if shelf is None or kept is None:
        return None
    why = ""
    if kept.made_by != maker():
        why = f"it was made by version {kept.made_by}, and this is {maker()}"
    elif kept.seq < 1 or not kept.log or log.mark(kept.seq) != kept.log:
        why = "it is of another log"
    if why:
        shelf.note(f"the model that was kept is left alone: {why}; it is made anew from the log")
    trained_since = any(isinstance(event.body, Refit) for event in events if event.seq > kept.seq)
    return None if why or trained_since or kept.seq < after else kept


def packed_names(names: Mapping[int, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the vectors of class names as arrays."""
    return {f"{NAME}{column}": np.array(some) for column, some in names.items()}


def unpacked_names(arrays: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the vectors of class names."""
    return {int(key.removeprefix(NAME)): some for key, some in arrays.items() if key.startswith(NAME)}
