"""Review of given labels behind the page: likely errors come first, and their number is stated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import join
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.service import Service
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import GIVEN, REVIEW
from everylabel.log.store import Store
from everylabel.projects.log import Label
from tests.labelling.desks import CLASSES, FEATURES, IDS, N, Y, label
from tests.projects.starts import start

WRONG = np.sort(np.random.default_rng(1).choice(N, 15, replace=False))
LABELS = Y[:N].copy()
LABELS[WRONG] = (LABELS[WRONG] + 3) % 10
SOURCE = [Label(IDS[i], CLASSES[LABELS[i]]) for i in range(N)]


@contextmanager
def reviewing(path: Path, check_every: int = 0) -> Iterator[Service]:
    store = Store(path, "test")
    start(
        store,
        IDS,
        classes=CLASSES,
        settings={"strategy": REVIEW, "check_every": check_every},
        source=SOURCE,
        review=True,
    )
    desk = Desk(FeatureTable(IDS, FEATURES, ready=True), store)
    try:
        yield Service(desk, lambda item: {"id": item})
    finally:
        desk.close()
        store.close()


def test_planted_errors_are_proposed_first_and_counted(tmp_path: Path) -> None:
    with reviewing(tmp_path / "log.sqlite", check_every=3) as made:
        assert not made.state.labels, "a given label is no answer of a person"
        assert made.state.hidden_columns == ["kind"], "a random check must not show it"
        first = made.next("me").result()["next"]
        assert first["by"] == REVIEW
        assert [one["source"] for one in first["suggestions"]] == [GIVEN]
        told = made.views.figures("me")["review"]
        assert (told["labels"], told["checks"], told["estimate"]) == (N, 0, None)
        asked = label(made, 36)
        retrain(made.desk)
        proposed = [int(item.split()[1]) for item in asked]
        chosen = [i for i in proposed if i not in made.state.checked]
        assert np.mean(np.isin(chosen[:12], WRONG)) > 0.8
        told = made.views.figures("me")["review"]
        assert told["checks"] == 12
        assert told["corrected"] == np.isin(proposed, WRONG).sum()
        assert told["low"] <= len(WRONG) <= told["high"]
        assert told["high"] - told["low"] < 60
        settings = made.desk.read(made.views.session, "me").result()["strategies"]
        assert REVIEW in [one["name"] for one in settings]


def test_export_has_corrected_labels_and_keeps_others(tmp_path: Path) -> None:
    from everylabel.formats.exports import _records
    from everylabel.formats.tables import Cells, ItemColumns

    with reviewing(tmp_path / "log.sqlite") as made:
        made.next("me").result()
        made.label("me", IDS[WRONG[0]], int(Y[WRONG[0]])).result()
        made.none_of_these("me", IDS[WRONG[1]]).result()
        label_set = LabelSet.of(made.state, {})
    beside = ItemColumns({"id": Cells(str, IDS.__getitem__)}, {})
    rows = {row[0]: row[1:] for row in _records(beside, lambda: None, label_set, "labels").rows}  # type: ignore
    assert rows[IDS[WRONG[0]]] == (CLASSES[Y[WRONG[0]]], "me", CLASSES[LABELS[WRONG[0]]])
    assert IDS[WRONG[1]] not in rows
    right = next(i for i in range(N) if i not in WRONG)
    assert rows[IDS[right]] == (CLASSES[Y[right]], GIVEN, CLASSES[Y[right]])
    assert len(rows) == N - 1


def test_later_starts_continue_reviewing_and_new_rows_bring_given_labels(tmp_path: Path) -> None:
    with reviewing(tmp_path / "log.sqlite") as made:
        label(made, 2)
    store = Store(tmp_path / "log.sqlite", "test")
    state = start(store, IDS, classes=CLASSES, source=SOURCE)  # without `review`
    assert (len(state.labels), state.settings["strategy"]) == (2, REVIEW)
    desk = Desk(FeatureTable(IDS, FEATURES, ready=True), store)
    try:
        assert join(desk, ["new"], FEATURES[:1], {"new": CLASSES[0]}).result() == 1
        assert "new" in desk.state.suggestions[GIVEN]
        assert len(desk.state.labels) == 2
    finally:
        desk.close()
        store.close()


def test_review_is_refused_without_labels_or_after_they_were_imported(tmp_path: Path) -> None:
    store = Store(tmp_path / "log.sqlite", "test")
    with pytest.raises(EverylabelError, match="source has no labels; expected --label-column"):
        start(store, IDS, classes=CLASSES, review=True)
    start(store, IDS, classes=CLASSES, source=SOURCE[:3])
    with pytest.raises(EverylabelError, match="3 labels of the source were imported as answers"):
        start(store, IDS, classes=CLASSES, source=SOURCE[:3], review=True)
    store.close()
