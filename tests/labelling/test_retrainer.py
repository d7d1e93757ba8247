"""Background training: when it is due, which changes it learns, and how it stops."""

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import join
from everylabel.labelling.model import learner, retrainer
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.retrainer import Retrainer, retrain, save_mean, saved_mean
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.service import Service
from everylabel.log.store import Store
from tests.labelling.desks import (
    CLASSES,
    FEATURES,
    IDS,
    fingerprint,
    label,
    probabilities,
    service,
    truth,
    until,
)
from tests.labelling.test_restart import agree, from_scratch, state_of
from tests.projects.starts import start


def test_a_stop_while_a_training_begins_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, asked = threading.Event(), threading.Event()

    def late(desk: Desk) -> None:
        begun.set()
        asked.wait(30)
        retrain(desk)  # which takes up all labels: nothing is left to wake the thread

    monkeypatch.setattr(retrainer, "retrain", late)
    with service(tmp_path / "log") as made:
        label(made, 12)
        running = Retrainer(made.desk)
        assert begun.wait(30)
        stopping = threading.Thread(target=running.close, daemon=True)
        stopping.start()
        while not running._stopped.is_set() or not made.desk.learned.is_set():
            stopping.join(0.01)
        asked.set()
        stopping.join(30)
        assert not stopping.is_alive()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Run an action while the next model is trained."""
    usual, done = Learner.__init__, list[int]()

    def train(self: Learner, *given: Any, **how: Any) -> None:
        usual(self, *given, **how)
        if how.get("before") is not None and not done and threading.current_thread().name != "desk":
            done.append(1)
            act()

    monkeypatch.setattr(Learner, "__init__", train)


@pytest.fixture(params=[0, learner.EXACT_UP_TO], ids=["stepwise", "exact"])
def exact_up_to(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return up to how many labels each is learned exactly: all steps, then all exact."""
    monkeypatch.setattr(learner, "EXACT_UP_TO", request.param)
    most: int = request.param
    return most


def test_labels_that_come_while_a_model_is_trained_are_learned_too(
    tmp_path: Path, exact_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path / "log") as made:
        first = label(made, 20)
        meanwhile(monkeypatch, lambda: (label(made, 5), made.label("anna", first[0], 3).result()))
        before = made.desk.learner
        retrain(made.desk)
        assert made.desk.learner is not before
        assert sorted(made.desk.learner.pool.labelled_idx.tolist()) == sorted(made.state.labels)
        assert len(made.state.labels) == 25
        retrain(made.desk)
        agree(probabilities(made), from_scratch(made))


def test_votes_that_turn_labels_while_a_model_is_trained_are_learned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)

    def vote(made: Service, n: int) -> None:
        for _ in range(n):
            for person in ("anna", "ben", "me"):
                item = made.next(person).result()["next"]["item"]["id"]
                made.label(person, item, int(rng.integers(10))).result()
            if rng.random() < 0.3:
                made.undo("me").result()

    with service(tmp_path / "log", annotators_per_item=3) as made:
        vote(made, 8)
        meanwhile(monkeypatch, lambda: vote(made, 3))
        retrain(made.desk)
        pool = made.desk.learner.pool
        columns = made.state.columns
        assert {i: columns[pool.labels[i]] for i in pool.labelled_idx.tolist()} == made.state.labels


@pytest.mark.parametrize("change", ["remove", "merge", "rename"])
def test_a_model_of_other_classes_is_dropped_and_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    acts: dict[str, Callable[[Service], Any]] = {
        "remove": lambda made: made.classes.remove("me", 3).result(),
        "merge": lambda made: made.classes.remove("me", 3, 5).result(),
        "rename": lambda made: made.classes.change("me", 3, name="three").result(),
    }
    with service(tmp_path / "log") as made:
        label(made, 20)
        meanwhile(monkeypatch, lambda: acts[change](made))
        before = made.desk.learner
        retrain(made.desk)
        assert made.desk.learner is not before
        assert made.desk.learner.columns == made.state.columns
        assert made.desk.learned.is_set() == (change != "rename")  # it must be trained again
        retrain(made.desk)
        agree(probabilities(made), from_scratch(made))
        state = state_of(made)
    with service(tmp_path / "log") as made:
        assert state_of(made) == state


def _done(made: Service) -> bool:
    """Retrain the model of a service."""
    retrain(made.desk)
    return True


def test_two_trainings_at_once_lose_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path / "log") as made:
        label(made, 20)
        meanwhile(monkeypatch, lambda: [label(made, 5), _done(made)])
        retrain(made.desk)  # begun sooner, done later
        assert len(made.desk.read(lambda: made.desk.learner.pool.labelled_idx).result()) == 25
        state = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == state


def test_labels_are_trained_on_in_the_background(tmp_path: Path, exact_up_to: int) -> None:
    with service(tmp_path / "log") as made:
        running = Retrainer(made.desk)
        label(made, 30)
        until(lambda: bool(made.state.assessed) and made.state.assessed[-1].labels >= 20)
        if not exact_up_to:  # each label is worth a training
            until(lambda: made.state.assessed[-1].labels == 30)
            agree(probabilities(made), from_scratch(made))
        running.close()


def test_deferred_labels_are_trained_on_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)
    with service(tmp_path / "log") as made:
        from everylabel.labelling.service import label_many

        by_class = {c: [name for name in IDS if truth(name) == c] for c in range(10)}
        monkeypatch.setattr(learner, "DEFERRED_FROM", 5)
        for c, names in by_class.items():
            label_many(made, "me", names[:10], c).result()
        assert made.desk.learner.deferred
        running = Retrainer(made.desk)
        until(lambda: not made.desk.learner.deferred)
        running.close()
        agree(probabilities(made), from_scratch(made))


def test_new_features_are_assessed_without_a_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrainer, "PAUSE", 1000.0)
    with service(tmp_path / "log") as made:
        desk = made.desk
        label(made, 12)
        running = Retrainer(desk)
        until(lambda: desk.assessment is not None)
        rows = FeatureTable(IDS, desk.rows.features[:, :32])
        tuned = Learner(rows, desk.ids, desk.read(desk.training_set).result())

        def take() -> Callable[[], bool]:
            desk.switch_features(rows, desk.names, tuned, None)
            forgotten = desk.assessment is None
            return lambda: forgotten

        assert desk.submit(take, alone=True).result()
        until(lambda: desk.assessment is not None)
        running.close()


def test_a_model_of_items_that_could_not_be_saved_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    lost, kept = rng.normal(size=(2, 1, FEATURES.shape[1])).astype(np.float32)
    with closing(Store(tmp_path / "log", "test")) as store:
        start(store, IDS, classes=CLASSES, features=FEATURES)
    with service(tmp_path / "log") as made:
        desk = made.desk
        label(made, 12)
        trained = Learner(desk.rows, desk.ids, desk.read(desk.training_set).result())
        with monkeypatch.context() as patch:
            patch.setattr(desk.log, "append", lambda events: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                join(desk, ["lost"], lost).result()
        join(desk, ["kept"], kept).result()
        desk.submit(lambda: desk.replace_model(trained), alone=True).result()
        rows = desk.read(lambda: np.array(desk.features[-1:])).result()
        np.testing.assert_array_equal(rows, kept)


def test_a_failure_is_logged_and_training_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[Exception] = [EverylabelError("the disk is full"), ZeroDivisionError()]

    def fails(desk: Desk) -> None:
        if problems:
            desk.learned.set()
            raise problems.pop(0)
        retrain(desk)

    monkeypatch.setattr(retrainer, "retrain", fails)
    monkeypatch.setattr(Retrainer, "_is_due", lambda self: True)
    with service(tmp_path / "log") as made:
        label(made, 12)
        running = Retrainer(made.desk)
        until(lambda: bool(made.state.assessed))
        running.close()
    assert "training in the background failed: the disk is full" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_the_mean_is_saved_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "mean.npz"
    with service(tmp_path / "log") as made:
        running = Retrainer(made.desk, path)
        label(made, 12)
        running.close()
        mean = saved_mean(path)
        assert mean is not None
        assert (tuple(mean[0]), mean[1].shape) == (made.state.columns, (65, 10))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", None])
def test_a_damaged_mean_is_not_used(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mean.npz"
    assert saved_mean(path) is None
    with service(tmp_path / "log") as made:
        save_mean(path, made.desk)
    assert saved_mean(path) is not None
    path.write_bytes(path.read_bytes()[:-30] if content is None else content)
    assert saved_mean(path) is None


def test_a_mean_that_cannot_be_saved_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with service(tmp_path / "log") as made:
        running = Retrainer(made.desk, tmp_path / "missing" / "mean.npz")
        label(made, 3)
        running.close()
    assert "the mean of the model could not be saved" in caplog.text
