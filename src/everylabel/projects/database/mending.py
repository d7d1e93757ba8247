"""One flipped bit put right: its chain tells what an event was.

    mended : an event that differs from the stored one in one bit, and whose digest is the chain

No other event than the one that was written has that digest, so this never guesses. Of a long event, all of
whose bits would take too long, those are tried that look odd: where its JSON breaks off, and names in it that
are not those of the source's items, or stand there twice.
"""

import json
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from everylabel.projects.database.chain import Row, digest, fits

MOST = 10**9  # bytes that are hashed at most: some seconds
ODD = 40  # names that look odd, at most: more are no single bit
_DIGEST = re.compile(rb'"[0-9a-f]{16}"')  # of an item's content
AROUND = 40  # bytes before and after the place where JSON breaks off


def mended(row: Row, before: str, names: Collection[str] = ()) -> Row | None:
    """Return an event as it was before one of its bits flipped; None if that is not what happened.

    names : of the source's items, as far as they are known
    """
    size = sum(len(text) for text in row[3:7] if isinstance(text, str))
    long = 8 * size * size > MOST and isinstance(row.body, str)
    others = _flipped(row, _suspects(row.body, names) if long else None)
    return next((other for other in others if fits(before, other)), None)


def mended_text(text: str, wanted: str, names: Collection[str]) -> str | None:
    """Return a text as it was before one of its bits flipped, by its digest; None if that is not found."""
    others = _flipped_text(text, _suspects(text, names))
    return next((other for other in others if digest(other) == wanted), None)


def _suspects(text: str, names: Collection[str]) -> list[int]:
    """Return the places of bytes that look odd."""
    data = text.encode("utf-8", "surrogateescape")
    places: list[int] = []
    try:
        json.loads(data)
    except UnicodeDecodeError as error:
        places += range(max(0, error.start - AROUND), error.end + AROUND)
    except json.JSONDecodeError as error:
        at = len(error.doc[: error.pos].encode())
        places += range(max(0, at - AROUND), at + AROUND)
    except RecursionError:  # nested without end: no single bit
        return []
    found = [(match.start(), match.end(), match[0]) for match in re.finditer(rb'"(?:[^"\\]|\\.)*"', data)]
    count = Counter(name for _, _, name in found)
    known = {json.dumps(name, ensure_ascii=False).encode() for name in names}
    unknown = [each for each in found if known and each[2] not in known and not _DIGEST.fullmatch(each[2])]
    twice = [each for each in found if count[each[2]] > 1]
    for start, end, _ in [*unknown[:ODD], *(twice if len(twice) <= ODD else ())]:
        places += range(start, end)
    return sorted({place for place in places if place < len(data)})


def _flipped(row: Row, places: Iterable[int] | None) -> Iterator[Row]:
    """Yield the event with each bit of its fields flipped; of its body, those of the bytes in some places."""
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
    yield from (row._replace(body=other) for other in _flipped_text(row.body, places))
    yield from (row._replace(key=other) for other in _flipped_text(row.key))


def _flipped_text(text: str | None, places: Iterable[int] | None = None) -> Iterator[str]:
    """Yield a text with each bit flipped, or those of the bytes in some places."""
    if not isinstance(text, str):
        return
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for i in range(len(data)) if places is None else places:
        for bit in range(8):
            data[i] ^= 1 << bit
            try:
                yield data.decode()
            except UnicodeDecodeError:
                continue
            finally:
                data[i] ^= 1 << bit
