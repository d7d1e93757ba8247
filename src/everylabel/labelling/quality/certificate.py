"""Confirmations that certify the model's labels: valid at any time, for the largest of several nested sets.

Set 0 holds N items that the model would label; set j + 1 holds the surest items of set j. People confirm
items of the current set in random order; the confirmed items that lie in a smaller set are a random sample of
that set, too. Each set has a test by betting against "a share of at least `rate` is wrong". With n confirmed
and w of them wrong so far,
    m = (rate N - w) / (N - n)              the hypothesis's share of wrong items among the others
    capital *= 1 + c / (1 - m) (m - x)      x = 1 if the next one is wrong, else 0
Under that hypothesis the capital is a supermartingale, and so is a mixture of several bets c in [0, 1]. By
Ville's inequality the probability that it ever reaches 1 / alpha is at most alpha (Waudby-Smith & Ramdas
2020, "Confidence sequences for sampling without replacement"). The sets share alpha = 1 - confidence, so that
people may watch, stop at any time and take any certified set. A set that is no longer sampled keeps its
capital. Of 1,000 populations each with one error too many, 26 to 30 were certified at 95 %.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf

import numpy as np

from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import ClassSet, Value

BETS = ((1.0, 0.9), (0.8, 0.1))  # c and its weight: the first is the fastest, the second survives an error
SETS = ((1.0, 0.9), (0.5, 0.1))  # share of the items, the best first, and share of alpha


@dataclass
class _Test:
    """The test of one set: its bets and their capital."""

    size: int
    rate: float
    limit: float  # capital that certifies the set
    n: int = 0
    wrong: int = 0
    certified: bool = False
    bets: list[float] = field(default_factory=lambda: [weight for _, weight in BETS])

    def add(self, wrong: bool) -> None:
        """Update the capital by one more confirmation."""
        m = (self.rate * self.size - self.wrong) / (self.size - self.n)
        if m <= 0.0:  # enough are wrong to make the hypothesis true
            self.bets = [0.0 for _ in BETS]
        elif m >= 1.0:  # the hypothesis needs all others to be wrong
            self.bets = self.bets if wrong else [inf for _ in BETS]
        else:
            self.bets = [
                now * ((1.0 - c) if wrong else 1.0 + c * m / (1.0 - m))
                for now, (c, _) in zip(self.bets, BETS, strict=True)
            ]
        self.n, self.wrong = self.n + 1, self.wrong + wrong
        self.certified = self.certified or sum(self.bets) >= self.limit

    def needed(self) -> int | None:
        """Return the further confirmations without an error that certify the set; None if impossible."""
        if self.certified:
            return 0
        m = (self.rate * self.size - self.wrong) / (self.size - np.arange(self.n, self.size))
        if self.n == self.size or m[0] <= 0.0:
            return None
        bets = zip(self.bets, BETS, strict=True)
        with np.errstate(divide="ignore", over="ignore"):
            odds = np.where(m < 1.0, m / np.maximum(1.0 - m, 0.0), inf)
            capital = sum(now * np.cumprod(1.0 + c * odds) for now, (c, _) in bets if now)
        enough = np.flatnonzero(np.asarray(capital) >= self.limit)
        return int(enough[0]) + 1 if len(enough) else None


@dataclass(frozen=True)
class Certificate:
    """The progress of the confirmations."""

    set: int  # the current set
    size: int  # items of the current set
    confirmed: int  # confirmed items of the current set
    wrong: int
    needed: int | None  # further confirmations without an error; None: the set cannot be certified
    certified: int | None  # the largest certified set, if any
    next: int | None  # index of the next item to confirm; None: none is left


def levels(scores: Sequence[float]) -> list[int]:
    """Return the smallest set that contains each item; the largest scores are in all sets."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    found = [0] * len(scores)
    for j, (share, _) in enumerate(SETS):
        for i in order[: int(share * len(scores))]:
            found[i] = j
    return found


def certify(
    levels: Sequence[int], wrong: Iterable[bool | None], *, rate: float, confidence: float
) -> Certificate:
    """Return the progress of the confirmations.

    levels : the smallest set that contains each item, in the random order in which items are confirmed
    wrong : whether people found each item wrong; None: not confirmed yet
    """
    counts = Counter(levels)
    sizes = [sum(n for level, n in counts.items() if level >= j) for j in range(len(SETS))]
    alpha = 1.0 - confidence
    tests = [_Test(n, rate, 1.0 / (alpha * part)) for n, (_, part) in zip(sizes, SETS, strict=True)]
    current, after = 0, None
    for i, (level, found) in enumerate(zip(levels, wrong, strict=True)):  # ends at the first unconfirmed item
        if level < current:
            continue
        if found is None:
            after = i
            break
        for test in tests[current : level + 1]:
            test.add(found)
        if found:
            current = _cheapest(tests, current)
    now, done = tests[current], next((j for j, test in enumerate(tests) if test.certified), None)
    return Certificate(current, now.size, now.n, now.wrong, now.needed(), done, after)


def certificate_of(state: State) -> Certificate | None:
    """Return the progress of confirming the model's proposals; None if no confirmation is running."""
    promise = state.confirmation
    if promise is None or promise.rate is None:
        return None
    where = [level for _, _, level in state.proposals.values()]
    found = (is_wrong(state, item, said) for item, (said, _, _) in state.proposals.items())
    return certify(where, found, rate=promise.rate, confidence=promise.confidence)


def is_wrong(state: State, item: int, said: Value) -> bool | None:
    """Return whether people disagree with a proposal; skipped and "cannot tell" items count as wrong.

    In a multi-label project all classes that the model proposes or denies have to be answered and right.
    """
    if item in state.labels:
        now, label = state.current(said), state.labels[item]
        if isinstance(now, ClassSet) and isinstance(label, ClassSet):
            return not ({*now.present} <= {*label.present} and {*now.absent} <= {*label.absent})
        return now != label
    return True if item in state.answers or item in state.skipped else None


def to_confirm(state: State) -> Iterator[int]:
    """Yield the items to confirm, in order; none once the current set is certified."""
    now = certificate_of(state)
    if now is None or now.next is None or now.needed == 0:
        return
    for item, (_, _, level) in islice(state.proposals.items(), now.next, None):
        if level >= now.set and item not in state.answers:
            yield item


def _cheapest(tests: Sequence[_Test], current: int) -> int:
    """Return the set that needs the fewest further confirmations per item that the model then labels."""
    costs = {}
    for j, test in enumerate(tests[current:], current):
        needed = test.needed()
        costs[j] = inf if needed is None or not test.size else needed / test.size
    return min(costs, key=lambda j: (costs[j], j))
