"""A pool that is too large for a scaled copy of its features equals one with a copy."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling.model import learner, training
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.model.training import prepare, scaled_lazily
from everylabel.labelling.queues import cosines
from everylabel.selection.pool.features import LazyScaled
from everylabel.web.downloads import layout
from tests.labelling.desks import N, fingerprint, label, probabilities
from tests.labelling.test_joining import FIRST, RAW, growing, more
from tests.labelling.test_restart import agree, busy, from_scratch


@pytest.mark.parametrize("from_here_on", [0, 150])
def test_a_restart_changes_nothing(
    tmp_path: Path, from_here_on: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "COPIED_UP_TO", from_here_on * RAW.shape[1])
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)
    rng = np.random.default_rng(1)
    with growing(tmp_path / "log", check_every=4) as made:
        for at in range(FIRST, N, 40):
            busy(made, rng, 3)
            more(made, at, min(at + 40, N))
            if at % 80 < 40:
                here = len(made.desk.ids)
                retrain(made.desk)
                assert isinstance(made.desk.features, LazyScaled) == (here > from_here_on)
        busy(made, rng, 5)
        retrain(made.desk)
        before = fingerprint(made)
        agree(probabilities(made), from_scratch(made))
    with growing(tmp_path / "log", N) as made:
        assert fingerprint(made) == before
        assert isinstance(made.desk.features, LazyScaled)
        agree(probabilities(made), from_scratch(made))  # on a scale that is fitted on all items


def test_lazily_scaled_pool_learns_the_same_as_a_copied_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)
    found = []
    for bound in (0, training.COPIED_UP_TO):
        monkeypatch.setattr(training, "COPIED_UP_TO", bound)
        with growing(tmp_path / str(bound), N) as made:
            label(made, 20)
            retrain(made.desk)
            found.append(np.array(made.desk.learner.pool.logits()))
    np.testing.assert_allclose(found[0], found[1], atol=1e-2)


def test_likeness_and_map_are_those_of_a_copy() -> None:
    whole, fitted = prepare(RAW)
    seen = scaled_lazily(RAW, fitted)
    for items in (np.arange(1, N), np.arange(9, 20)):
        np.testing.assert_allclose(cosines(seen, items, 5), cosines(whole, items, 5), atol=1e-5)
    rng = np.random.default_rng
    np.testing.assert_allclose(layout(seen, rng(0))[0], layout(whole, rng(0))[0], atol=1e-4)
