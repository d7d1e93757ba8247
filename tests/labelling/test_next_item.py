"""Items that take precedence over the strategy: test items and checks; and leases that expire."""

import threading
from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling.desk import Finish
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.state.types import Refused
from everylabel.log import events
from everylabel.log.store import Store
from tests.labelling.desks import CLASSES, FEATURES, IDS, Y, fingerprint, label, service, truth
from tests.projects.starts import start


def test_checks_of_a_class_are_drawn_among_items_predicted_as_it(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=7) as made:
        label(made, 30)
        for _ in range(2):  # the same request, sent twice
            reply = made.wish("me", 3, 5, key="w").result()
        assert reply["wishes"] == [{"class": 3, "checks": 5}]
        with pytest.raises(Refused, match="class is 10; expected 0 to 9"):
            made.wish("me", 10, 5).result()
        seen = []
        for _ in range(24):
            task = made.next("me").result()["next"]
            item = made.views.position(task["item"]["id"])
            out = made.state.checked.get(item)
            if task["reason"] == "check" and out is not None and out.share is not None:
                seen.append((out.among, int(made.desk.learner.probabilities(item).argmax()), out.share))
                assert task["probabilities"] is None
            made.label("me", task["item"]["id"], truth(task["item"]["id"])).result()
        assert [(among, guess) for among, guess, _ in seen] == [(3, 3)] * 5
        assert all(0.0 < share < 0.5 for _, _, share in seen)
        assert made.state.wishes == {}
        assert [check.among for check in made.state.checks.values()].count(3) == 5
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


def test_class_without_predictions_does_not_block_others(tmp_path: Path) -> None:
    with service(tmp_path / "log", classes=[*CLASSES, "never"], check_every=0) as made:
        label(made, 30)
        made.wish("me", 10, 5).result()
        label(made, 6)
        assert made.state.wishes == {10: 5}


def _with_test(path: Path, n: int, **settings: object) -> None:
    store = Store(path, "test")
    start(store, IDS, classes=CLASSES, settings=dict(settings), test=str(n))
    store.close()


def test_test_items_come_first_without_a_guess_and_are_not_learned(tmp_path: Path) -> None:
    _with_test(tmp_path / "log", 12)
    with service(tmp_path / "log") as made:
        before = np.asarray(made.desk.learner.pool.posterior.mean).tobytes()
        for _ in range(12):
            task = made.next("me").result()["next"]
            assert (task["reason"], task["probabilities"]) == ("test", None)
            reply = made.label("me", task["item"]["id"], truth(task["item"]["id"])).result()
        assert np.asarray(made.desk.learner.pool.posterior.mean).tobytes() == before
        assert (reply["progress"]["labelled"], reply["progress"]["test"]["answered"]) == (0, 12)
        assert made.undo("me").result()["next"]["probabilities"] is None
        made.label("me", task["item"]["id"], truth(task["item"]["id"])).result()
        label(made, 40)
        assert not set(made.state.labels) & set(made.state.test)
        retrain(made.desk)
        shown = made.next("me").result()["progress"]["test"]
        guesses = made.desk.learner.pool.logits(list(made.state.test)).argmax(axis=1)
        assert shown["estimate"] == pytest.approx(np.mean(guesses == Y[list(made.state.test)]))
        assert shown["n"] == 12
        page = made.views.guesses.page(None, 0, 1000)
        assert page["total"] == len(IDS) - 40 - 12
        assert (
            made.desk.read(made.views.states, [next(iter(made.state.test))]).result()[0]["state"]
            == "labelled"
        )
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


def test_a_named_tester_labels_the_test_set_and_nobody_else(tmp_path: Path) -> None:
    _with_test(tmp_path / "log", 5, tester="anna")
    with service(tmp_path / "log") as made:
        assert made.next("ben").result()["next"]["reason"] == "chosen"
        assert made.next("anna").result()["next"]["reason"] == "test"
        skipped = made.next("anna").result()["next"]["item"]["id"]
        assert made.skip("anna", skipped).result()["next"]["item"]["id"] != skipped


def test_a_test_set_grows_and_is_never_drawn_twice(tmp_path: Path) -> None:
    for n, expected in [(5, 5), (5, 5), (8, 8), (3, 8)]:
        _with_test(tmp_path / "log", n)
        store = Store(tmp_path / "log", "test")
        found = [event.body.item for event in store.read() if isinstance(event.body, events.HeldOut)]
        store.close()
        assert len(found) == len(set(found)) == expected


def test_people_who_ask_in_one_round_get_different_items(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def hold() -> Finish:
        begun.set()
        go.wait()
        return lambda: None

    with service(tmp_path / "log", ids=IDS[:40], features=FEATURES[:40], check_every=2) as made:
        made.desk.submit(hold)
        begun.wait()
        replies = [made.next(f"person {i}") for i in range(16)]
        go.set()
        items = [reply.result()["next"]["item"]["id"] for reply in replies]
    assert len(set(items)) == 16
