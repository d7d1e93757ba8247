"""Ids in order with the position of each; those of shards are computed."""

import pytest

from everylabel.data.items import IdList, Numbered, ids_from_stored, stored_ids


def test_positions_follow_appended_ids() -> None:
    ids = IdList(["b", "a"])
    position = ids.position
    ids.extend(["c"])
    assert list(ids) == ["b", "a", "c"]
    assert (len(ids), ids[-1], list(ids[:2])) == (3, "c", ["b", "a"])
    assert [position[name] for name in ids] == [0, 1, 2]
    assert ("c" in ids, "d" in ids) == (True, False)


def test_a_copy_does_not_follow() -> None:
    ids = IdList(["a"])
    copy = IdList(ids)
    ids.extend(["b"])
    assert (len(copy), "b" in copy) == (1, False)


def test_equal_to_any_sequence_of_the_same_ids() -> None:
    ids = IdList(["0", "1"])
    assert ids == ["0", "1"] == ids
    assert ids == IdList(("0", "1")) == Numbered(2)
    assert Numbered(2) == ids
    assert ids != ["1", "0"]
    assert ids != "01"


def test_ids_of_shards_are_row_numbers_and_do_not_grow() -> None:
    ids = Numbered(12)
    assert list(ids) == [str(i) for i in range(12)]
    assert (ids[3], list(ids[10:]), ids.position["11"]) == ("3", ["10", "11"], 11)
    for name in ("12", "-1", "01", "x", "", "１"):
        assert name not in ids.position
    with pytest.raises(TypeError, match="do not grow"):
        ids.extend(["12"])


@pytest.mark.parametrize("ids", [["a", "b"], ["0", "1", "2"], ["1", "0"], []])
def test_stored_ids_come_back(ids: list[str]) -> None:
    stored = stored_ids(IdList(ids))
    assert isinstance(stored, int) == (ids == ["0", "1", "2"])
    assert list(ids_from_stored(stored)) == ids
