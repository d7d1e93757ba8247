"""Class names as prior: before the first label, after changes, and when they mislead."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling import desk as desk_module
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import (
    ClassNames,
    Encoder,
    FeatureTable,
    confirmed_names,
    phrases_of,
    prepare,
)
from everylabel.labelling.service import Service
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import State
from everylabel.log.events import Event, Project
from everylabel.log.store import Store
from tests.labelling.desks import fingerprint, probabilities, until
from tests.projects.starts import start

WORDS = ["river", "engine", "violin", "harvest"]
RNG = np.random.default_rng(0)
MEANING = {word: 2.0 * RNG.normal(size=16) / 4.0 for word in [*WORDS, "c1", "c2", "c3", "c4", "sowing"]}
TRUTH = RNG.integers(4, size=240)
TEXTS = np.stack([MEANING[WORDS[y]] for y in TRUTH]) + 0.35 * RNG.normal(size=(240, 16)) + 1.0
IDS = [str(i) for i in range(len(TEXTS))]
PREPARED = prepare(TEXTS)


def _encode(phrases: Sequence[str]) -> np.ndarray:
    """Embed a phrase as the mean of its words, like the encoder of the texts."""
    return np.stack([np.mean([MEANING[word] for word in phrase.split()], axis=0) for phrase in phrases])


ENCODER = Encoder("words", _encode)


@contextmanager
def named(path: Path, classes: Sequence[str] = WORDS, **settings: Any) -> Iterator[Service]:
    store = Store(path, "test")
    names = ClassNames(ENCODER, path.with_suffix(".npz"))
    start(store, IDS, classes=classes, settings=settings, names=names)
    desk = Desk(FeatureTable(IDS, PREPARED.features, ready=True, given=PREPARED.scaling), store, names=names)
    made = Service(desk, lambda item: {"id": item})
    try:
        yield made
    finally:
        made.close()
        desk.close()
        store.close()


def taught(made: Service, number: int) -> int:
    """Return how many phrases of a class teach the model."""

    def look() -> int:
        found = made.desk.learner.name_vectors.get(number)
        return 0 if found is None else len(found)

    return int(made.desk.read(look).result())


def teaches(made: Service, number: int, phrase: str) -> bool:
    """Return whether a phrase is among those of a class that the model has learned."""
    vector = np.asarray(_encode([phrase]), np.float16).astype(np.float64)

    def look() -> bool:
        found = made.desk.learner.name_vectors.get(number)
        return found is not None and bool((found == vector).all(axis=1).any())

    return bool(made.desk.read(look).result())


def accuracy(made: Service) -> float:
    return float(np.mean(made.views.guesses.all() == TRUTH))


def give(made: Service, n: int) -> None:
    reply = made.next("me").result()
    for _ in range(n):
        item = reply["next"]["item"]["id"]
        reply = made.label("me", item, int(TRUTH[int(item)])).result()


def test_the_first_item_has_guesses(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        reply = made.next("me").result()
        assert len(reply["next"]["probabilities"]) == 4
        assert reply["progress"]["names"]["used"]
        assert accuracy(made) > 0.9
    with named(tmp_path / "off", names=False) as made:
        reply = made.next("me").result()
        assert reply["next"]["probabilities"] is None
        assert reply["progress"]["names"]["on"] is False
        made.change_settings("me", {"names": True}).result()  # what was never embedded is, now
        until(lambda: all(taught(made, c) for c in range(4)))
        assert accuracy(made) > 0.9


def test_a_switch_takes_the_names_away_and_brings_them_back(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        before = made.desk.read(lambda: np.array(made.desk.learner.pool.posterior.mean)).result()
        made.change_settings("me", {"names": False}).result()
        assert not np.any(made.desk.learner.pool.posterior.mean)
        assert made.next("me").result()["progress"]["names"]["on"] is False
        made.change_settings("me", {"names": True}).result()
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, before, atol=1e-4)


def test_another_name_teaches_at_once(tmp_path: Path) -> None:
    wrong = ["engine", "river", "violin", "harvest"]
    with named(tmp_path / "log", wrong) as made:
        before = accuracy(made)
        made.classes.change("me", 0, name="sowing").result()  # makes room
        made.classes.change("me", 1, name="engine").result()
        made.classes.change("me", 0, name="river").result()
        assert all(taught(made, c) for c in range(4))  # the old ones teach until the new ones are there
        until(lambda: teaches(made, 0, "river") and teaches(made, 1, "engine"))
        assert accuracy(made) > before + 0.3


def test_a_new_class_brings_its_name_and_a_description_counts(tmp_path: Path) -> None:
    with named(tmp_path / "log", WORDS[:3]) as made:
        made.classes.add("me", "sowing").result()
        until(lambda: taught(made, 3) == 1)
        weak = accuracy(made)
        made.classes.change("me", 3, description="harvest").result()
        until(lambda: taught(made, 3) == 2)
        assert accuracy(made) > weak
        assert made.desk.read(made.views.classes).result()["classes"][3]["description"] == "harvest"


@pytest.mark.parametrize("names", [["engine", "violin", "harvest", "river"], ["c1", "c2", "c3", "c4"]])
def test_misleading_and_uninformative_names_are_ignored(tmp_path: Path, names: list[str]) -> None:
    with named(tmp_path / "log", names, strategy="random") as made:
        give(made, 12)
        retrain(made.desk)
        told = made.next("me").result()["progress"]["names"]
        assert (told["on"], told["hold"], told["used"]) == (True, False, False)
        assert "are ignored" in told["sentence"]
        lying = accuracy(made)
        made.change_settings("me", {"names": False}).result()
        retrain(made.desk)
        assert abs(accuracy(made) - lying) < 0.02


def test_confirmed_names_are_kept(tmp_path: Path) -> None:
    with named(tmp_path / "log", strategy="random") as made:
        give(made, 12)
        retrain(made.desk)
        assert made.next("me").result()["progress"]["names"]["used"]


@pytest.mark.parametrize("cached", [True, False])
def test_class_names_are_learned_again_after_a_restart(tmp_path: Path, cached: bool) -> None:
    with named(tmp_path / "log", ["engine", "violin", "harvest", "river"]) as made:
        give(made, 7)
        retrain(made.desk)  # leaves the names aside, or not
        give(made, 5)
        made.classes.change("me", 0, name="sowing").result()
        until(lambda: teaches(made, 0, "sowing"))
        give(made, 3)
        made.change_settings("me", {"names": False}).result()
        made.change_settings("me", {"names": True}).result()
        give(made, 4)
        retrain(made.desk)
        before, state = probabilities(made), fingerprint(made)
        told = made.next("me").result()["progress"]["names"]
    if not cached:
        (tmp_path / "log.npz").unlink()
    with named(tmp_path / "log", ["engine", "violin", "harvest", "river"]) as made:
        assert fingerprint(made) == state
        np.testing.assert_allclose(probabilities(made), before, atol=1e-3)
        assert made.next("me").result()["progress"]["names"] == told


def test_cached_names_are_not_embedded_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(phrases: Sequence[str]) -> np.ndarray:
        asked.extend(phrases)
        return _encode(phrases)

    path, state = tmp_path / "names.npz", State(IDS)
    apply(state, Event(1, 0.0, "", Project(WORDS, {}, seed=0)))
    first = ClassNames(Encoder("words", counted), path)
    first.learn(first.missing(state))
    assert asked == WORDS
    again = ClassNames(Encoder("words", counted), path)
    assert again.missing(state) == []
    for number, vectors in first.vectors(state).items():
        np.testing.assert_array_equal(again.vectors(state)[number], vectors)
    assert ClassNames(Encoder("other words", counted), path).missing(state) == WORDS  # of another encoder
    path.write_bytes(path.read_bytes()[:-20])
    assert ClassNames(Encoder("words", counted), path).missing(state) == WORDS  # damaged
    state.settings["names"] = False
    assert (again.missing(state), again.vectors(state)) == ([], {})
    assert ClassNames().vectors(state) == {}


def test_unavailable_encoder_is_reported_and_nothing_else_changes(tmp_path: Path) -> None:
    def broken(phrases: Sequence[str]) -> np.ndarray:
        raise EverylabelError("the model does not exist")

    said: list[str] = []
    store = Store(tmp_path / "log", "test")
    start(store, IDS, classes=WORDS)
    before = len(store.read())
    start(store, IDS, names=ClassNames(Encoder("words", broken)), note=said.append)
    assert said == ["the model does not learn from class names: the model does not exist"]
    assert len(store.read()) == before
    store.close()


def test_phrases_of_a_class_are_its_name_as_words_and_its_description() -> None:
    assert phrases_of("card_lost", None) == phrases_of("card_lost", "") == ("card lost",)
    assert phrases_of("card_lost", "stolen, too") == ("card lost", "stolen, too")


def test_class_names_by_another_encoder_replace_the_old_ones(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        give(made, 3)
    store, cache = Store(tmp_path / "log", "test"), tmp_path / "log.npz"
    narrow = prepare(TEXTS[:, :5])  # texts are embedded by TF-IDF now, which knows no words
    desk = Desk(FeatureTable(IDS, narrow.features, ready=True, given=narrow.scaling), store)
    assert (desk.learner.name_vectors, desk.learner.names, len(desk.state.labels)) == ({}, None, 3)
    desk.close()
    wide = ClassNames(
        Encoder("other words", lambda phrases: np.c_[_encode(phrases), _encode(phrases)]), cache
    )
    start(store, IDS, names=wide)
    both = prepare(np.c_[TEXTS, TEXTS])
    desk = Desk(FeatureTable(IDS, both.features, ready=True, given=both.scaling), store, names=wide)
    assert {vectors.shape for vectors in desk.learner.name_vectors.values()} == {(1, 32)}
    desk.close()
    store.close()


def test_names_that_come_together_are_learned_by_one_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings: list[int] = []
    usual = Learner.__init__

    def counted(self: Learner, *given: Any, **how: Any) -> None:
        usual(self, *given, **how)
        trainings.append(len(self.name_vectors))

    monkeypatch.setattr(Learner, "__init__", counted)
    with named(tmp_path / "log"):
        assert trainings == [4]


def test_a_model_trained_on_names_that_have_changed_since_is_dropped(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        give(made, 8)
        training = made.desk.read(made.desk.training_set).result()
        trained = Learner(made.desk.rows, made.desk.ids, training)
        made.change_settings("me", {"names": False}).result()

        def replace_model() -> Any:
            made.desk.replace_model(trained)
            return lambda: None

        made.desk.submit(replace_model, alone=True).result()
        assert made.desk.learner is not trained
        assert made.desk.learned.is_set()


def test_description_by_people_outlives_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "log", "test")
    given = {"classes": WORDS, "descriptions": {"river": "water"}}
    start(store, IDS, **given)  # type: ignore[arg-type]
    desk = Desk(FeatureTable(IDS, PREPARED.features, ready=True), store)
    Service(desk, lambda item: {"id": item}).classes.change("me", 0, description="sowing").result()
    desk.close()
    start(store, IDS, **given)  # type: ignore[arg-type]
    start(store, IDS, classes=WORDS, descriptions={"engine": "harvest"})
    desk = Desk(FeatureTable(IDS, PREPARED.features, ready=True), store)
    assert desk.state.book.descriptions == {0: "sowing", 1: "harvest"}
    desk.close()
    store.close()


def test_names_that_take_long_are_learned_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with named(tmp_path / "log", WORDS[:2]) as made:
        monkeypatch.setattr(desk_module, "RETRAINED_UP_TO", 0)
        for name in WORDS[2:]:
            made.classes.add("me", name).result()
        until(lambda: not made.desk.names.missing(made.state))
        made.desk.submit(lambda: lambda: None).result()
        assert not np.asarray(made.desk.learner.pool.posterior.mean)[:, 2:].any()  # not yet
        assert taught(made, 2) == 0
        retrain(made.desk)
        assert taught(made, 2) == taught(made, 3) == 1
        assert accuracy(made) > 0.9
        before = probabilities(made)
    monkeypatch.undo()
    with named(tmp_path / "log", WORDS[:2]) as made:
        np.testing.assert_allclose(probabilities(made), before, atol=1e-3)


def test_multi_label_project_uses_class_names_until_labels_contradict_them(tmp_path: Path) -> None:
    def ranked(made: Service) -> list[float]:
        """Return the area under the ROC curve of each class."""
        probs = probabilities(made)
        return [
            float(np.mean(probs[c == TRUTH, c][:, None] > probs[c != TRUTH, c][None, :])) for c in range(4)
        ]

    with named(tmp_path / "log", multi_label=True) as made:
        assert made.next("me").result()["next"]["probabilities"] is not None  # before the first label
        assert min(ranked(made)) > 0.9
        assert made.desk.learner.names.labels.shape == (4, 4)  # type: ignore[union-attr]
    wrong = [*WORDS[1:], WORDS[0]]
    with named(tmp_path / "wrong", wrong, multi_label=True) as made:
        assert max(ranked(made)) < 0.5
        reply = made.next("me").result()
        for _ in range(30):
            item = reply["next"]["item"]["id"]
            reply = made.label_set("me", item, [int(TRUTH[int(item)])]).result()
        retrain(made.desk)
        assert made.desk.learner.names is None
        assert min(ranked(made)) > 0.8


def test_the_test_of_names_warns_of_no_outliers_since_opening_the_project_has() -> None:
    x = np.asarray(PREPARED.features[np.arange(60)]).copy()
    x[3] *= 1e6
    vectors = {c: MEANING[word][None] for c, word in enumerate(WORDS)}
    labels = dict(enumerate(TRUTH[:40].tolist()))
    confirmed_names(vectors, x, labels, 4, PREPARED.scaling)  # a warning would fail the test
