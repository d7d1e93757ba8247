"""Replaying a log gives the same posterior, logits and next instance, bit for bit."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.labelling import learner
from everylabel.labelling import refit as module
from everylabel.labelling import replay as replaying
from everylabel.labelling.events import Refit
from everylabel.labelling.refit import refit
from everylabel.labelling.service import Service
from everylabel.labelling.training import train
from tests.labelling.desks import FEATURES, fingerprint, label, service


def busy(made: Service, rng: np.random.Generator, n: int) -> None:
    """Do all kinds of things as three people, several at once."""
    people = ("anna", "ben", "me")
    for _ in range(n):
        futures = []
        for person in people:
            lease = made.desk.ledger.leases.get(person)
            kinds = ["label", "label", "label", "skip", "undo", "tell", "jump", "class", "remove", "none"]
            what = rng.choice([*kinds, "not", "not"])
            if lease is None:
                futures.append(made.next(person))
                continue
            item = made.desk.ids[lease.item]
            if what == "label":
                futures.append(made.label(person, item, int(rng.integers(10))))
            elif what == "skip":
                futures.append(made.skip(person, item))
            elif what == "undo":
                futures.append(made.undo(person))
            elif what == "tell":
                futures.append(made.cannot_tell(person, item))
            elif what == "jump":
                futures.append(made.jump(person, made.desk.ids[int(rng.integers(len(made.desk.ids)))]))
            elif what == "not":
                futures.append(made.rule_out(person, item, int(rng.integers(10))))
            elif what == "none":
                futures.append(made.none_of_these(person, item))
            elif what == "remove":
                number, into = rng.integers(12, size=2).tolist()
                futures.append(made.classes.remove(person, number, into if into < 6 else None))
                if rng.random() < 0.5:
                    futures.append(made.classes.restore(person, int(rng.integers(12))))
            else:
                futures.append(made.classes.add(person, f"class {rng.integers(3)}"))
        for future in futures:
            future.exception()  # a refusal is fine


@pytest.mark.parametrize("strategy", ["lookahead", "margin", "typiclust"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exact_up_to", [0, 5 * FEATURES.size, learner.EXACT_UP_TO])
def test_a_replay_equals_what_was_before(
    tmp_path: Path, strategy: str, seed: int, exact_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", exact_up_to)
    rng = np.random.default_rng(seed)
    with service(tmp_path / "log", strategy=strategy, check_every=4) as made:
        busy(made, rng, 15)
        if seed:
            refit(made.desk)
            busy(made, rng, 10)
        if seed == 2:
            refit(made.desk)
        before = fingerprint(made)
        tasks = [made.next(person).result()["next"]["item"] for person in ("anna", "ben", "me")]
        after = fingerprint(made)
    with service(tmp_path / "log") as made:
        if before == after:  # everybody had an item
            assert fingerprint(made) == before
        assert fingerprint(made) == after
        assert [made.next(person).result()["next"]["item"] for person in ("anna", "ben", "me")] == tasks


def test_refitting_while_labels_come_in_is_replayed_too(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        label(made, 12)
        start = made.desk.read(made.desk.start).result()
        label(made, 5)  # while the model is being trained
        trained = start.learner(made.desk.features)

        def take_over() -> object:
            made.desk.take(trained, start, start.seq, start.seq)
            return lambda: None

        made.desk.submit(take_over, alone=True).result()  # type: ignore[arg-type]
        label(made, 5)
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before
        assert len(made.desk.ledger.labels) == 22


@pytest.mark.parametrize("nearly", [0, 1000], ids=["computed at the end", "moved since the start"])
@pytest.mark.parametrize("exact_up_to", [0, learner.EXACT_UP_TO])
def test_votes_that_turn_labels_while_a_model_is_trained_are_replayed_too(
    tmp_path: Path, exact_up_to: int, nearly: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", exact_up_to)
    rng, people = np.random.default_rng(0), ("anna", "ben", "me")

    def vote(made: Service, n: int) -> None:
        for _ in range(n):
            for person in people:
                item = made.next(person).result()["next"]["item"]["id"]
                made.label(person, item, int(rng.integers(10))).result()
            if rng.random() < 0.3:
                made.undo("me").result()

    with service(tmp_path / "log", annotators_per_item=3) as made:
        vote(made, 8)
        read = made.desk.read

        def meanwhile(look: object) -> object:
            vote(made, 1)
            return read(look)  # type: ignore[arg-type]

        monkeypatch.setattr(module, "NEARLY", nearly)
        monkeypatch.setattr(module, "ONE", 0)  # never caught up: it takes over nevertheless
        monkeypatch.setattr(made.desk, "read", meanwhile)
        refit(made.desk)
        monkeypatch.undo()
        monkeypatch.setattr(learner, "EXACT_UP_TO", exact_up_to)
        assert [event.body.kind for event in made.desk.log.read()].count("refit") == 1
        vote(made, 4)
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before


def test_an_exact_refit_is_training_on_all_labels(tmp_path: Path) -> None:
    from everylabel.core import fit_map
    from everylabel.models.scaling import suited_precision

    with service(tmp_path / "log") as made:
        label(made, 30)
        refit(made.desk)
        idx, y = zip(*sorted(made.desk.ledger.labels.items()), strict=True)
        mean = fit_map(made.desk.features[list(idx)].astype(float), list(y), 10, suited_precision(10))
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, mean, atol=1e-4)


@pytest.mark.parametrize("exact_up_to", [0, learner.EXACT_UP_TO])
def test_a_start_long_after_the_last_training_trains_first(
    tmp_path: Path, exact_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", exact_up_to)
    with service(tmp_path / "log") as made:
        label(made, 30)
    monkeypatch.setattr(replaying, "LATELY", 29)
    with service(tmp_path / "log") as made:
        kinds = [event.body.kind for event in made.desk.log.read()]
        twin = train(made.desk.features, made.desk.ledger.labels, 10, tol=1e-6)
        np.testing.assert_array_equal(made.desk.learner.pool.posterior.mean, twin.mean)
        assert kinds.count("refit") == 1
        before = fingerprint(made)
    with service(tmp_path / "log") as made:  # not again
        assert fingerprint(made) == before
        assert [event.body.kind for event in made.desk.log.read()] == kinds


def test_a_training_that_took_over_long_after_it_began_is_no_recent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came since the labels it was trained on is followed one by one, wherever it stands in the log."""
    monkeypatch.setattr(replaying, "LATELY", 29)
    with service(tmp_path / "log") as made:
        label(made, 10)
        began = made.desk.ledger.seq
        label(made, 30)

        def take_over() -> Callable[[], None]:
            made.desk.emit("", Refit(began))
            return lambda: None

        made.desk.submit(take_over, alone=True).result()
    with service(tmp_path / "log") as made:
        trainings = [event.body for event in made.desk.log.read() if isinstance(event.body, Refit)]
        assert [body.upto for body in trainings] == [began, made.desk.ledger.seq - 1]


def test_a_training_that_a_later_one_has_overtaken_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, go_on, usual = threading.Event(), threading.Event(), replaying.learner_at

    def slow(*given: Any, **how: Any) -> Any:
        made = usual(*given, **how)
        if threading.current_thread().name == "slow":
            held.set()
            go_on.wait()
        return made

    monkeypatch.setattr(module, "learner_at", slow)
    with service(tmp_path / "log") as made:
        label(made, 20)
        first = threading.Thread(target=refit, args=(made.desk,), name="slow")
        first.start()
        held.wait()
        label(made, 5)
        refit(made.desk)  # begun later, done sooner
        go_on.set()
        first.join()
        assert len(made.desk.read(lambda: made.desk.learner.pool.labelled_idx).result()) == 25
        state = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == state
