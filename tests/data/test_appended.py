"""What grows at its end without a copy, beside its slow twin, a list."""

from typing import Any

import numpy as np
import pytest

from everylabel.data.appended import Appended, appended, copied
from everylabel.data.display import Texts
from everylabel.data.sent import Sent, sent_items
from tests.data.test_items import some


@pytest.mark.parametrize("seed", range(10))
def test_each_stays_what_it_is_whatever_the_others_become(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made: list[Any] = [list(range(seed))]
    twins: list[list[int]] = [list(range(seed))]
    for i in range(40):
        at = int(rng.integers(len(made))) if rng.random() < 0.3 else -1  # most go on from the last
        more = list(range(100 * i, 100 * i + int(rng.integers(4))))
        made.append(appended(made[at], more))
        twins.append([*twins[at], *more])
        for mine, twin in zip(made, twins, strict=True):
            assert (mine == twin, list(mine), len(mine)) == (True, twin, len(twin))
    mine, twin = made[-1], twins[-1]
    assert [mine[i] for i in range(-len(twin), len(twin))] == [twin[i] for i in range(-len(twin), len(twin))]
    assert mine[3:-2:2] == twin[3:-2:2]
    assert (mine != twin[:-1], mine != [*twin[:-1], "x"], mine == "x") == (True, True, False)
    with pytest.raises(IndexError):
        mine[len(twin)]


def test_one_more_costs_one() -> None:
    looked_at = 0

    class Watched(list[int]):
        def __iter__(self) -> Any:
            nonlocal looked_at
            looked_at += len(self)
            return super().__iter__()

        def __getitem__(self, at: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(at)

    made: Any = Watched(range(1000))
    for i in range(50):
        made = appended(made, [i])
        assert made[-1] == i
    assert looked_at == 0
    assert isinstance(made, Appended)


def test_items_that_follow_are_the_same_either_way() -> None:
    known: dict[str, Any] = {"own_ids": ["x", "y", "z"], "columns": {"n": [1, 2, 3]}, "digests": ["", "", ""]}
    fast = slow = some(**known, display=Texts(["a", "b", "c"], {"n": [1, 2, 3]}))
    for i in range(4):
        sent = [Sent(f"new {i}", f"text {i}", {"n": i, f"only {i}": "?"})]
        fast = fast.followed_by(sent_items(sent, fast, None), appended)
        slow = slow.followed_by(sent_items(sent, slow, None), copied)
        for name in ("items", "ids", "own_ids", "rows", "digests", "classes", "skipped", "sent"):
            assert getattr(fast, name) == getattr(slow, name), name
        assert {name: list(values) for name, values in fast.columns.items()} == slow.columns
        assert [fast.display.item(j) for j in range(4 + i)] == [slow.display.item(j) for j in range(4 + i)]
        assert fast.labels.tolist() == slow.labels.tolist()
        assert [fast.known_as(j) for j in range(len(fast))] == [slow.known_as(j) for j in range(len(slow))]
    assert fast.without([0, 4]).ids == slow.without([0, 4]).ids
