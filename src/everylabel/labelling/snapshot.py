"""Caches in a project's folder for a fast start: a snapshot of the state, and the mean of the model.

Neither is the source of truth, and both may be deleted at any time. A snapshot is used only if the log's hash
chain confirms that it belongs to this log and the source still has its items; only later events are then read
from the log. The mean is the starting point of training.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.core.files import VERSION, read_file, write_atomically, write_file
from everylabel.data.items import Numbered, id_list, ids_from_stored, stored_ids
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.learner import Mean
from everylabel.labelling.state.state import State

FORMAT = 2  # of the snapshot; raise it when the same events lead to a different state
MEAN = "everylabel mean"
_HINTS = {name: hint for name, hint in get_type_hints(State).items() if name not in ("source", "by_item")}
_Saved = msgspec.defstruct("_Saved", list(_HINTS.items()))


class Snapshots:
    """The two cache files of a project's folder; note: is called with a sentence about an unusable file."""

    def __init__(self, folder: Path, note: Callable[[str], Any] = print) -> None:
        self.note = note
        self.state_path, self.mean_path = folder / "state.snapshot", folder / "model.mean.npz"

    def save(self, desk: Desk) -> None:
        """Save the state and the mean of a running desk."""

        def look() -> tuple[int, bytes, tuple[int, ...], np.ndarray]:
            mean = np.asarray(desk.learner.pool.posterior.mean)
            return desk.state.seq, encode(desk.state), desk.learner.columns, mean

        seq, content, columns, mean = desk.read(look).result()
        header = {"format": FORMAT, "seq": seq, "chain": desk.log.mark(seq), "digest": _digest(content)}
        text = msgspec.json.encode(header) + b"\n" + content
        write_atomically(self.state_path, lambda stream: stream.write(text), mode=0o600)
        known = {"format": MEAN, "version": VERSION, "columns": [int(c) for c in columns]}
        write_file(self.mean_path, known, {"mean": mean}, mode=0o600)

    def state(self, log: Any, source: Sequence[str]) -> State | None:
        """Return the saved state if it belongs to this log and these items; log: the event store."""
        try:
            head, _, content = self.state_path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            self.note(
                f"the snapshot {str(self.state_path)!r} cannot be read ({error.strerror}); reading the log"
            )
            return None
        try:
            header = msgspec.json.decode(head)
            if header["format"] != FORMAT or header["digest"] != _digest(content):
                return None
            if log.mark(header["seq"]) != header["chain"] or not header["chain"]:
                return None
            state = decode(content)
            if isinstance(source, Numbered):
                state.ids = source
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
            return None
        members = id_list(source).position
        same = state.ids == source or (state.joined and all(name in members for name in state.ids))
        if not same or any(name in members for name in state.absent):
            return None
        state.source = members
        return state

    def mean(self) -> Mean | None:
        """Return the saved mean, if there is one."""
        if not self.mean_path.exists():
            return None
        try:
            header, arrays = read_file(self.mean_path, MEAN, "mean of a model", "everylabel label")
            mean = np.asarray(arrays["mean"], np.float64)
            return [int(c) for c in header["columns"]], mean if np.isfinite(mean).all() else np.zeros((0, 0))
        except (EverylabelError, KeyError, TypeError, ValueError):
            return None


def encode(state: State) -> bytes:
    """Return all fields of a state as bytes; equal states have equal bytes."""
    values = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in values.items()}
    return msgspec.msgpack.encode(plain | {"ids": stored_ids(state.ids)})


def digest(state: State) -> str:
    """Return a hash of a state; equal states have equal hashes."""
    return _digest(encode(state))


def decode(content: bytes) -> State:
    """Return the state that `encode` wrote as these bytes."""
    saved = msgspec.msgpack.decode(content, type=_Saved, dec_hook=lambda kind, value: Counter(value))
    values = {name: getattr(saved, name) for name in _HINTS}
    return State(**values | {"ids": list(ids_from_stored(values["ids"]))})


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
