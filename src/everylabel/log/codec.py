"""What is noted of the source's rows, as text: of a million that are numbered no more than their digests."""

import json
from typing import Any

from everylabel.data.digests import Digests
from everylabel.data.items import IdList, Numbered, ids_from_stored, stored_ids
from everylabel.data.source_diff import NOT_NOTED, Known

MOST_NAMED = 10**7  # rows whose ids are held in memory without a digest for each
MOST = 10**11  # rows that are numbered: no source has more


def to_text(known: Known) -> str:
    """Return what is stored."""
    noted = known._asdict() | {"digests": Digests(known.digests).noted()}
    if isinstance(known.keys, Numbered):
        noted |= {"keys": [], "numbered": len(known.keys)}
    else:
        noted["keys"] = stored_ids(known.keys)
    return json.dumps(noted, ensure_ascii=False)


def from_text(text: str) -> Known:
    """Return the rows that a text notes, also one of a version before; ValueError if it notes none."""
    noted = json.loads(text)
    if isinstance(noted, list) and len(noted) == 2:
        noted = {"keys": noted[0], "digests": noted[1], "id_column": NOT_NOTED}
    if not isinstance(noted, dict) or not _is_of_rows(**noted):
        raise ValueError("what is noted of the source is not as everylabel writes it")
    if isinstance(noted["keys"], int) and noted["keys"] > max(MOST_NAMED, len(noted["digests"])):
        raise ValueError("it notes more rows than digests")
    n = noted.pop("numbered", None)
    keys = IdList(ids_from_stored(noted["keys"])) if n is None else Numbered(n)
    return Known(**noted | {"keys": keys, "digests": Digests.of_noted(noted["digests"])})


def _is_of_rows(
    keys: Any = None,
    digests: Any = None,
    own_ids: Any = None,
    id_column: Any = None,
    gone: Any = 0,
    numbered: Any = 0,
    **others: Any,
) -> bool:
    """Return whether each part of what is noted is of its kind."""
    return (
        (_is_count(keys) or _are_texts(keys))
        and (isinstance(digests, str) or _are_texts(digests))
        and (own_ids is None or _are_texts(own_ids))
        and (id_column is None or isinstance(id_column, str))
        and _is_count(gone)
        and _is_count(numbered)
        and not others
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
