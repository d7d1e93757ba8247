"""Items that join a project while people label it: the rest of a large source, and new rows and images.

A large source is opened with a random sample (`Growing`); the server embeds the rest (`web/arrivals.py`). A
watched source is read again whenever it changes (`Watched`), without a last row that is still being written.
"""

import codecs
import csv
import io
import json
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everylabel.core.errors import EverylabelError, EverylabelWarning
from everylabel.data.items import Items, Options
from everylabel.data.media import open_image
from everylabel.data.read import check_show
from everylabel.data.readers.folder import read_folder
from everylabel.data.readers.rows import FIELD_LIMIT, SUFFIXES, delimiter_of
from everylabel.data.readers.table import read_table
from everylabel.models.embedding.choose import is_pretrained
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.features import USUAL, MadeBy, Pieces, Progress, features_of, item_digests

FIRST = 200  # items that labelling starts with
PIECE = 50  # items embedded together
DELIMITED, LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
QUIET = 60.0  # seconds without a change after which a last line without a line end counts if it looks whole


def embed_piece(
    items: Items, places: Sequence[int], embedder: Embedder, pieces: Pieces
) -> tuple[list[int], np.ndarray]:
    """Embed items and save their features; return the positions of readable items, and their rows."""
    rows = embedder.rows(items.some(places))
    readable = ~np.isnan(rows).any(axis=1) & (rows.shape[1] > 0)
    here = [i for i, good in zip(places, readable, strict=True) if good]
    if here:
        pieces.add(item_digests(items, here), rows[readable])
    return here, rows[readable]


class Growing:
    """A source that is embedded in pieces, in a random order.

    waiting : positions of the items that `begin` left to the server, including unreadable images
    """

    def __init__(self, items: Items, options: Options, folder: Path, trust_code: bool) -> None:
        self.items, self.options, self.folder, self.trust_code = items, options, folder, trust_code
        self.made_by = MadeBy(items.kind, options.model or USUAL[items.kind])
        self.embedder = Embedder(items.kind, self.made_by.model, trust_code)
        self.pieces = Pieces(folder, items.kind, options.model)
        self.waiting: list[int] = []

    def begin(self, needed: Sequence[int], progress: Progress | None) -> tuple[list[int], np.ndarray]:
        """Embed a sample and the needed items; return the positions and features of all embedded items."""
        n, kept = len(self.items), self.pieces.read()
        digests = item_digests(self.items, range(n))
        order = np.random.default_rng(0).permutation(n).tolist()
        here = [i for i in order if digests[i] in kept.row_of]
        rows = [kept.with_digests(digests[i] for i in here)] if here else []
        missing = set(needed).difference(here)
        rest = [i for i in order if i in missing]
        rest += [i for i in order if digests[i] not in kept.row_of and i not in missing]
        done, at_once = 0, max(len(missing), FIRST - len(here))
        while done < len(rest) and (done < at_once or not here):
            if progress is not None:
                progress(len(here), n)
            found, features = embed_piece(self.items, rest[done : done + PIECE], self.embedder, self.pieces)
            here += found
            rows += [features] if found else []
            done += PIECE
        if not here:
            raise EverylabelError(f"none of the {n:,} images can be read; expected some")
        if progress is not None:
            progress(len(here), n)
        there = set(here)
        self.waiting = [i for i in order if i not in there]
        return here, np.concatenate(rows)

    def finish(self) -> None:
        """Write all features to the folder, for the next start."""
        features_of(self.items, self.options, self.folder, self.trust_code)


def growing(items: Items, options: Options, folder: Path, trust_code: bool) -> Growing | None:
    """Return a source to embed while it is labelled; None if it is small, or fits its model."""
    small = len(items) <= FIRST + PIECE
    if small or not is_pretrained(items.kind, options.model):
        return None
    return Growing(items, options, folder, trust_code)


class SourceSnapshot(NamedTuple):
    """A source at one moment; unfinished: its last row is still being written and is left out."""

    items: Items
    unfinished: bool = False


class Watched:
    """A table or a folder of images that is read whenever it changes."""

    def __init__(self, source: str, options: Options) -> None:
        self.path, self.options = _watchable(source), options
        self._seen: object = None  # size and time of the table, or digests of the images, at the last look

    def look(self) -> SourceSnapshot | None:
        """Return the source; None if it has not changed since the last look."""
        seen: object = None if self.path.is_dir() else _size(self.path)
        if seen is not None and seen == self._seen:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EverylabelWarning)  # shown when the command started
            found = _read(self.path, self.options)
        seen = tuple(found.items.digests) if seen is None else seen
        if seen == self._seen:
            return None
        self._seen = None if found.unfinished else seen
        return found

    def again(self) -> None:
        """Make the next look read the source even if it has not changed."""
        self._seen = None

    def whole(self, items: Items, places: Sequence[int]) -> list[int]:
        """Return the positions of complete items: an image that is still being written cannot be opened."""
        if items.kind != "image":
            return list(places)
        ready = [i for i in places if open_image(items.items[i]) is not None]
        if len(ready) < len(places):
            self.again()
        return ready


def read_watched(source: str, options: Options) -> Items:
    """Return the items of a source, as `data.read.read` does, without a row that is still being written."""
    path = _watchable(source)
    check_show(path, options)
    return _read(path, options).items


def _watchable(source: str) -> Path:
    path = Path(source)
    if not (path.is_absolute() and path.exists()) or not (path.is_dir() or path.suffix.lower() in SUFFIXES):
        raise EverylabelError(
            f"--watch goes with a table ({', '.join(SUFFIXES)}) or a folder of images; source is {source!r}"
        )
    return path


def _size(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns


def _read(path: Path, options: Options) -> SourceSnapshot:
    if path.is_dir():
        return SourceSnapshot(read_folder(path, options))
    data, unfinished = whole_rows(path, options.encoding)
    with tempfile.TemporaryDirectory(prefix="everylabel-") as folder:  # the file itself may grow meanwhile
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        try:
            return SourceSnapshot(read_table(copy, options, base=path.parent), unfinished)
        except EverylabelError as error:
            raise EverylabelError(str(error).replace(str(copy), str(path))) from error


def whole_rows(path: Path, encoding: str | None) -> tuple[bytes, bool]:
    """Return a file up to the end of its last complete row, and whether there is more.

    A row ends with its line, unless the line end is within quotes. JSON, Excel and Parquet files are returned
    unchanged: incomplete ones cannot be read.
    """
    try:
        changed, data = path.stat().st_mtime, path.read_bytes()
    except OSError as error:
        raise EverylabelError(f"path {str(path)!r} cannot be read: {error.strerror or error}") from error
    suffix = path.suffix.lower()
    if suffix not in (*DELIMITED, *LINES):
        return data, False
    name, errors = encoding or "utf-8", "surrogateescape" if encoding is None else "strict"
    try:
        text = codecs.getincrementaldecoder(name)(errors).decode(data)  # drops an incomplete last character
    except (UnicodeError, LookupError) as error:
        raise EverylabelError(f"the file cannot be read as {name!r} ({error})") from error
    lines = io.StringIO(text, newline="").readlines()
    n = len(lines) - (not text.endswith(("\n", "\r"))) if lines else 0
    n = _ended_rows(lines[:n]) if suffix in DELIMITED else n
    rest = "".join(lines[n:])
    if not rest or (time.time() - changed > QUIET and _looks_whole(lines, rest, suffix in DELIMITED)):
        return data, False
    return "".join(lines[:n]).encode(name, errors), True


def _ended_rows(lines: list[str]) -> int:
    """Return the number of lines that belong to complete rows, considering quotes."""
    csv.field_size_limit(FIELD_LIMIT)
    delimiter = delimiter_of(next((line for line in lines if line.strip()), ""))
    reader = csv.reader([*lines, "end"], delimiter=delimiter)
    before, last = 0, 0
    for _ in reader:  # the last row is the added line, or has open quotes and includes that line
        before, last = last, reader.line_num
    return before


def _looks_whole(lines: list[str], rest: str, delimited: bool) -> bool:
    """Return whether a last line without a line end has as many cells as the header, or is a JSON object."""
    if not delimited:
        try:
            return isinstance(json.loads(rest), dict)
        except (ValueError, RecursionError):
            return False
    first = next(line for line in lines if line.strip())
    header, row = (list(csv.reader([line], delimiter=delimiter_of(first))) for line in (first, rest))
    return len(row) == 1 and len(row[0]) == len(header[0]) and rest.count('"') % 2 == 0
