"""The rows that a digest of many rows includes."""

import numpy as np
import pytest

from everylabel.data.digests import packed_digests, row_digests, spread, unpacked_digests


def test_rows_that_stand_for_others_are_spread_evenly() -> None:
    assert spread(0, 5).tolist() == [0, 1, 2, 3, 4]
    assert spread(10, 12, 8).tolist() == [10, 11]
    assert spread(3, 3).tolist() == []
    some = spread(100, 1100, 5)
    assert some.tolist() == [100, 349, 599, 849, 1099]
    assert (len(spread(0, 10**9)), spread(0, 10**9)[-1]) == (64, 10**9 - 1)


@pytest.mark.parametrize("texts", [["00ff00ff00ff00ff", "f" * 16], ["?", "z" * 16], ["00FF00FF00FF00FF"], []])
def test_stored_digests_are_read_back(texts: list[str]) -> None:
    stored = packed_digests(texts)
    assert unpacked_digests(stored) == texts
    assert unpacked_digests(texts) == texts  # as earlier versions stored them


def test_damaged_digests_are_refused() -> None:
    for damaged in ("00ff", "z" * 16):
        with pytest.raises(ValueError, match="no hashes"):
            unpacked_digests(damaged)


def test_digest_of_a_row_depends_on_the_row_alone() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    assert row_digests(rows)[1:3] == row_digests(rows[1:3])
    assert len(set(row_digests(rows))) == 4
