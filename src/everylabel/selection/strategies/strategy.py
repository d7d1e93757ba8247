"""The type of a strategy: a score (higher is better) of all or of a few instances, or a rule to pick a batch.

To add one, copy a small file such as `coreset.py` and add a line to the table in `__init__.py`;
docs/adding-a-strategy.md has a skeleton.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.selection.pool import PoolView
from everylabel.selection.pool.view import best

Score = Callable[..., np.ndarray]
Few = Callable[..., tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy. Exactly one of `score`, `few` and `pick` is given.

    score(pool, idx, rng, **options) -> (len(idx),)         for one pick at a time
    few(pool, idx, rng, **options) -> (m,) positions of idx that were tried, and (m,) their scores
    pick(pool, idx, n, rng, **options) -> n positions of idx, in the order of picking
    """

    name: str
    meaning: str
    paper: str
    needs: str = "logits"
    score: Score | None = None
    few: Few | None = None
    pick: Callable[..., np.ndarray] | None = None
    alone: bool = False  # each instance is scored independently of the others
    step_size: float | str | None = None  # step size of updates between picks; None: the pool's
    multi_label: bool = False  # also supports several classes per item

    @property
    def options(self) -> dict[str, Any]:
        """Return the strategy's options and their defaults."""
        rule = self.score or self.few or self.pick
        assert rule is not None
        return dict((_kept_options if isinstance(rule, Hashable) else _options)(rule))

    @property
    def has_scores(self) -> bool:
        """Return whether the strategy scores instances, rather than picking a batch."""
        return self.pick is None

    def check(self, options: dict[str, Any]) -> None:
        """Raise if an option is not one of this strategy's."""
        for name in options:
            if name not in self.options:
                expected = ", ".join(self.options) or "none"
                raise EverylabelError(
                    f"{name} is not an option of strategy {self.name!r}; expected one of: {expected}"
                )


def all_scores(
    strategy: Strategy, pool: PoolView, idx: np.ndarray, rng: np.random.Generator, **options: Any
) -> np.ndarray:
    """Return the scores of idx; -inf for instances that a `few` strategy has not tried."""
    if strategy.score is not None:
        return strategy.score(pool, idx, rng, **options)
    assert strategy.few is not None
    tried, found = strategy.few(pool, idx, rng, **options)
    every = np.full(len(idx), -np.inf)
    every[tried] = found
    return every


def best_of_few(rule: Few, n: int, *given: Any, **options: Any) -> np.ndarray:
    """Return the positions of the n best instances by a `few` rule."""
    tried, scores = (np.asarray(part) for part in rule(*given, **options))
    order = np.argsort(tried)  # in a tie, the lowest position wins
    return np.asarray(tried[order][best(scores[order], n)])


def _options(rule: Callable[..., Any]) -> dict[str, Any]:
    try:
        known = signature(rule).parameters.values()
    except ValueError as error:  # a C function without a signature
        raise EverylabelError(
            f"strategy is {rule!r}, whose arguments cannot be inspected; expected a function of "
            "(pool, idx, rng)"
        ) from error
    return {p.name: p.default for p in known if p.kind is p.KEYWORD_ONLY}


def squared_distances(rows: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return |x - y|^2 (n, m) between rows (n, d) and to (m, d), never below 0."""
    cross = rows @ to.T
    return np.maximum(np.sum(rows**2, axis=1)[:, None] + np.sum(to**2, axis=1) - 2.0 * cross, 0.0)


_kept_options = lru_cache(64)(_options)  # options of built-in strategies and of some user-defined ones
