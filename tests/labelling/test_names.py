"""Class names that teach: before the first label, when they change, and when they lie."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling import learner
from everylabel.labelling.desk import Desk
from everylabel.labelling.learner import Learner
from everylabel.labelling.naming import Encoder, packed, phrases_of, unpacked
from everylabel.labelling.refit import refit
from everylabel.labelling.rows import Rows, prepare
from everylabel.labelling.service import Service
from everylabel.projects.database.store import Store
from everylabel.projects.log import bring_up_to_date
from tests.labelling.desks import fingerprint, until

WORDS = ["river", "engine", "violin", "harvest"]
RNG = np.random.default_rng(0)
MEANING = {word: 2.0 * RNG.normal(size=16) / 4.0 for word in [*WORDS, "c1", "c2", "c3", "c4", "sowing"]}
TRUTH = RNG.integers(4, size=240)
TEXTS = np.stack([MEANING[WORDS[y]] for y in TRUTH]) + 0.35 * RNG.normal(size=(240, 16)) + 1.0
IDS = [str(i) for i in range(len(TEXTS))]
PREPARED = prepare(TEXTS)


def _encode(phrases: Sequence[str]) -> np.ndarray:
    """Embed a phrase as the mean of its words: an encoder that knows words, as the texts' own does."""
    return np.stack([np.mean([MEANING[word] for word in phrase.split()], axis=0) for phrase in phrases])


ENCODER = Encoder("words", _encode)


@contextmanager
def named(path: Path, classes: Sequence[str] = WORDS, **settings: Any) -> Iterator[Service]:
    store = Store(path, "test")
    bring_up_to_date(store, IDS, classes=classes, settings=settings, encoder=ENCODER)
    desk = Desk(Rows(IDS, PREPARED.features, ready=True, given=PREPARED.scaling), store)
    made = Service(desk, lambda i: {"id": IDS[i]}, ENCODER)
    try:
        yield made
    finally:
        made.close()
        desk.close()
        store.close()


def accuracy(made: Service) -> float:
    return float(np.mean(made.views.guesses() == TRUTH))


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
        until(lambda: len(made.desk.ledger.vectors) == 4)
        assert accuracy(made) > 0.9


def test_a_switch_takes_the_names_away_and_brings_them_back(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        before = made.desk.read(lambda: np.array(made.desk.learner.pool.posterior.mean)).result()
        made.change_settings("me", {"names": False}).result()
        assert not np.any(made.desk.learner.pool.posterior.mean)
        assert made.next("me").result()["progress"]["names"]["on"] is False
        made.change_settings("me", {"names": True}).result()
        np.testing.assert_array_equal(made.desk.learner.pool.posterior.mean, before)


def test_another_name_teaches_at_once(tmp_path: Path) -> None:
    wrong = ["engine", "river", "violin", "harvest"]
    with named(tmp_path / "log", wrong) as made:
        before = accuracy(made)
        made.classes.change("me", 0, name="sowing").result()  # makes room
        made.classes.change("me", 1, name="engine").result()
        made.classes.change("me", 0, name="river").result()
        assert len(made.desk.ledger.vectors) == 4  # the old ones teach until the new ones are there
        until(lambda: made.desk.ledger.phrases.get(0) == ("river",))
        assert accuracy(made) > before + 0.3


def test_a_new_class_brings_its_name_and_a_description_counts(tmp_path: Path) -> None:
    with named(tmp_path / "log", WORDS[:3]) as made:
        made.classes.add("me", "sowing").result()
        until(lambda: 3 in made.desk.ledger.vectors)
        weak = accuracy(made)
        made.classes.change("me", 3, description="harvest").result()
        until(lambda: made.desk.ledger.phrases.get(3) == ("sowing", "harvest"))
        assert accuracy(made) > weak
        assert made.views.classes().result()["classes"][3]["description"] == "harvest"


@pytest.mark.parametrize("names", [["engine", "violin", "harvest", "river"], ["c1", "c2", "c3", "c4"]])
def test_names_that_lie_or_say_nothing_are_left_aside(tmp_path: Path, names: list[str]) -> None:
    with named(tmp_path / "log", names, strategy="random") as made:
        give(made, 12)
        refit(made.desk)
        told = made.next("me").result()["progress"]["names"]
        assert (told["on"], told["hold"], told["used"]) == (True, False, False)
        assert "of no use" in told["sentence"]
        lying = accuracy(made)
        made.change_settings("me", {"names": False}).result()
        refit(made.desk)
        assert abs(accuracy(made) - lying) < 0.02


def test_names_that_hold_are_kept(tmp_path: Path) -> None:
    with named(tmp_path / "log", strategy="random") as made:
        give(made, 12)
        refit(made.desk)
        assert made.next("me").result()["progress"]["names"]["used"]


def test_a_replay_needs_no_encoder_and_is_the_same_to_the_bit(tmp_path: Path) -> None:
    with named(tmp_path / "log", ["engine", "violin", "harvest", "river"]) as made:
        give(made, 7)
        refit(made.desk)  # leaves the names aside, or not: the log says which
        give(made, 5)
        made.classes.change("me", 0, name="sowing").result()
        until(lambda: 0 in made.desk.ledger.phrases)
        give(made, 3)
        refit(made.desk)
        made.change_settings("me", {"names": False}).result()
        made.change_settings("me", {"names": True}).result()
        give(made, 4)
        before = fingerprint(made)
    store = Store(tmp_path / "log", "test")
    desk = Desk(Rows(IDS, PREPARED.features, ready=True, given=PREPARED.scaling), store)
    try:
        assert fingerprint(Service(desk, lambda i: {"id": IDS[i]})) == before
    finally:
        desk.close()
        store.close()


def test_an_encoder_that_cannot_be_had_is_told_and_nothing_else_changes(tmp_path: Path) -> None:
    def broken(phrases: Sequence[str]) -> np.ndarray:
        raise EverylabelError("the model is not there")

    said: list[str] = []
    store = Store(tmp_path / "log", "test")
    bring_up_to_date(store, IDS, classes=WORDS)
    before = len(store.read())
    bring_up_to_date(store, IDS, encoder=Encoder("words", broken), note=said.append)
    assert said == ["class names do not teach the model: the model is not there"]
    assert len(store.read()) == before
    store.close()


def test_vectors_and_phrases_in_an_event() -> None:
    vectors = RNG.normal(size=(2, 5))
    np.testing.assert_allclose(unpacked(packed(vectors), 2), vectors, rtol=1e-3, atol=1e-6)
    assert phrases_of("card_lost", None) == phrases_of("card_lost", "") == ("card lost",)
    assert phrases_of("card_lost", "stolen, too") == ("card lost", "stolen, too")


def test_another_encoder_takes_the_vectors_of_the_old_one_away(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        give(made, 3)
    store = Store(tmp_path / "log", "test")
    bring_up_to_date(store, IDS)  # texts are embedded by TF-IDF now, which knows no words
    narrow = prepare(TEXTS[:, :5])
    desk = Desk(Rows(IDS, narrow.features, ready=True, given=narrow.scaling), store)
    assert (desk.ledger.vectors, len(desk.ledger.labels)) == ({}, 3)
    desk.close()
    wide = Encoder("other words", lambda phrases: np.c_[_encode(phrases), _encode(phrases)])
    bring_up_to_date(store, IDS, encoder=wide)
    both = prepare(np.c_[TEXTS, TEXTS])
    desk = Desk(Rows(IDS, both.features, ready=True, given=both.scaling), store)
    assert {vectors.shape for vectors in desk.ledger.vectors.values()} == {(1, 32)}
    desk.close()
    store.close()


def test_names_of_one_block_are_taught_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught: list[int] = []
    learn = Learner._teach

    def teach(self: Learner, names: Any) -> None:
        taught.append(len(names))
        learn(self, names)

    monkeypatch.setattr(Learner, "_teach", teach)
    with named(tmp_path / "log"):
        assert taught == [4]


def test_a_model_trained_on_names_that_have_changed_since_is_dropped(tmp_path: Path) -> None:
    with named(tmp_path / "log") as made:
        give(made, 8)
        start = made.desk.read(made.desk.start).result()
        trained = start.learner(made.desk.features, made.desk.scaling)
        made.change_settings("me", {"names": False}).result()

        def take_over() -> Any:
            made.desk.take(trained, start, start.seq, start.seq)
            return lambda: None

        made.desk.submit(take_over, alone=True).result()
        assert made.desk.learner is not trained
        assert made.desk.learned.is_set()


def test_what_people_wrote_of_a_class_stays_though_the_file_says_otherwise(tmp_path: Path) -> None:
    store = Store(tmp_path / "log", "test")
    given = {"classes": WORDS, "descriptions": {"river": "water"}}
    bring_up_to_date(store, IDS, **given)  # type: ignore[arg-type]
    desk = Desk(Rows(IDS, PREPARED.features, ready=True), store)
    Service(desk, lambda i: {"id": IDS[i]}).classes.change("me", 0, description="sowing").result()
    desk.close()
    bring_up_to_date(store, IDS, **given)  # type: ignore[arg-type]
    bring_up_to_date(store, IDS, classes=WORDS, descriptions={"engine": "harvest"})
    desk = Desk(Rows(IDS, PREPARED.features, ready=True), store)
    assert desk.ledger.book.descriptions == {0: "sowing", 1: "harvest"}
    desk.close()
    store.close()


def test_names_that_take_long_are_taught_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with named(tmp_path / "log", WORDS[:2]) as made:
        monkeypatch.setattr(learner, "TAUGHT_UP_TO", 0)
        for name in WORDS[2:]:
            made.classes.add("me", name).result()
        until(lambda: len(made.desk.ledger.vectors) == 4)
        before = made.desk.learner.pool.posterior.mean
        assert made.desk.learner.waiting == 2
        assert not np.asarray(before)[:, 2:].any()  # not yet
        refit(made.desk)
        assert made.desk.learner.waiting == 0
        assert accuracy(made) > 0.9
        state = fingerprint(made)
    monkeypatch.undo()
    with named(tmp_path / "log", WORDS[:2]) as made:
        assert fingerprint(made) == state
