"""What a strategy is: a score (higher is better) or a rule that picks a batch, and where it comes from.

To add one, copy a small file such as `coreset.py` and add a line to the table in `__init__.py`;
docs/adding-a-strategy.md has a skeleton.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from inspect import signature
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.selection.pool import PoolView
from everylabel.selection.ranking import best


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy. Exactly one of `score` and `pick` is given.

    score(pool, idx, rng, **options) -> (len(idx),)         for one pick at a time
    pick(pool, idx, n, rng, **options) -> n positions of idx, in the order of picking
    """

    name: str
    meaning: str
    paper: str
    needs: str = "logits"
    score: Callable[..., np.ndarray] | None = None
    pick: Callable[..., np.ndarray] | None = None
    pick_one: Callable[..., int] | None = None  # a faster way to the best score of all
    alone: bool = False  # each instance is scored by itself, whatever the others are
    step_size: float | str | None = None  # of the update between picks; None is the pool's own

    @property
    def options(self) -> dict[str, Any]:
        """Return the strategy's own settings and their defaults."""
        return dict(_options(self.score or self.pick))

    def check(self, options: dict[str, Any]) -> None:
        """Raise if an option is not one of this strategy's."""
        for name in options:
            if name not in self.options:
                expected = ", ".join(self.options) or "none"
                raise EverylabelError(
                    f"{name} is not an option of strategy {self.name!r}; expected one of: {expected}"
                )


Few = Callable[..., tuple[np.ndarray, np.ndarray]]


def of_few(rule: Few) -> Any:
    """Make a score of a rule that tries some instances and returns their positions and scores.

    All others get -inf. Who wants the best alone asks the rule itself, `few`, by `best_of_few`.
    """

    @wraps(rule)
    def score(pool: PoolView, idx: np.ndarray, rng: np.random.Generator, **options: Any) -> np.ndarray:
        tried, scores = rule(pool, idx, rng, **options)
        found = np.full(len(idx), -np.inf)
        found[tried] = scores
        return found

    score.few = rule  # type: ignore[attr-defined]
    return score


def best_of_few(rule: Few, n: int, *given: Any, **options: Any) -> np.ndarray:
    """Return the positions of the n best by a rule that tries some."""
    tried, scores = rule(*given, **options)
    order = np.argsort(tried)  # of ties the lowest position wins
    return np.asarray(tried[order][best(scores[order], n)])


@cache
def _options(rule: Callable[..., Any]) -> dict[str, Any]:
    known = signature(rule).parameters.values()
    return {p.name: p.default for p in known if p.kind is p.KEYWORD_ONLY}


def squared_distances(rows: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return |x - y|^2 (n, m) between rows (n, d) and to (m, d), never below 0."""
    cross = rows @ to.T
    return np.maximum(np.sum(rows**2, axis=1)[:, None] + np.sum(to**2, axis=1) - 2.0 * cross, 0.0)
