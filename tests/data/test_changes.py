"""Matching of rows after a source has changed: by id, content and order, and against a slow twin."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import no_labels
from everylabel.data.digests import text_digests
from everylabel.data.items import Items
from everylabel.data.source_diff import NOT_NOTED, Change, RecordedRows, compare, match_rows


def source(texts: str | Sequence[str], ids: Sequence[str] | None = None) -> Items:
    """Return texts, one a letter of a word; with or without ids of their own."""
    names = list(ids) if ids is not None else [str(i) for i in range(len(texts))]
    own = None if ids is None else names
    column = None if ids is None else "id"
    digests = text_digests(texts)
    return Items(
        list(texts), "text", names, no_labels(len(names)), digests=digests, own_ids=own, id_column=column
    )


def noted(items: Items, before: RecordedRows | None = None) -> RecordedRows:
    return (before or RecordedRows((), ())).renewed(items)


def test_moved_rows_are_found_by_content() -> None:
    known = noted(source("abcdef"))
    turned = compare(known, source("fedcba"))
    assert turned.keys == ("5", "4", "3", "2", "1", "0")
    assert (turned.moved, turned.only_appended, bool(turned)) == (5, True, True)
    assert "5 moved, with their labels" in str(turned.check("x.csv"))
    fewer = compare(known, source("acdef"))
    assert (fewer.keys, fewer.gone, fewer.moved) == (("0", "2", "3", "4", "5"), ("1",), 0)
    more = compare(known, source("axbcdefy"))
    assert (more.keys, more.appended) == (("0", "6", "1", "2", "3", "4", "5", "7"), ("1", "7"))
    assert more.only_appended


def test_a_row_that_stands_where_another_stood_is_changed() -> None:
    known = noted(source("abcdef"))
    edited = compare(known, source("aXcdeY"))
    assert (edited.keys, edited.changed_keys) == (tuple("012345"), ("1", "5"))
    assert (edited.gone, edited.appended) == ((), ())
    with pytest.raises(
        EverylabelError, match=r"2 with other content: 1, 5\).*--accept-changes.*--confirm-labels"
    ):
        edited.check("x.csv")
    doubtful = compare(known, source("aXdef"))  # one for two: it could be either
    assert (doubtful.changed, doubtful.gone, doubtful.appended) == ((), ("1", "2"), ("1",))
    first = compare(known, source("Xbcdef"))
    assert first.changed_keys == ("0",)


def test_contents_that_occur_twice_are_distinguished_by_order() -> None:
    known = noted(source("abab"))
    change = compare(known, source("xabab"))
    assert change.keys == ("4", "0", "1", "2", "3")


def test_ids_count_more_than_contents() -> None:
    known = noted(source("abcd", ["7", "8", "9", "10"]))
    change = compare(known, source("cXa", ["9", "8", "7"]))
    assert (change.keys, change.changed, change.gone) == (("9", "8", "7"), ("8",), ("10",))
    shifted = compare(known, source("bcd", ["7", "8", "9"]))
    with pytest.raises(EverylabelError, match="If the rows got new ids, pass --id-column none"):
        shifted.check("x.csv")
    advised = compare(known, source("bcd"))
    assert (advised.keys, advised.gone) == (("8", "9", "10"), ("7",))
    with pytest.raises(EverylabelError) as told:
        advised.check("x.csv")
    assert "labels of missing rows are kept and not used" in str(told.value)
    assert "--confirm-labels" not in str(told.value)  # there is nothing to confirm


def test_rows_known_by_number_stay_so_when_ids_are_found() -> None:
    plain = noted(source("abcd"))
    for known in (
        plain,
        RecordedRows(plain.keys, plain.digests, id_column=NOT_NOTED),
    ):  # as older versions noted it
        change = compare(known, source("bcd", ["1", "2", "3"]))  # ids that are the numbers of other rows
        assert (change.keys, change.changed, change.gone) == (("1", "2", "3"), (), ("0",))
        change = compare(known, source("bcd", ["1001", "1002", "1003"]))  # ids that are no numbers of rows
        assert (change.keys, change.appended, change.gone) == (("1", "2", "3"), (), ("0",))
        found = source("abcd", ["2", "3", "4", "5"])
        change = compare(known, found)
        assert (change.keys, bool(change)) == (("0", "1", "2", "3"), False)
        renewed = known.renewed(replace(found, ids=change.keys))
        assert (renewed.keys, renewed.own_ids) == (["0", "1", "2", "3"], ["2", "3", "4", "5"])
        later = compare(renewed, source("Xdcz", ["2", "5", "4", "0"]))  # 0 is new, and the log has had a 0
        assert (later.keys, later.changed, later.gone) == (("0", "3", "2", "4"), ("2",), ("3",))
    older = RecordedRows(["x", "y"], text_digests("ab"), id_column=NOT_NOTED)
    assert compare(older, source("aX", ["x", "y"])).changed == ("y",)


def test_round_trip_is_identical() -> None:
    known = noted(source("abc"))
    items = source("ac")
    change = compare(known, items)
    known = known.renewed(replace(items, ids=change.keys))
    assert (known.keys, known.gone) == (["0", "2", "1"], 1)
    back = compare(known, source("acxb"))
    assert back.keys == ("0", "2", "3", "1")
    assert not compare(known, source("ac"))


def slow_match(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """The twin: for each new row, the first old row of that name that is not taken yet."""
    found: list[int | None] = []
    for name in new:
        found.append(next((i for i, other in enumerate(old) if other == name and i not in found), None))
    return found


def test_labels_stay_with_their_contents_whatever_is_done_to_the_rows() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        before = [str(c) for c in rng.integers(12, size=rng.integers(1, 15))]
        after = [str(c) for c in rng.integers(12, size=rng.integers(1, 15))]
        assert match_rows(before, after) == slow_match(before, after)
        change = compare(noted(source(before)), source(after))
        assert len(set(change.keys)) == len(after)
        for key, text in zip(change.keys, after, strict=True):  # a row has another's key only if reported
            if int(key) < len(before) and key not in change.changed_keys:
                assert before[int(key)] == text
        assert len(change.gone) + sum(int(key) < len(before) for key in change.keys) == len(before)


def test_nothing_noted_is_no_change() -> None:
    assert compare(RecordedRows((), ()), source("ab")) == Change(keys=("0", "1"))
