"""Which rows a digest of many looks at."""

from everylabel.data.digests import spread


def test_rows_that_stand_for_others_are_spread_evenly() -> None:
    assert spread(0, 5).tolist() == [0, 1, 2, 3, 4]
    assert spread(10, 12, 8).tolist() == [10, 11]
    assert spread(3, 3).tolist() == []
    some = spread(100, 1100, 5)
    assert some.tolist() == [100, 349, 599, 849, 1099]
    assert (len(spread(0, 10**9)), spread(0, 10**9)[-1]) == (64, 10**9 - 1)
