"""After a restart the state is unchanged, and the model equals training from scratch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.arrays import softmax
from everylabel.labelling import auto_label
from everylabel.labelling.desk import Desk
from everylabel.labelling.model import learner, retrainer
from everylabel.labelling.model.retrainer import Retrainer, retrain, save_mean, saved_mean
from everylabel.labelling.model.training import FeatureTable, train
from everylabel.labelling.service import Service, label_many
from everylabel.labelling.state.state import digest
from everylabel.log.store import Store
from tests.labelling.desks import (
    CLASSES,
    FEATURES,
    IDS,
    N,
    fingerprint,
    label,
    probabilities,
    service,
    truth,
    until,
)
from tests.projects.starts import start

PEOPLE = ("anna", "ben", "me")
MEAN = "model.mean.npz"


def busy(made: Service, rng: np.random.Generator, n: int) -> None:
    """Send all kinds of requests as three people, several at once."""
    for _ in range(n):
        futures = []
        for person in PEOPLE:
            lease = made.desk.state.leases.get(person)
            kinds = ["label", "label", "label", "skip", "undo", "tell", "jump", "class", "remove", "none"]
            what = rng.choice([*kinds, "not", "not", "relabel", "bulk"])
            if lease is None:
                futures.append(made.next(person))
                continue
            item = made.desk.ids[lease.item]
            if what == "label":
                futures.append(made.label(person, item, truth(item)))
            elif what == "relabel" and made.state.labels:
                some = made.desk.ids[next(iter(made.state.labels))]
                futures.append(made.label(person, some, int(rng.integers(10))))
            elif what == "bulk":
                several = rng.choice(made.desk.ids, 4).tolist()
                futures.append(label_many(made, person, several, int(rng.integers(10))))
            elif what == "skip":
                futures.append(made.skip(person, item))
            elif what == "undo":
                futures.append(made.undo(person))
            elif what == "tell":
                futures.append(made.cannot_tell(person, item))
            elif what == "jump":
                futures.append(made.jump(person, made.desk.ids[int(rng.integers(len(made.desk.ids)))]))
            elif what == "not":
                futures.append(made.rule_out(person, item, (truth(item) + int(rng.integers(1, 10))) % 10))
            elif what == "none":
                futures.append(made.none_of_these(person, item))
            elif what == "remove":
                number, into = rng.integers(12, size=2).tolist()
                futures.append(made.classes.remove(person, number, into if into < 6 else None))
                if rng.random() < 0.5:
                    futures.append(made.classes.restore(person, int(rng.integers(12))))
                elif made.state.class_changes:
                    futures.append(made.classes.undo(person, made.state.class_changes[-1].seq))
            else:
                futures.append(made.classes.add(person, f"class {rng.integers(3)}"))
        for future in futures:
            future.exception()  # a refusal is fine


def from_scratch(made: Service) -> np.ndarray:
    """Return the probabilities of all items by exact training on the current labels."""
    training = made.desk.read(made.desk.training_set).result()
    posterior = train(
        made.desk.features, training.labels(), training.n_classes, ruled_out=training.ruled_out()
    )
    weights = np.asarray(posterior.mean)
    return np.asarray(softmax(made.desk.learner.pool.rows(np.arange(training.n_items)) @ weights))


def state_of(made: Service) -> str:
    return str(made.desk.read(lambda: digest(made.desk.state)).result())


def agree(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, atol=1e-3)


@contextmanager
def cached(folder: Path) -> Iterator[Service]:
    """Yield a service that starts from the mean in the folder, and saves it at the end."""
    folder.mkdir(exist_ok=True)
    mean_path, store = folder / MEAN, Store(folder / "log", "test")
    state = start(store, IDS, classes=CLASSES, features=FEATURES)
    desk = Desk(FeatureTable(IDS, FEATURES, ready=True), store, state, mean=saved_mean(mean_path))
    try:
        yield Service(desk, lambda item: {"id": item})
        save_mean(mean_path, desk)
    finally:
        desk.close()
        store.close()


@pytest.mark.parametrize("strategy", ["herding", "margin"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "exact_up_to", [0, 5 * FEATURES.size, learner.EXACT_UP_TO], ids=["stepwise", "both", "exact"]
)
def test_a_restart_changes_neither_the_state_nor_the_model(
    tmp_path: Path, strategy: str, seed: int, exact_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", exact_up_to)
    rng = np.random.default_rng(seed)
    with service(tmp_path / "log", strategy=strategy, check_every=4) as made:
        busy(made, rng, 12)
        if seed:
            retrain(made.desk)
            busy(made, rng, 8)
        tasks = [made.next(person).result()["next"]["item"] for person in PEOPLE]
        before, known = state_of(made), fingerprint(made)
    with service(tmp_path / "log") as made:
        assert (state_of(made), fingerprint(made)) == (before, known)
        agree(probabilities(made), from_scratch(made))
        assert [made.next(person).result()["next"]["item"] for person in PEOPLE] == tasks
        assert state_of(made) == before  # everybody had an item


def test_the_model_after_a_restart_is_that_of_the_last_training(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        label(made, 10)
        busy(made, np.random.default_rng(7), 20)
        retrain(made.desk)
        state, before = state_of(made), probabilities(made)
        agree(before, from_scratch(made))
    with service(tmp_path / "log") as made:
        assert state_of(made) == state
        agree(probabilities(made), before)


def test_labels_of_the_model_and_changes_of_classes_outlive_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_label, "MARGIN", 2.0)  # so few labels make no model sure
    with service(tmp_path / "log", check_every=5) as made:
        label(made, 20)
        label(made, 10, "anna")
        item = label(made, 1)[0]
        made.label("me", item, (truth(item) + 1) % 10).result()  # another answer in place of the first
        made.undo("me").result()
        made.label("me", item, truth(item)).result()
        made.skip("anna", made.next("anna").result()["next"]["item"]["id"]).result()
        task = made.next("me").result()["next"]["item"]["id"]
        made.rule_out("me", task, (truth(task) + 1) % 10).result()
        made.none_of_these("me", task).result()
        label_many(made, "ben", IDS[200:210], 4).result()
        made.classes.remove("me", 3, 5).result()
        reply = made.classes.remove("me", 2).result()
        made.classes.undo("anna", reply["last"]["saved"]).result()
        auto_label.start(made.views, "me", 0.5, 0.95).result()
        for _ in range(20):
            item = made.next("me").result()["next"]["item"]["id"]
            said: Any = made.state.proposals.get(made.state.position[item], (truth(item),))[0]
            made.label("me", item, said).result()
        auto_label.finish(made.views, "me").result()
        assert made.state.finished
        retrain(made.desk)
        state, before, shown = state_of(made), probabilities(made), made.views.progress("me")
    with service(tmp_path / "log") as made:
        assert state_of(made) == state
        agree(probabilities(made), before)
        agree(before, from_scratch(made))
        after = made.views.progress("me")
        same = ("labelled", "left", "finished", "accuracy", "agreement", "classes", "curve")
        assert {name: after[name] for name in same} == {name: shown[name] for name in same}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("deleted", [True, False])
def test_the_mean_can_be_deleted_at_any_time(tmp_path: Path, deleted: bool, seed: int) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path / "project"
    with cached(folder) as made:
        busy(made, rng, 10)
    with cached(folder) as made:
        busy(made, rng, 6)
        state, known, leases = state_of(made), fingerprint(made), dict(made.state.leases)
    assert (folder / MEAN).stat().st_mode & 0o777 == 0o600
    if deleted:
        (folder / MEAN).unlink()
    with cached(folder) as made:
        assert (state_of(made), fingerprint(made), made.state.leases) == (state, known, leases)
        agree(probabilities(made), from_scratch(made))
        busy(made, rng, 2)  # and everything continues


def test_after_a_pause_the_figures_are_those_that_a_restart_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrainer, "PAUSE", 0.1)

    def figures(made: Service) -> Any:
        shown = made.views.progress("me")
        for name in ("update_ms", "select_ms", "people"):  # of this process
            del shown[name]
        return shown, made.desk.read(made.views.class_figures).result(), fingerprint(made)

    with service(tmp_path / "log", check_every=4) as made:
        background = Retrainer(made.desk)
        label(made, 32)
        until(lambda: bool(made.state.assessed) and made.state.assessed[-1].labels == 32)
        label(made, 1)  # not the tenth since the last training
        until(lambda: made.state.assessed[-1].labels == 33)
        background.close()
        before = figures(made)
    with service(tmp_path / "log") as made:
        background = Retrainer(made.desk)
        until(lambda: made.desk.assessment is not None)
        background.close()
        assert figures(made) == before


def test_training_in_the_background_loses_no_label(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        retrainer = Retrainer(made.desk)
        label(made, 30)
        busy(made, np.random.default_rng(1), 10)
        retrainer.close()
        assert sorted(made.desk.learner.pool.labelled_idx.tolist()) == sorted(made.state.labels)
        retrain(made.desk)
        state, before = state_of(made), probabilities(made)
    with service(tmp_path / "log") as made:
        assert state_of(made) == state
        agree(probabilities(made), before)


def test_training_is_on_all_labels(tmp_path: Path) -> None:
    from everylabel.core import fit_map
    from everylabel.models.scaling import suited_precision

    with service(tmp_path / "log") as made:
        label(made, 30)
        retrain(made.desk)
        idx, y = zip(*sorted(made.desk.state.labels.items()), strict=True)
        mean = fit_map(made.desk.features[list(idx)].astype(float), list(y), 10, suited_precision(10))
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, mean, atol=1e-4)
        assert len(made.desk.learner.pool) == N
