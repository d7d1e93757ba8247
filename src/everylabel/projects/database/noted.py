"""What is noted of the source's rows, as text: of a million that are numbered no more than their digests."""

import json

from everylabel.data.digests import Digests
from everylabel.data.id_list import IdList
from everylabel.data.known import NOT_NOTED, Known
from everylabel.data.numbered import Numbered


def to_text(known: Known) -> str:
    """Return what is stored."""
    noted = known._asdict() | {"digests": Digests(known.digests).noted()}
    if isinstance(known.keys, Numbered):
        noted |= {"keys": [], "numbered": len(known.keys)}
    else:
        noted["keys"] = IdList(known.keys).noted()
    return json.dumps(noted, ensure_ascii=False)


def from_text(text: str) -> Known:
    """Return the rows that a text notes, also one of a version before."""
    noted = json.loads(text)
    if isinstance(noted, list):
        noted = {"keys": noted[0], "digests": noted[1], "id_column": NOT_NOTED}
    n = noted.pop("numbered", None)
    keys = IdList.of_noted(noted["keys"]) if n is None else Numbered(n)
    return Known(**noted | {"keys": keys, "digests": Digests.of_noted(noted["digests"])})
