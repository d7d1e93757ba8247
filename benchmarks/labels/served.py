"""The labelling page's own loop: desk, service and log as for `simulate`, label by label.

All settings are the page's defaults: strategy, one random check in ten, class names. There is no HTTP, and
the background training runs after a label whenever it would be due: a person who labels leaves time for it,
and so curves do not depend on the clock.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.labels.curve import STOPS, Point, guesses, measured
from benchmarks.labels.sets import Data
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.retrainer import EARLY, EARLY_UP_TO, EVERY, retrain
from everylabel.labelling.model.training import ClassNames, Encoder, FeatureTable, Prepared, prepare
from everylabel.labelling.service import Service
from everylabel.log.store import Store
from everylabel.models.class_names import phrase
from tests.projects.starts import start

PERSON = "simulated"
NOT_EXACT_EVERY = 5  # labels between trainings where labels are learned by updates: many classes


def served(
    data: Data, names: np.ndarray | None, stops: Sequence[int] = STOPS, **settings: Any
) -> Iterator[Point]:
    """Yield the curve of the page's loop; `names` are vectors of the class names, or None without them."""
    prepared, ids = prepare(data.x), [str(i) for i in range(len(data.x))]
    taught = ClassNames(None if names is None else _encoder(data.classes, names))
    with tempfile.TemporaryDirectory() as place:
        store = Store(Path(place) / "labels.sqlite", "bench")
        state = start(store, ids, classes=data.classes, settings=settings, names=taught)
        desk = Desk(FeatureTable(ids, data.x), store, state, taught)
        with closing(store), closing(desk):
            yield from _labelled(Service(desk, lambda item: {"id": item}), data, prepared, stops)


def _encoder(classes: Sequence[str], names: np.ndarray) -> Encoder:
    vectors = {phrase(name): vector for name, vector in zip(classes, names, strict=True)}
    return Encoder("names", lambda asked: np.array([vectors[words] for words in asked]))


def _labelled(service: Service, data: Data, prepared: Prepared, stops: Sequence[int]) -> Iterator[Point]:
    desk, on_test = service.desk, prepared.scaling(data.x_test)
    task = service.next(PERSON).result()["next"]
    for n in range(max(stops) + 1):
        if n and _due(desk, n):
            retrain(desk)
        if n in stops:
            mean = np.asarray(desk.learner.pool.posterior.mean)
            labelled = np.array(sorted(desk.state.labels), dtype=np.int64)
            guessed = guesses(mean, on_test), guesses(mean, prepared.features)
            yield {**measured(data, labelled, *guessed), "names": desk.learner.names is not None}
        if n < max(stops):
            item = task["item"]["id"]
            task = service.label(PERSON, item, int(data.y[int(item)])).result()["next"]


def _due(desk: Desk, n: int) -> bool:
    """Return whether the server would train after n labels, and that would change something.

    Where labels are learned exactly, retraining changes whether names are used, and nothing else. They
    are asked as often as the server asks up to 100 labels; then four times less often, to save time.
    """
    if not desk.learner.exact:
        return n % NOT_EXACT_EVERY == 0
    if not desk.learner.name_vectors:
        return False
    every = EARLY if n < EARLY_UP_TO else EVERY if n <= 100 else 4 * EVERY
    return n % every == 0
