"""Choose instances by any strategy: the n best at once, or Algorithm 1 with an update after each pick."""

from collections.abc import Callable
from typing import Any

import numpy as np

from everylabel.core.arrays import to_numpy
from everylabel.core.checks import check_count, check_positions, check_rng, described
from everylabel.core.errors import EverylabelError
from everylabel.selection import strategies
from everylabel.selection.pool import PoolView, Where
from everylabel.selection.pool.sparse import without
from everylabel.selection.pool.view import LearningPool, best, check_view
from everylabel.selection.strategies.multi_label import information
from everylabel.selection.strategies.strategy import Score, Strategy, best_of_few

NEED_NO_MODEL = ("random", "coreset", "typiclust", "maxherding", "probcover")


def select(
    pool: PoolView,
    strategy: str | Strategy | Score = strategies.DEFAULT,
    n: int = 1,
    rng: np.random.Generator | None = None,
    ask: Callable[[int], Any] | None = None,
    *,
    candidates: Any = None,
    step_size: float | str | None = None,
    **options: Any,
) -> np.ndarray:
    """Return the positions of the next n instances to label, in the order of picking.

    Parameters
    ----------
    pool : Pool
        The pool to choose from; only free instances are chosen. Any other `PoolView` works as well.
    strategy : str, callable or Strategy
        A name from `strategies()`; "herding" suits unknown data. Or your own score function,
        f(pool, idx, rng, *, ...) -> (len(idx),), whose highest values are taken (docs/adding-a-strategy.md).
        Until the model has seen labels (of two classes, if there are three or more), Typiclust picks instead.
    n : int
        Number of instances to pick.
    rng : numpy.random.Generator, optional
        Makes all random choices; the same seed gives the same picks. None uses a new seed each time.
    ask : callable, optional
        ask(i) returns the label of instance i: its class number, or for a multi-label posterior a row of 1, 0
        or NaN. With it the pool learns each label before the next pick (Algorithm 1) and keeps the labels.
        Without it the n best are picked at once and the pool does not change.
    candidates : int or array, optional
        Choose from a random subset of that size (the paper: 1,000), or from these positions.
    step_size : float or "auto", optional
        Step size of the updates between picks; by default the strategy's, or else the pool's.
    **options
        Options of the strategy, for example risk="log" for "lookahead".

    Examples
    --------
    >>> pool = el.Pool(x[:1000], post, labelled_idx=np.arange(100), labels=y[:100])
    >>> idx = el.select(pool, "margin", n=5, rng=rng)  # the five best at once
    >>> idx = el.select(pool, n=5, rng=rng, ask=lambda i: y[i])  # each learned before the next
    >>> len(idx), len(pool.labelled_idx)
    (5, 105)
    """
    if ask is not None and not callable(ask):
        raise EverylabelError(
            f"ask is {described(ask)}; expected a function that returns an instance's label: "
            "ask=lambda i: y[i]"
        )
    learning: LearningPool = check_view(pool, PoolView if ask is None else LearningPool)
    chosen = strategies.get(strategy)
    chosen.check(options)
    strategies.check_labels_of(chosen, pool)
    if step_size is not None and "step_size" in chosen.options:
        options = {**options, "step_size": step_size}
    n, rng = check_count(n, "n"), np.random.default_rng() if rng is None else check_rng(rng)
    idx = free_candidates(pool, candidates, rng)
    if n > len(idx):
        raise EverylabelError(
            f"n is {n}, but {len(idx)} instance(s) can be chosen from ({len(pool.free_idx)} of "
            f"{len(pool)} in the pool are free); expected n of at most {len(idx)}"
        )
    usual = chosen.options.get("n_candidates")
    if ask is None and usual is not None:  # try at least as many as are picked
        options = {**options, "n_candidates": max(n, options.get("n_candidates", usual))}
    if ask is None:
        return idx[_checked(chosen, _pick(chosen, pool, idx, n, rng, options), n, len(idx))]
    step = step_size
    if step is None and learning.step_size is None and learning.method in (None, "second_order"):
        step = chosen.step_size
    learning.learns_by(step_size=step)  # raise before asking for a label
    picked = []
    for _ in range(n):  # Algorithm 1
        found = _pick(chosen, pool, idx, 1, rng, options)  # line 3
        at = int(_checked(chosen, found, 1, len(idx))[0])
        picked.append(int(idx[at]))
        label = ask(picked[-1])  # line 4
        if label is None:
            raise EverylabelError(f"ask returned None for instance {picked[-1]}; expected its class number")
        learning.add(picked[-1], label, step_size=step)  # lines 5 and 7
        idx = without(idx, at)  # line 6
    return np.asarray(picked)


def select_question(
    pool: PoolView, rng: np.random.Generator | None = None, *, candidates: Any = None
) -> tuple[int, int]:
    """Return the most informative yes-or-no question, (instance, class), if items may have several classes.

    The score is the mutual information of the answer and the class's logit: the entropy of the averaged
    probability minus the average of the entropy (Houlsby et al., 2011). The question is about a free
    instance, or a labelled one without an answer for some class. `candidates` are positions, or the number
    of instances to draw at random.

    Examples
    --------
    >>> answers = np.stack([y[:100] % 2 == 0, y[:100] > 4], axis=1)  # even, and above four
    >>> head = el.fit_map(x[:100], answers, n_classes=2)
    >>> several = el.laplace(head, x[:100], "bernoulli", labels=answers)
    >>> i, c = el.select_question(el.Pool(x[:1000], several, labelled_idx=np.arange(100), labels=answers))
    """
    check_view(pool, PoolView)
    if not pool.multi_label:
        raise EverylabelError(
            f"pool has likelihood {pool.posterior.likelihood!r}, where an instance has one class; expected "
            "'bernoulli' or 'bernoulli_per_class'"
        )
    rng = np.random.default_rng() if rng is None else check_rng(rng)
    labelled = pool.labelled_idx
    partly = labelled[np.isnan(pool.labels[labelled]).any(axis=1)]
    idx = np.union1d(pool.free_idx, partly)
    if isinstance(candidates, (int, np.integer)) and not isinstance(candidates, bool):
        idx = pool.sample(check_count(candidates, "candidates"), rng, idx)
    elif candidates is not None:
        idx = np.intersect1d(check_positions(candidates, len(pool), "candidates"), idx)
    if not len(idx):
        raise EverylabelError("pool has no instance with a class that is not answered; expected one at least")
    gain = information(pool.logits(idx), pool.variances(idx)[:, None])
    gain[~np.isnan(pool.labels[idx])] = -1.0
    at = int(best(gain.ravel(), 1)[0])
    return int(idx[at // pool.n_classes]), at % pool.n_classes


def _pick(
    strategy: Strategy,
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    options: dict[str, Any],
) -> np.ndarray:
    """Return n positions in idx."""
    acting = acting_strategy(strategy.name if _is_ours(strategy) else "", pool)
    if acting and acting != strategy.name:
        strategy, options = strategies.get(acting), {}
    if strategy.pick is not None:
        return np.asarray(strategy.pick(pool, idx, n, rng, **options))
    if strategy.few is not None:
        return best_of_few(strategy.few, n, pool, idx, rng, **options)
    assert strategy.score is not None
    score = strategy.score
    if strategy.alone:
        return pool.top(lambda part, some: score(part, some, rng, **options), idx, n)
    found = np.asarray(score(pool, idx, rng, **options))
    if found.shape != (len(idx),):
        raise EverylabelError(
            f"strategy {strategy.name!r} returned scores of shape {found.shape}; expected ({len(idx)},), "
            "one for each of idx"
        )
    return best(found, n)


def _checked(strategy: Strategy, found: np.ndarray, n: int, most: int) -> np.ndarray:
    """Return the picks; raise if a user's strategy did not return n different positions below `most`."""
    if _is_ours(strategy):
        return found
    whole = found.shape == (n,) and found.dtype.kind in "iu"
    if not whole or len(np.unique(found[(found >= 0) & (found < most)])) != n:
        raise EverylabelError(
            f"strategy {strategy.name!r} returned {found.tolist()!r:.80}; expected {n} different positions "
            f"of the {most} candidates"
        )
    return found


def _is_ours(strategy: Strategy) -> bool:
    return strategies.STRATEGIES.get(strategy.name) is strategy


def acting_strategy(strategy: str, pool: PoolView) -> str:
    """Return the strategy that actually picks: Typiclust if the named one needs a model and there is none."""
    return "typiclust" if strategy not in NEED_NO_MODEL and cannot_separate(pool) else strategy


def scores_each_alone(strategy: str, pool: PoolView) -> bool:
    """Return whether the strategy that actually picks scores each instance independently of the others."""
    acting = strategies.get(acting_strategy(strategy, pool))
    return acting.alone or acting.name == "random"


def cannot_separate(pool: PoolView) -> bool:
    """Return whether the model cannot separate classes: no label yet, or labels of one of k > 2 classes."""
    mean = to_numpy(pool.posterior.mean)
    if pool.n_classes < 3 or pool.multi_label:
        return not np.any(mean)
    # after labels of one class only, all other classes have equal weights: at most two values per row
    close = 1e-9 * max(float(np.abs(row).max()) for row in mean[[0, -1]])
    return all(np.sum(np.diff(np.sort(row)) > close) < 2 for row in mean)


def free_candidates(pool: PoolView, candidates: Any, rng: np.random.Generator) -> np.ndarray:
    """Return the free instances to choose from: all, a random subset of a given size, or given positions."""
    if candidates is None:
        return pool.free_idx
    if isinstance(candidates, (int, np.integer)) and not isinstance(candidates, bool):
        return pool.sample(check_count(candidates, "candidates"), rng)
    idx = np.sort(check_positions(candidates, len(pool), "candidates"))
    taken = int(np.sum(pool.state[idx] != Where.FREE))
    if taken:
        raise EverylabelError(
            f"candidates holds {taken} instance(s) that are labelled or leased; expected free ones"
        )
    return idx
