"""A pool that grows while people label: nothing is lost, and a restart changes nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling import joining
from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import join
from everylabel.labelling.model import learner, training
from everylabel.labelling.model.retrainer import Retrainer, retrain
from everylabel.labelling.model.training import FeatureTable, on_scale, prepare
from everylabel.labelling.service import Service
from everylabel.labelling.state.types import Refused
from everylabel.log.events import Event, Extended
from everylabel.log.store import Store
from everylabel.selection.pool import Where
from tests.labelling.desks import CLASSES, IDS, N, X, fingerprint, label, probabilities, until
from tests.labelling.test_restart import agree, busy, from_scratch, state_of
from tests.projects.starts import start

FIRST = 60
ORDER = np.random.default_rng(5).permutation(N)  # in which items come
COMING = [IDS[i] for i in ORDER]
RAW = X[:N].astype(np.float32)[ORDER]


@contextmanager
def growing(path: Path, here: int = FIRST, **settings: object) -> Iterator[Service]:
    """Yield a service with the first items, or with all items that joined before."""
    store = Store(path, "test")
    try:
        start(store, COMING[:here], classes=CLASSES, settings=settings, features=RAW[:here])
        desk = Desk(FeatureTable(COMING[:here], RAW[:here]), store)
        try:
            yield Service(desk, lambda item: {"id": item})
        finally:
            desk.close()
    finally:
        store.close()


def more(made: Service, start: int, stop: int, labels: dict[str, str] | None = None) -> int:
    return join(made.desk, COMING[start:stop], RAW[start:stop], labels).result()


def log_of(path: Path) -> list[Event]:
    store = Store(path, "test", write=False)
    try:
        return store.read()
    finally:
        store.close()


@pytest.mark.parametrize("exact_up_to", [0, learner.EXACT_UP_TO])
@pytest.mark.parametrize("strategy", ["herding", "lookahead"])
def test_a_restart_of_a_pool_that_grew_changes_nothing(
    tmp_path: Path, strategy: str, exact_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", exact_up_to)
    rng = np.random.default_rng(1)
    with growing(tmp_path / "log", strategy=strategy, check_every=4) as made:
        for at in range(FIRST, N, 40):
            busy(made, rng, 3)
            assert more(made, at, min(at + 40, N)) == min(40, N - at)
            if at % 80 < 40:
                retrain(made.desk)
        busy(made, rng, 5)
        assert len(made.desk.ids) == N
        assert made.desk.learner.scaled_on > FIRST  # the scale was fitted on more and more
        before, state = fingerprint(made), state_of(made)
    with growing(tmp_path / "log", N) as made:
        assert (fingerprint(made), state_of(made)) == (before, state)
        agree(probabilities(made), from_scratch(made))


def test_a_grown_pool_is_the_whole_pool(tmp_path: Path) -> None:
    with growing(tmp_path / "log") as made:
        for at in range(FIRST, N, 60):
            more(made, at, at + 60)
        label(made, 20)
        retrain(made.desk)
        pool, whole = made.desk.learner.pool, prepare(RAW)
        np.testing.assert_array_equal(pool.features, whole.features)
        training = made.desk.read(made.desk.training_set).result()
        twin = learner.Learner(FeatureTable(COMING, whole.features, ready=True), COMING, training)
        np.testing.assert_allclose(pool.logits(), twin.pool.logits(), atol=1e-3)
        np.testing.assert_array_equal(made.desk.learner.sample, twin.sample)


@pytest.mark.parametrize("cuts", [[100], [1, 2, 255, 256, 257], list(range(0, 290, 7))])
def test_the_scale_of_a_row_does_not_depend_on_what_came_with_it(cuts: list[int]) -> None:
    scaling = prepare(RAW).scaling
    parts = np.split(RAW, cuts)
    scaled = [on_scale(part, scaling) for part in parts]
    np.testing.assert_allclose(np.concatenate(scaled), on_scale(RAW, scaling), atol=1e-5)
    np.testing.assert_allclose(np.concatenate(scaled), scaling(RAW.astype(float)), atol=1e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_labels_that_come_with_items_are_learned_at_once_or_by_the_next_training(
    tmp_path: Path, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", learner.EXACT_UP_TO if exact else 0)
    monkeypatch.setattr(learner, "DEFERRED_FROM", 50)
    brought = {COMING[i]: str(int(ORDER[i]) % 3) for i in range(FIRST, 120)}
    brought[COMING[FIRST]] = "a new one"
    with growing(tmp_path / "log") as made:
        assert more(made, FIRST, 120, brought) == 60
        pool = made.desk.learner.pool
        now = Where.LABELLED if exact else Where.EXCLUDED  # not asked for meanwhile
        assert (pool.state[FIRST:120] == now).all()
        assert made.desk.state.classes[-1] == "a new one"
        retrainer = Retrainer(made.desk)
        until(lambda: (made.desk.learner.pool.state[FIRST:120] == Where.LABELLED).all())
        retrainer.close()
        assert len(made.desk.state.labels) == 60
    with growing(tmp_path / "log", 120) as made:
        assert len(made.desk.state.labels) == 60
        assert (made.desk.learner.pool.state[FIRST:120] == Where.LABELLED).all()


def test_nothing_joins_twice_nor_before_it_is_written(tmp_path: Path) -> None:
    with growing(tmp_path / "log") as made:
        assert more(made, FIRST, 80) == 20
        assert more(made, 70, 90) == 10  # as a source that is read again tells them
        assert made.desk.ids == COMING[:90]
        append = made.desk.log.append
        made.desk.log.append = lambda events: (_ for _ in ()).throw(OSError("disk full"))
        with pytest.raises(OSError, match="disk full"):
            more(made, 90, 100)
        made.desk.log.append = append
        assert len(made.desk.ids) == len(made.desk.learner.pool) == 90
        assert more(made, 90, 100) == 10
        before = fingerprint(made)
    joined = [
        name
        for event in log_of(tmp_path / "log")
        if isinstance(event.body, Extended)
        for name in event.body.names
    ]
    assert joined == COMING[:100]
    with growing(tmp_path / "log", 100) as made:
        assert fingerprint(made) == before


def test_labels_that_make_too_many_classes_are_refused_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "MOST_CLASSES", len(CLASSES) + 1)
    with growing(tmp_path / "log") as made:
        state, before = made.desk.state, fingerprint(made)
        with pytest.raises(Refused, match="classes would be 12; expected 11 at most"):
            more(made, FIRST, 80, {COMING[FIRST]: "new", COMING[70]: "newer"})
        assert made.desk.state is state  # the log was not read again
        assert fingerprint(made) == before
        assert more(made, FIRST, 80, {COMING[FIRST]: "new"}) == 20


def test_items_that_are_gone_are_left_out(tmp_path: Path) -> None:
    with growing(tmp_path / "log") as made:
        label(made, 5)
        more(made, FIRST, 100)
        labelled = {made.desk.ids[i] for i in made.desk.state.labels}
    kept = [i for i in range(100) if i % 10]
    store = Store(tmp_path / "log", "test")
    desk = Desk(FeatureTable([COMING[i] for i in kept], RAW[kept]), store)
    try:
        assert desk.ids == [COMING[i] for i in kept]
        assert {desk.ids[i] for i in desk.state.labels} == labelled & set(desk.ids)
    finally:
        desk.close()
        store.close()


def test_the_scale_is_fitted_again_without_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with growing(tmp_path / "log") as made:
        retrainer = Retrainer(made.desk)
        more(made, FIRST, 90)
        until(lambda: made.desk.learner.scaled_on == 90)
        monkeypatch.setattr(training, "SAMPLE", 80)
        more(made, 90, N)  # 5 * 64 features are enough; 90 are not
        until(lambda: made.desk.learner.scaled_on == N)
        retrainer.close()
        before = fingerprint(made)
    with growing(tmp_path / "log", N) as made:
        assert fingerprint(made) == before
