"""Which items are set aside for testing: so many at random, or those that a column of the source names."""

from collections.abc import Sequence

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.cells import label_of
from everylabel.data.items import Items
from everylabel.labelling.ledger import Ledger
from everylabel.selection.pool.rest import all_but

SAYS_TEST = ("test", "true", "yes", "1")  # cells of such a column, in whatever case


def held_out_items(items: Items, told: str | None) -> int | list[str]:
    """Return how many items are wanted, or the ids of those that a column of this name says are for tests."""
    if told is None:
        return 0
    if told.strip().isdigit():
        return int(told)
    if told not in items.columns:
        expected = listed([repr(name) for name in items.columns], 30) or "none: the source has no columns"
        raise EverylabelError(
            f"--test is {told!r}; expected a number of items, or one of the columns: {expected}"
        )
    found = says_test(items, told)
    if not found:
        raise EverylabelError(
            f"--test is {told!r}, and no row there says {', '.join(SAYS_TEST)}; expected some that do"
        )
    return found


def says_test(items: Items, column: str) -> list[str]:
    """Return the ids of items that a column says are for tests."""
    cells = zip(items.ids, items.columns.get(column, ()), strict=False)
    return [name for name, cell in cells if label_of(cell).strip().casefold() in SAYS_TEST]


def to_set_aside(ledger: Ledger, wanted: int | Sequence[str]) -> list[str]:
    """Return ids to set aside now; of a number, so many more that nobody has answered, drawn at random."""
    if not isinstance(wanted, int):
        return [name for name in wanted if ledger.position.get(name, -1) not in {-1, *ledger.test}]
    missing = wanted - len(ledger.test)
    if missing <= 0:
        return []
    free = all_but(len(ledger.ids), sorted({*ledger.answers, *ledger.test}))
    if missing >= len(free):
        raise EverylabelError(
            f"--test is {wanted}, and {len(free):,} items have no answer; expected fewer, so that some are "
            "left to learn from, or a column that names test items"
        )
    rng = np.random.default_rng([ledger.seed, ledger.seq])
    return [ledger.ids[i] for i in free[rng.choice(len(free), missing, replace=False)]]
