"""Which rows a digest of many looks at."""

import numpy as np
import pytest

from everylabel.data.digests import Digests, spread


def test_rows_that_stand_for_others_are_spread_evenly() -> None:
    assert spread(0, 5).tolist() == [0, 1, 2, 3, 4]
    assert spread(10, 12, 8).tolist() == [10, 11]
    assert spread(3, 3).tolist() == []
    some = spread(100, 1100, 5)
    assert some.tolist() == [100, 349, 599, 849, 1099]
    assert (len(spread(0, 10**9)), spread(0, 10**9)[-1]) == (64, 10**9 - 1)


@pytest.mark.parametrize("texts", [["00ff00ff00ff00ff", "f" * 16], ["?", "z" * 16], ["00FF00FF00FF00FF"], []])
def test_digests_are_the_texts_they_were(texts: list[str]) -> None:
    digests = Digests(texts)
    assert list(digests) == texts
    assert digests == texts
    assert digests == Digests(iter(texts))
    assert Digests.of_noted(digests.noted()) == digests
    assert digests != Digests([*texts, "0" * 16])
    assert list(digests[:1]) == texts[:1]
    assert Digests(np.array([255], np.uint64))[0] == "00000000000000ff"
