"""One flipped bit put right: its chain tells what an event was.

    mended : an event that differs from the stored one in one bit, and whose digest is the chain

No other event than the one that was written has that digest, so this never guesses.
"""

import struct
from collections.abc import Iterator

from everylabel.projects.chain import Row, fits

MOST = 2 * 10**10  # bytes that are hashed at most: half a minute


def mended(row: Row, before: str) -> Row | None:
    """Return an event as it was before one of its bits flipped; None if that is not what happened."""
    size = sum(len(text) for text in row[3:7] if isinstance(text, str))
    if 8 * size * size > MOST:
        return None
    return next((other for other in _flipped(row) if fits(before, other)), None)


def _flipped(row: Row) -> Iterator[Row]:
    """Yield the event with each bit of its fields flipped."""
    for bit in range(48):
        if isinstance(row.seq, int):
            yield row._replace(seq=row.seq ^ 1 << bit)
        if isinstance(row.block, int):
            yield row._replace(block=row.block ^ 1 << bit)
    if isinstance(row.at, float):
        (bits,) = struct.unpack("<Q", struct.pack("<d", row.at))
        for bit in range(64):
            yield row._replace(at=struct.unpack("<d", struct.pack("<Q", bits ^ 1 << bit))[0])
    yield from (row._replace(person=other) for other in _flipped_text(row.person))
    yield from (row._replace(kind=other) for other in _flipped_text(row.kind))
    yield from (row._replace(body=other) for other in _flipped_text(row.body))
    yield from (row._replace(key=other) for other in _flipped_text(row.key))


def _flipped_text(text: str | None) -> Iterator[str]:
    if not isinstance(text, str):
        return
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for i in range(len(data)):
        for bit in range(8):
            data[i] ^= 1 << bit
            try:
                yield data.decode()
            except UnicodeDecodeError:
                continue
            finally:
                data[i] ^= 1 << bit
