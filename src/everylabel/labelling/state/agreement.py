"""How far people agree: the share of pairs that do, and Krippendorff's alpha (2004) for nominal answers.

Kept as sums, so that one more answer costs nothing however many there are. "Cannot tell" is a missing value.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Agreement:
    """Sums over items with two answers or more."""

    items: int = 0
    same: int = 0
    pairs: int = 0
    observed: float = 0.0
    totals: Counter[int] = field(default_factory=Counter)

    def add(self, values: Sequence[int], sign: int = 1) -> None:
        """Take in the answers to one item, or take them out again (sign -1)."""
        m = len(values)
        if m < 2:
            return
        alike = sum(c * (c - 1) for c in Counter(values).values())
        self.items += sign
        self.same += sign * alike
        self.pairs += sign * m * (m - 1)
        self.observed += sign * (m * (m - 1) - alike) / (m - 1)
        for value in values:
            self.totals[value] += sign

    def figures(self) -> dict[str, Any] | None:
        """Return items, share and alpha; None while no item has two answers."""
        if not self.items:
            return None
        n = sum(self.totals.values())
        chance = sum(c * (n - c) for c in self.totals.values()) / (n - 1)
        alpha = 1.0 - self.observed / chance if chance else None  # one answer only: nothing to agree on
        return {"items": self.items, "share": self.same / self.pairs, "alpha": alpha}
