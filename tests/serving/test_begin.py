"""What a start writes to the log: once, and so that the model starts trained."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.serving.begin import begin
from everylabel.serving.imports import Label
from everylabel.serving.ledger import Ledger
from everylabel.serving.replay import replay
from everylabel.serving.store import Store
from tests.serving.desks import FEATURES, IDS, service, truth

LABELS = [Label(IDS[i], str(truth(IDS[i])), "Ann" if i % 2 else None) for i in range(20)]


def begun(path: Path, **options: Any) -> tuple[int, Ledger]:
    with closing(Store(path, "test")) as store:
        imported = begin(store, IDS, **options)
        ledger = Ledger(IDS)
        for event in store.read():
            ledger.apply(event)
    return imported, ledger


def test_labels_are_imported_once_and_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    imported, ledger = begun(path, classes=["9"], labels=[*LABELS, Label("gone", "9")])
    assert imported == 20
    assert ledger.classes[0] == "9"
    assert {IDS[i]: ledger.classes[c] for i, c in ledger.labels.items()} == {x.id: x.label for x in LABELS}
    assert ledger.by_person == {"Ann": 10, "import": 10}
    again, same = begun(path, classes=["9"], labels=LABELS)
    assert (again, same.seq) == (0, ledger.seq)
    with closing(Store(path, "test")) as store:
        _, learner, changes = replay(store.read(), IDS, FEATURES)
    assert [change for change in changes if change.item is not None] == []
    labelled = np.array(sorted(ledger.labels))
    guesses = learner.pool.probs(labelled).argmax(axis=1)
    assert [int(guess) for guess in guesses] == [ledger.labels[int(i)] for i in labelled]


def test_a_later_start_changes_only_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    begun(path, classes=["a", "b"], settings={"strategy": "margin"})
    with service(path) as made:
        made.rename_class("me", 0, "alpha").result()
        made.label("me", IDS[0], 0).result()
    _, ledger = begun(path, classes=["a", "b", "c"], labels=[Label(IDS[1], "a")])
    assert ledger.classes == ["alpha", "b", "c"]  # a is alpha now
    assert ledger.labels == {0: 0, 1: 0}
    assert ledger.settings["strategy"] == "margin"
    _, ledger = begun(path, settings={"check_every": 3})
    assert (ledger.settings["strategy"], ledger.settings["check_every"]) == ("margin", 3)
    before = ledger.seq
    assert begun(path, settings={"check_every": 3})[1].seq == before


def test_an_imported_label_can_be_taken_over_by_a_person(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    begun(path, classes=["a", "b"], labels=[Label(IDS[0], "a")])
    with service(path) as made:
        made.jump("me", IDS[0]).result()
        made.label("me", IDS[0], 1).result()
        assert made.ledger.labels == {0: 1}
    assert begun(path, labels=[Label(IDS[0], "a")])[1].labels == {0: 1}
