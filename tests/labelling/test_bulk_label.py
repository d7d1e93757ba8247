"""One class for many items: separate events, one undo for all, and the same after a restart."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling.model import learner as learning
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.service import Service, label_many
from everylabel.labelling.state.types import Refused
from everylabel.log.events import Label
from tests.labelling.desks import IDS, Y, fingerprint, label, service

THREES = [IDS[i] for i in np.flatnonzero(Y[: len(IDS)] == 3)[:8]]


def _mean(made: Service) -> np.ndarray:
    return np.array(made.desk.learner.pool.posterior.mean)


def test_bulk_labels_are_separate_events_and_never_checks(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=1) as made:
        label(made, 5)  # the next one is a random check
        own = made.desk.state.leases["me"].item
        checks = len(made.state.checks)
        reply = label_many(made, "me", [*THREES, IDS[own]], 3).result()
        assert reply["bulk"] == {"labelled": len({*THREES, IDS[own]}), "left_out": []}
        assert len(made.state.checks) == checks
        labels = [event.body for event in made.desk.log.read() if isinstance(event.body, Label)]
        bodies = [body for body in labels if body.bulk is not None]
        assert [body.item for body in bodies] == list(dict.fromkeys([*THREES, IDS[own]]))
        assert len({body.bulk for body in bodies}) == 1
        assert not any(body.check for body in bodies)
        assert reply["next"]["item"]["id"] != IDS[own]
        assert all(made.state.labels[made.state.position[item]] == 3 for item in THREES)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n", [2, 8])
def test_one_undo_takes_all_bulk_labels_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool, n: int
) -> None:
    monkeypatch.setattr(learning, "EXACT_UP_TO", 10**8 if exact else 0)
    with service(tmp_path / "log", check_every=0) as made:
        taught = {*label(made, 12)}
        retrain(made.desk)  # with the prior of ten classes
        some = [item for item in THREES if item not in taught][:n]
        task = made.next("me").result()["next"]["item"]["id"]
        some = [item for item in some if item != task]
        before, labels = _mean(made), dict(made.state.labels)
        saved = label_many(made, "me", some, "3").result()["saved"]
        assert len(made.state.labels) == len(labels) + len(some)
        reply = made.undo("me", saved, key="back").result()
        assert made.state.labels == labels
        assert reply["next"]["item"]["id"] == task  # their own item stays
        again = made.undo("me", saved, key="back").result()
        assert (again["saved"], dict(made.state.labels)) == (reply["saved"], labels)
        if exact:
            assert np.abs(_mean(made) - before).max() < 2e-2 * np.abs(before).max()
        state = fingerprint(made)
    with service(tmp_path / "log") as again_open:
        assert fingerprint(again_open) == state


def test_labels_of_before_come_back(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        for item in THREES[:5]:
            made.label("me", item, 8).result()
        label_many(made, "me", THREES, 3).result()
        made.undo("me").result()
        assert {made.state.labels.get(made.state.position[item]) for item in THREES[:5]} == {8}
        assert not any(made.state.position[item] in made.state.labels for item in THREES[5:])
        pool = made.desk.learner.pool
        assert {int(pool.labels[made.state.position[item]]) for item in THREES[:5]} == {8}
        state = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == state


def test_leased_items_of_others_are_left_out(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        made.jump("ana", THREES[0]).result()
        reply = label_many(made, "me", THREES[:3], 3).result()
        assert reply["bulk"] == {"labelled": 2, "left_out": [THREES[0]]}
        with pytest.raises(Refused, match="leased to others or belong to the test set; nothing was saved"):
            label_many(made, "me", THREES[:1], 3).result()
        with pytest.raises(Refused, match="expected 0 to 9 or a class's name"):
            label_many(made, "me", THREES, "ten").result()
        with pytest.raises(Refused, match="expected an id of this project"):
            label_many(made, "me", [*THREES, "digit -1"], 3).result()
        assert len(made.state.labels) == 2


def test_sent_twice_counts_once(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        first = label_many(made, "me", THREES, 3, key="k").result()
        seq = made.state.n_answers
        again = label_many(made, "me", THREES, 3, key="k").result()
        assert (again["saved"], again["bulk"]) == (first["saved"], first["bulk"])
        assert made.state.n_answers == seq
        with pytest.raises(Refused, match="another request has used"):
            label_many(made, "me", THREES, 4, key="k").result()
