"""A source that is embedded while people label it: a random sample first, the rest piece by piece.

What has been embedded is noted in the project's journal before it joins the pool, so that the next start has
it. When all are there, the features are written to the folder, as if they had been embedded at once.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Items
from everylabel.data.options import Options
from everylabel.labelling.naming import Encoder
from everylabel.models.embedding.choose import is_pretrained
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.encoders import Progress
from everylabel.projects.feature_files import USUAL, is_begun
from everylabel.projects.features import broken_rows, write_features
from everylabel.projects.journal import Journal
from everylabel.projects.trust import Trust

FIRST = 200  # items that labelling begins with
PIECE = 50  # items that are embedded together


class Growing:
    """Items on their way into the pool; `rows` has a row for each, NaN where it is not there (yet)."""

    def __init__(self, items: Items, options: Options, folder: Path, trust: Trust) -> None:
        trust.check(options.model)
        self.items, self.options, self.folder = items, options, folder
        self.embedder = Embedder(items.kind, options.model or USUAL[items.kind], trust.code)
        self._journal = Journal(folder, items.kind, options.model)
        self.rows = np.zeros((0, 0), np.float32)
        known = self._found()
        order = np.random.default_rng(0).permutation(len(items))
        self.order = np.r_[order[known[order]], order[~known[order]]]
        self.done = int(known.sum())

    def _found(self) -> np.ndarray:
        """Take the rows that were embedded before; return which items they are of."""
        before, digests = self._journal.read(), self.items.digests
        if not before.at or len(digests) != len(self.items):
            return np.zeros(len(self.items), bool)
        known = np.array([digest in before.at for digest in digests], bool)
        self.rows = np.full((len(self.items), before.rows.shape[1]), np.nan, np.float32)
        self.rows[known] = before.rows[[before.at[digest] for digest in digests if digest in before.at]]
        return known

    @property
    def complete(self) -> bool:
        return self.done == len(self.items)

    def begin(self, needed: Sequence[int], progress: Progress | None) -> list[int]:
        """Embed a sample, and all that is needed at once; return the places of what could be read."""
        here = self.order[: self.done].tolist()
        waiting = set(needed).difference(here)
        while not self.complete and (self.done < FIRST or waiting or not here):
            if progress is not None:
                progress(self.done, len(self.items))
            here += self.piece()
            waiting.difference_update(self.order[: self.done].tolist())
        if not here:
            raise EverylabelError(f"none of the {len(self.items):,} images can be read; expected some")
        if progress is not None:
            progress(self.done, len(self.items))
        return here

    def piece(self) -> list[int]:
        """Embed some items more; return the places of those that could be read, in order."""
        at = self.order[self.done : self.done + PIECE].tolist()
        rows = self.embedder.rows(self.items.some(at))
        if not self.rows.size and rows.size:
            self.rows = np.full((len(self.items), rows.shape[1]), np.nan, np.float32)
        if rows.size:
            self.rows[at] = rows
        self.done += len(at)
        whole = [i for i, row in zip(at, rows, strict=True) if not np.isnan(row).any()] if rows.size else []
        if whole and len(self.items.digests) == len(self.items):
            self._journal.add([self.items.digests[i] for i in whole], self.rows[whole])
        return whole

    @property
    def broken(self) -> tuple[int, ...]:
        """The places of what turned out to be broken; known when all are there."""
        return broken_rows(self.rows)

    def finish(self) -> None:
        """Have the features found in the folder at the next start."""
        write_features(self.items, self.options, self.folder, self.rows)

    def encoder(self) -> Encoder | None:
        """Return what embeds words as the texts are."""
        if self.items.kind != "text":
            return None
        return Encoder(self.options.model or USUAL["text"], lambda phrases: self.embedder.rows(list(phrases)))


def growing(items: Items, options: Options, folder: Path, trust: Trust) -> Growing | None:
    """Return items that can be embedded while they are labelled; None if they are there, or must be whole."""
    few = len(items) <= FIRST + PIECE
    if few or is_begun(folder) or not is_pretrained(items.kind, options.model):
        return None
    return Growing(items, options, folder, trust)
