"""Computed ids are what a list of them is, without the list."""

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.changes import compare
from everylabel.data.classes import no_labels
from everylabel.data.digests import Digests
from everylabel.data.id_list import IdList
from everylabel.data.items import Items
from everylabel.data.known import Known
from everylabel.data.numbered import Numbered


@pytest.mark.parametrize("n", [0, 12])
def test_numbers_are_a_list_of_ids(n: int) -> None:
    ids, slow = Numbered(n), [str(i) for i in range(n)]
    assert list(ids) == slow
    assert ids == Numbered(n)
    assert ids == IdList(ids)
    assert ids != Numbered(n + 1)
    for name in [*map(str, range(15)), "", "03", "+3", "٣", "-1", "3.0", "9" * 30]:
        assert (name in ids) == (name in slow)
    assert dict(ids.position) == {name: i for i, name in enumerate(slow)}


def test_other_rows_are_refused() -> None:
    items = Items([*"abc"], "text", Numbered(3), no_labels(3), digests=("one",))
    known = Known((), ()).renewed(items)
    assert known == Known(Numbered(3), Digests(["one"]))
    assert isinstance(known.keys, Numbered)
    assert not compare(known, items)
    assert compare(known, items).keys == items.ids
    for accept in (False, True):
        with pytest.raises(EverylabelError, match=r"these 3 rows are not the 4 that were labelled"):
            compare(Known(Numbered(4), Digests(["one"])), items).check("s", accept)
    change = compare(Known(Numbered(3), Digests(["two"])), items)
    assert not change.only_appended
    assert change.keys == items.ids
    with pytest.raises(
        EverylabelError, match=r"these 3 rows are not the 3 .* everylabel label .* --accept-changes"
    ):
        change.check("s")
    assert "3 rows of shards are others; labels stay" in str(change.check("s", accept=True))
