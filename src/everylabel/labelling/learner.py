"""The model behind the page: a pool whose instances become labelled, out, aside or free.

On pools of up to some 10,000 instances each label is learned exactly, as if trained anew. On larger ones
it is learned by the second-order update in one pass, and exact training follows in the background:
without it, 100 labels of digits gave an accuracy of .86 in place of .94. There a label that turns, and one
that is taken back, cost what a label costs, too: see `closed_form` of the pool.
A learner is a pure function of where it started (labels trained on exactly) and of the changes it
followed since, block by block: the same changes give the same numbers, bit for bit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.core.softmax import softmax
from everylabel.labelling.kept import packed_names, unpacked_names
from everylabel.labelling.records import Place
from everylabel.labelling.training import RuledOut, in_order, train
from everylabel.models.names import NameRows, name_rows
from everylabel.models.scaling import Scaling
from everylabel.selection import Pool, select
from everylabel.selection.pool import Where
from everylabel.selection.pool.scaled import Scaled
from everylabel.selection.select import knows_nothing, looks_at_each

SAMPLED = 1000  # instances that tell how sure the model is of the whole pool
COLD_FROM = 2000  # candidates of the first picks, before anything is known
COPIES = 0.95  # cosine from which on two instances are near copies
TRIED, FEWEST_TRIED = 300, 60  # candidates for one person, and when many are labelling
EVALUATED, FEWEST_EVALUATED = 1000, 250  # instances that a choice is judged by, likewise
DRAWN_FROM = 5000  # instances that a check of a class is drawn from
TRAINED = 1e-6  # tolerance of a training that labels are learned on from
TAUGHT_UP_TO = 10**7  # rows d k: so far names are taught at once, beyond in the background
MANY = 4  # labels changed at once from which on training anew is faster than one by one
EXACT_UP_TO = 10**8  # n d k: so far each label is learned exactly; beyond, by the second-order update


MakePool = Callable[
    [Any, Posterior, Mapping[str, Any], bool], Pool
]  # features, what is known, exact if it can be


class Beginning(NamedTuple):
    """What a model is begun anew from, when classes have gone."""

    labels: Mapping[int, int]  # of instances, by column of the model
    names: Mapping[int, np.ndarray]  # vectors of names that teach, likewise
    places: Sequence[tuple[int, Place]]  # instances that are out or set aside


class Change(NamedTuple):
    """What an event did to the model: an instance's new place, and how many classes there are."""

    seq: int
    block: int
    item: int | None
    place: Place
    n_classes: int
    names: Mapping[int, np.ndarray] | None = None  # vectors of names that teach now, if changed
    many: bool = False  # taken back with others at once
    here: int = 0  # how many instances there are now, if more than before
    later: bool = False  # its label came with the source: the next training learns it
    anew: Beginning | None = None  # all that there is, if columns of the model have gone or moved


class Learner:
    """A pool that starts from labels trained on exactly, and follows changes."""

    def __init__(
        self,
        features: np.ndarray | Scaled,
        labels: Mapping[int, int],
        n_classes: int,
        names: Mapping[int, np.ndarray] | None = None,
        scaling: Scaling | None = None,
        told_by: int | None = None,
        more: Callable[[int, int], np.ndarray | Scaled] | None = None,
        ruled_out: RuledOut | None = None,
        make_pool: MakePool | None = None,
    ) -> None:
        """Train on labels, and on classes that were ruled out for rows without one.

        `told_by` rows told the scaling, `more(start, stop)` are features that join; `make_pool` makes another
        kind of pool than the one of this machine.
        """
        self.scaling, self.told_by, self._more = scaling, told_by, more
        self._make_pool = make_pool or local_pool
        self.waiting = 0  # labels that the next training learns
        self._names: Mapping[int, np.ndarray] | None = None  # to be taught at the end of a block
        self._taught = names or {}
        self.trained: Posterior | None = None  # with the labels behind it, until it is settled
        self._at_once: dict[int, Place] = {}  # whose labels changed in this block: where they belong now
        self.pool = self._trained(features, labels, n_classes, ruled_out or {})
        self.sample = _drawn(len(features))

    @property
    def exact(self) -> bool:
        """Return whether each label is learned exactly."""
        return self.pool.method == "exact"

    def _trained(
        self,
        features: np.ndarray | Scaled,
        labels: Mapping[int, int],
        n_classes: int,
        ruled_out: RuledOut,
        init: Any = None,
    ) -> Pool:
        """Return a pool whose posterior is trained on labels and the like, and on the names that teach."""
        names = self.rows_of(self._taught)
        posterior = train(features, labels, n_classes, names, ruled_out=ruled_out, init=init, tol=TRAINED)
        idx, y = in_order(labels)
        self.trained = posterior
        known = {"labelled_idx": idx, "labels": y, "ruled_out": ruled_out}
        return self._make_pool(features, posterior, known, features.size * posterior.n_classes <= EXACT_UP_TO)

    def follow(self, changes: Iterable[Change], later: bool = False) -> None:
        """Make these changes, each block in one pass over the pool.

        later : leave the logits behind, for `settle`; in how many parts the changes come makes no difference
        """
        for _, block in groupby(changes, key=lambda change: change.block):
            with self.together(later):
                for change in block:
                    self.become(change)

    def settle(self) -> None:
        """Bring logits that were left behind up, and let go of what was needed to tell how good it is."""
        self.pool.settle()
        self.trained = None

    def kept(self) -> dict[str, np.ndarray] | None:
        """Return copies of all it knows beyond its features, as arrays; None where labels are exact."""
        if self.exact or not self.pool.is_here:
            return None
        told = np.array(-1 if self.told_by is None else self.told_by)
        own = {"told_by": told, "waiting": np.array(self.waiting), **packed_names(self._taught)}
        return {**self.pool.kept(), **own}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what `kept` of a learner of the same features has returned, to the bit."""
        self.pool = self._make_pool(self.pool.features, self.pool.posterior, {}, False)
        self.pool.restore(arrays)
        self._taught, self.waiting = unpacked_names(arrays), int(arrays["waiting"])
        self.trained = None

    def close(self) -> None:
        """Let go of what the pool holds elsewhere."""
        self.pool.close()

    @contextmanager
    def together(self, later: bool = False) -> Iterator[None]:
        """Let all changes of a block reach the pool in one pass, and names that changed be taught once."""
        with self.pool.together(later):
            yield
            if len(self._at_once) < MANY:
                for item, place in self._at_once.items():
                    self._put(item, place)
                self._at_once = {}
        if self._at_once:
            changed, self._at_once = self._at_once, {}
            self._train_with(changed)
        if self._names is not None:
            names, self._names = self._names, None
            self._teach(names)

    def become(self, change: Change) -> None:
        """Put one instance where it belongs now, or begin anew."""
        if change.anew is not None:
            self._begin(change.anew, change.n_classes)
            return
        new = max(1, change.n_classes) - self.pool.n_classes
        if new > 0:
            self.pool.add_class(new)
        if change.here > len(self.pool) and self._more is not None:
            self.pool.extend(self._more(len(self.pool), change.here))
            self.sample = _drawn(len(self.pool))
        if self.exact and self.pool.features.size * self.pool.n_classes > EXACT_UP_TO:
            self._go_on_by_steps()
        if change.later:
            self.waiting += 1
        if change.item is not None and (change.many or self._is_search(change)):
            self._at_once[change.item] = change.place
        elif change.item is not None:
            self._at_once.pop(change.item, None)
            self._put(change.item, Place(Where.ASIDE) if change.later else change.place)
        self._names = self._names if change.names is None else change.names

    def _is_search(self, change: Change) -> bool:
        """Return whether a change moves an exact model: one search does for all that a block has of them."""
        if not self.exact or change.later or change.item is None:
            return False
        here, place = self.pool.where(change.item), change.place
        if here is place.where is Where.LABELLED:
            return bool(self.pool.labels[change.item] != place.label)
        return Where.LABELLED in (here, place.where)

    def _go_on_by_steps(self) -> None:
        """Leave exact updates, with what they have learned: classes or items have made the pool too large.

        A log begins without classes: this is where the pool of a large project becomes what it stays.
        """
        pool, out = self.pool, self.pool.out_idx.tolist()
        for item in out:  # the posterior is conditioned on them, and will be again
            pool.put(item, Where.FREE)
        idx = pool.labelled_idx
        known = {"labelled_idx": idx, "labels": pool.labels[idx], "ruled_out": pool.ruled_out}
        self.pool = self._make_pool(pool.features, pool.posterior, known, False)
        for item in out:
            self.pool.put(item, Where.OUT)
        for item in pool.placed(Where.ASIDE).tolist():
            self.pool.put(item, Where.ASIDE)

    def _put(self, item: int, place: Place) -> None:
        self.pool.put(item, place.where, place.label)
        if place.where is not Where.LABELLED:
            self.pool.rule_out(item, place.ruled_out)

    def _begin(self, anew: Beginning, n_classes: int) -> None:
        """Train on all there is, with other classes in the columns; what waits in this block is in it."""
        self._taught, self._names, self._at_once, self.waiting = anew.names, None, {}, 0
        before = self.pool
        self.pool = self._trained(before.features, anew.labels, n_classes, ruled_out(anew.places))
        before.close()
        with self.pool.together():
            for item, place in anew.places:
                self._put(item, place)

    def _teach(self, names: Mapping[int, np.ndarray]) -> None:
        """Train on all labels there are, with these names in place of those before.

        Where that is too much for people to wait for, the next training in the background does it.
        """
        idx = self.pool.labelled_idx
        n_rows = len(idx) + sum(len(some) for some in names.values())
        if n_rows * self.pool.features.shape[1] * self.pool.n_classes > TAUGHT_UP_TO:
            self._taught = names
            self.waiting += 1
            return
        labels = dict(zip(idx.tolist(), self.pool.labels[idx].tolist(), strict=True))
        self._taught = names
        rows, k, left = self.rows_of(names), self.pool.n_classes, self._ruled_out()
        self.pool.refit(train(self.pool.features, labels, k, rows, ruled_out=left, tol=TRAINED))

    def _ruled_out(self) -> dict[int, frozenset[int]]:
        """Return what is ruled out for instances without a label."""
        pool = self.pool
        return {i: some for i, some in pool.ruled_out.items() if pool.where(i) is not Where.LABELLED}

    def _train_with(self, places: Mapping[int, Place]) -> None:
        """Go on with many instances in other places: all labels that there are then are trained on, once."""
        before = self.pool
        labels = {int(i): int(before.labels[i]) for i in before.labelled_idx if int(i) not in places}
        labels |= {item: place.label for item, place in places.items() if place.label is not None}
        others = {int(i): before.where(int(i)) for i in before.placed(Where.OUT, Where.ASIDE)}
        others |= {item: place.where for item, place in places.items()}
        kept = {item: some for item, some in self._ruled_out().items() if item not in places}
        kept |= ruled_out(places.items())
        self.pool = self._trained(before.features, labels, before.n_classes, kept, before.posterior.mean)
        before.close()
        with self.pool.together():
            for item, where in sorted(others.items()):
                if where is not Where.LABELLED:
                    self.pool.put(item, where)

    def rows_of(self, names: Mapping[int, np.ndarray]) -> NameRows | None:
        """Return vectors of names as rows on the scale of the features; those of an old encoder are not."""
        if self.scaling is None:
            return None
        d = len(self.scaling.center)
        return name_rows({c: some for c, some in names.items() if some.shape[1] == d}, self.scaling)

    def probabilities(self, item: int) -> np.ndarray:
        """Return the class probabilities of one instance, also while the logits are late."""
        return np.asarray(softmax((self.pool.rows([item]) @ np.asarray(self.pool.posterior.mean))[0]))

    def expected(self) -> float:
        """Return the mean largest probability over what is left: the accuracy the model expects there."""
        left = self.sample[self.pool.state[self.sample] != Where.LABELLED]
        return float(self.pool.at_hand().probs(left if len(left) else self.sample).max(axis=1).mean())

    def pick(self, strategy: str, n: int, rng: np.random.Generator, among: int = 1) -> list[int]:
        """Return n free instances, no near copies of each other or of what is out."""
        pool = self.pool if looks_at_each(strategy, self.pool) else self.pool.at_hand(rng)
        free = len(pool.free_idx)
        out = [int(i) for i in self.pool.out_idx]
        n = min(n, free)
        if n == 0:
            return []
        tried = n if n == 1 and not out else min(free, 4 * n + len(out))
        cold = knows_nothing(pool)
        options: dict[str, int] = {}
        if strategy in ("herding", "lookahead"):
            share = max(among, 1)
            options = {"n_candidates": max(tried, FEWEST_TRIED, TRIED // share)}
            options["n_eval"] = max(FEWEST_EVALUATED, EVALUATED // share)
        candidates = COLD_FROM if cold and tried <= COLD_FROM else None
        options = {} if cold else options
        picked = select(pool, strategy, tried, rng, candidates=candidates, **options)  # type: ignore
        return self._apart([int(i) for i in picked], out, n)

    def draw(self, rng: np.random.Generator) -> int | None:
        """Return a free instance at random, each as likely as any other."""
        free = self.pool.free_idx
        return int(free[int(rng.integers(len(free)))]) if len(free) else None

    def draw_predicted(self, column: int, rng: np.random.Generator) -> tuple[int | None, float]:
        """Return a free instance at random among those predicted as a column's class, and their share."""
        some = self.pool.sample(DRAWN_FROM, rng)
        if not len(some):
            return None, 0.0
        so = np.asarray(some)[self.pool.logits(some).argmax(axis=1) == column]
        return (int(rng.choice(so)) if len(so) else None), len(so) / len(some)

    def _apart(self, picked: Sequence[int], out: Sequence[int], n: int) -> list[int]:
        """Return the n first that are no near copies of those before or of what is out."""
        if n == len(picked) and not out:
            return list(picked)
        rows = self.pool.features[[*out, *picked]].astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        chosen = list(range(len(out)))
        for at in range(len(out), len(rows)):
            if len(chosen) < len(out) + n and (rows[chosen] @ rows[at]).max(initial=-1.0) < COPIES:
                chosen.append(at)
        rest = [at for at in range(len(out), len(rows)) if at not in chosen]
        best = [*chosen[len(out) :], *rest][:n]
        return [picked[at - len(out)] for at in best]


def local_pool(features: Any, posterior: Posterior, known: Mapping[str, Any], exact: bool) -> Pool:
    """Return a pool that learns each label exactly, or by one step."""
    how: dict[str, Any] = {"method": "exact"} if exact else {"step_size": "auto", "closed_form": True}
    return Pool(features, posterior, **known, **how)


def ruled_out(places: Iterable[tuple[int, Place]]) -> dict[int, frozenset[int]]:
    """Return what is ruled out for instances at these places, if anything."""
    return {item: place.ruled_out for item, place in places if place.ruled_out}


def _drawn(n: int) -> np.ndarray:
    """Return the instances that stand for a pool of n."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, SAMPLED), replace=False, shuffle=False))
