"""Let the model finish: the probability above which at most so many of its labels are wrong.

Random checks tell. n of them, each left out in turn: g its largest probability, whether that class is wrong.
Of the surest checks, for a share of SHARES of all, n_s with w_s wrong: the share that is wrong among all
instances as sure as these is, by Clopper and Pearson (1934), at most
    u_s = the p at which P(Binomial(n_s, p) <= w_s) = (1 - confidence) / len(SHARES)
The largest s with u_s at most the rate that is asked for tells the threshold, the least g among its checks.
Each share is a test of its own, hence the division (Bonferroni): the promise holds whichever is taken. Checks
were drawn while more was free, hard ones that were chosen since among them: for what is left this is careful.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from everylabel.labelling.desk import Finish
from everylabel.labelling.progress import audit
from everylabel.labelling.quality.accuracy import upper_bound
from everylabel.labelling.quality.assessment import LeftOut
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Refused
from everylabel.labelling.views import Reply, Views
from everylabel.log.events import AutoLabel
from everylabel.selection.pool import Where

SHARES = (0.25, 0.5, 0.75, 1.0)


class Promise(NamedTuple):
    """What can be promised."""

    threshold: float | None  # probability from which on the model may label; None: nothing can be promised
    checks: int  # random checks as sure as that, or all there are
    wrong: int  # and how many of them the model would get wrong
    bound: float  # at most this share is wrong
    needed: int  # checks without an error that the least promise takes
    least: float = 1.0  # the smallest rate that can be promised by now; all shares' bounds hold together


def promise(checks: Sequence[LeftOut], rate: float, confidence: float) -> Promise:
    """Return from which probability on at most `rate` of the model's labels are wrong."""
    each = 1.0 - (1.0 - confidence) / len(SHARES)
    needed = int(np.ceil(np.log(1.0 - each) / np.log(1.0 - rate)))
    ranked = sorted(checks, key=lambda check: -check.sure)
    errors = np.cumsum([check.guess != check.label for check in ranked])
    sizes = [int(share * len(ranked)) for share in reversed(SHARES)]
    bounds = [upper_bound(int(errors[n - 1]), n, each) if n else 1.0 for n in sizes]
    least = min(bounds)
    for n, bound in zip(sizes, bounds, strict=True):
        if bound <= rate:
            return Promise(ranked[n - 1].sure, n, int(errors[n - 1]), bound, needed, least)
    wrong = int(errors[-1]) if ranked else 0
    return Promise(None, len(ranked), wrong, bounds[0], needed, least)


def standing(state: State, left_out: Mapping[int, LeftOut]) -> list[LeftOut]:
    """Return what the model says of each random check without its label, where it has looked."""
    drawn = (check.item for check in state.standing_checks() if check.among is None)
    known = (left_out.get(item) for item in drawn)
    return [each for each in known if each is not None]


class Finishing:
    """The requests, put to the desk of the views."""

    def __init__(self, views: Views) -> None:
        self.views, self.desk = views, views.desk

    @property
    def state(self) -> State:
        return self.desk.state

    def preview(self, rate: float, confidence: float) -> Future[Reply]:
        """Return what the model would label, and what can be promised."""

        def look() -> Reply:
            told = self._promise(rate, confidence)
            items = 0 if told.threshold is None else len(self._above(told.threshold)[0])
            return {**told._asdict(), "items": items, "finished": audit(self.state)}

        return self.desk.read(look)

    def finish(self, person: str, rate: float, confidence: float, sample: int) -> Future[Reply]:
        """Have the model label all that it is sure enough of; a random sample is to be confirmed."""

        def command() -> Finish:
            told = self._promise(rate, confidence)
            if told.threshold is None:
                what = f"{told.checks} random checks, {told.wrong} of them wrong, cannot promise {rate:.1%}"
                raise Refused(409, "no_promise", f"{what}; {told.needed} sure ones without an error would")
            items, classes, sure = self._above(told.threshold)
            rng = np.random.default_rng([self.state.seed, self.state.seq])
            drawn = set(rng.permutation(len(items))[:sample].tolist())
            for j, item in enumerate(items):
                name = self.state.ids[item]
                self.desk.emit(person, AutoLabel(name, classes[j], round(sure[j], 6), j in drawn))
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command, alone=True)

    def take_back(self, person: str) -> Future[Reply]:
        """Make free again all that the model has labelled; what people said since stays."""

        def command() -> Finish:
            for item in list(self.state.finished):
                self.desk.emit(person, AutoLabel(self.state.ids[item]))
            self.desk.ask_for(person)
            return lambda: self.views.reply(person, None)

        return self.desk.submit(command, alone=True)

    def _promise(self, rate: float, confidence: float) -> Promise:
        known = self.desk.assessment
        return promise(standing(self.state, {} if known is None else known.left_out), rate, confidence)

    def _above(self, threshold: float) -> tuple[list[int], list[int], list[float]]:
        """Return free instances of which the model is so sure, their classes, and how sure it is."""
        self.views.check_here("letting the model finish")
        pool, columns = self.desk.learner.pool, np.array(self.state.columns)
        free = np.flatnonzero(pool.state == Where.FREE)
        if not len(free):
            return [], [], []
        probs = np.asarray(pool.probs(free)[:, : len(columns)])
        best = probs.max(axis=1)
        at = (best >= threshold) & (columns[probs.argmax(axis=1)] >= 0)  # what is none of the classes stays
        return free[at].tolist(), columns[probs[at].argmax(axis=1)].tolist(), best[at].tolist()
