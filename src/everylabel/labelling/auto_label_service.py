"""What a person can ask of a model that is to finish: what it would do, to do it, and to take it back."""

from concurrent.futures import Future

import numpy as np

from everylabel.labelling.desk import Finish
from everylabel.labelling.errors import Refused
from everylabel.labelling.quality.auto_label import Promise, audit, promise, standing
from everylabel.labelling.state.state import State
from everylabel.labelling.views import Reply, Views
from everylabel.log.events import AutoLabel
from everylabel.selection.pool import Where


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
