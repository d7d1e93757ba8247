"""The model and the ledger of a project in files: plain arrays with a digest of them, for their owner only.

They are no truth, and nothing is lost with them: see `labelling.kept` and `labelling.packing`.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_file
from everylabel.labelling.kept import Kept


class ModelFile:
    """Files in a project's folder; `note` gets what a person should know."""

    def __init__(self, folder: Path, note: Callable[[str], Any] = print) -> None:
        self.folder, self.note = folder, note
        self._read: dict[str, Kept] = {}  # what is asked for once more
        self._discarded: set[str] = set()

    def path(self, what: str = "model") -> Path:
        """Return the file of a model or a ledger."""
        return self.folder / f"{what}.kept.npz"

    def put(self, kept: Kept, what: str = "model") -> None:
        """Write it in place of the one before, whole or not at all."""
        self._read.pop(what, None)
        if what in self._discarded:
            return
        own = {"seq": kept.seq, "log": kept.log, "rows": kept.rows, "made_by": kept.made_by}
        header = {"format": _form(what), "version": VERSION, **own, "content": _digest(kept.arrays)}
        write_file(self.path(what), header, dict(kept.arrays), mode=0o600)

    def get(self, what: str = "model", again: bool = False) -> Kept | None:
        """Return what is kept; tell if there is something that cannot be read.

        again : it is asked for once more soon, and remembered until then
        """
        kept = self._read.pop(what, None) or self._from_file(what)
        if again and kept is not None:
            self._read[what] = kept
        return kept

    def discard(self, what: str) -> None:
        """Take away what is kept, and keep none any more."""
        self._discarded.add(what)
        self._read.pop(what, None)
        try:
            self.path(what).unlink(missing_ok=True)
        except OSError as error:
            self.note(
                f"{str(self.path(what))!r} cannot be taken away ({error.strerror}); delete it, so that the "
                "next start checks all of the log first"
            )

    def _from_file(self, what: str) -> Kept | None:
        path = self.path(what)
        if not path.exists():
            return None
        try:
            header, arrays = read_file(path, _form(what), f"kept {what}", "everylabel label")
            kept = Kept(header["seq"], header["log"], header["rows"], header["made_by"], arrays)
            if not isinstance(kept.seq, int) or header["content"] != _digest(arrays):
                raise EverylabelError(f"path {str(path)!r} is damaged")
        except (EverylabelError, KeyError) as error:
            self.note(f"the {what} that was kept is left alone: {error}; it is made anew from the log")
            return None
        return kept


def _form(what: str) -> str:
    return f"everylabel kept {what}"


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return a digest of arrays, their names, kinds and shapes."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    return total.hexdigest()
