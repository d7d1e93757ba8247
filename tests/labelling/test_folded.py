"""A pool too large for a copy of its features on scale: replayed to the bit, it says what others say."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling import learner, rows
from everylabel.labelling.kept import rows_digest
from everylabel.labelling.queues import cosines
from everylabel.labelling.refit import refit
from everylabel.labelling.rows import as_folded, prepare
from everylabel.projects.model_file import ModelFile
from everylabel.selection.pool.scaled import Scaled
from everylabel.web.layout import layout
from tests.labelling.desks import N, fingerprint, label
from tests.labelling.test_joining import FIRST, RAW, growing, more
from tests.labelling.test_replay import busy


@pytest.mark.parametrize("from_here_on", [0, 150])
def test_a_replay_is_equal_to_the_bit(
    tmp_path: Path, from_here_on: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FOLDED_FROM", from_here_on * RAW.shape[1])
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)
    rng = np.random.default_rng(1)
    with growing(tmp_path / "log", check_every=4) as made:
        for at in range(FIRST, N, 40):
            busy(made, rng, 3)
            more(made, at, min(at + 40, N))
            if at % 80 < 40:
                here = len(made.desk.ids)
                refit(made.desk)
                assert isinstance(made.desk.features, Scaled) == (here > from_here_on)
        busy(made, rng, 5)
        made.desk.shelf = ModelFile(tmp_path, print)
        made.desk.keep()
        before = fingerprint(made)
    with growing(tmp_path / "log", N) as made:
        assert fingerprint(made) == before


def test_a_kept_model_is_taken_for_the_same_features_only() -> None:
    seen = as_folded(RAW, prepare(RAW).scaling)
    ids = [str(i) for i in range(N)]
    other = RAW.copy()
    other[7, 30] += 1
    digests = {rows_digest(ids, some) for some in (seen, seen.of(other), seen.of(RAW.astype(np.float64)))}
    digests.add(rows_digest(ids, Scaled(RAW, seen.center + 1e-9, seen.matrix)))
    digests.add(rows_digest(ids[::-1], seen))
    assert len(digests) == 5
    assert rows_digest(ids, seen.of(RAW.copy())) in digests


def test_it_learns_what_a_pool_with_a_copy_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)
    found = []
    for bound in (0, rows.FOLDED_FROM):
        monkeypatch.setattr(rows, "FOLDED_FROM", bound)
        with growing(tmp_path / str(bound), N) as made:
            label(made, 20)
            refit(made.desk)
            found.append(np.array(made.desk.learner.pool.logits()))
    np.testing.assert_allclose(found[0], found[1], atol=1e-2)


def test_likeness_and_map_are_those_of_a_copy() -> None:
    whole, scaling = prepare(RAW)
    seen = as_folded(RAW, scaling)
    for items in (np.arange(1, N), np.arange(9, 20)):
        np.testing.assert_allclose(cosines(seen, items, 5), cosines(whole, items, 5), atol=1e-5)
    rng = np.random.default_rng
    np.testing.assert_allclose(layout(seen, rng(0))[0], layout(whole, rng(0))[0], atol=1e-4)
