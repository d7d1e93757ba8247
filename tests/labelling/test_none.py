"""None of these lowers the probability of all classes; compared with training by a general optimiser."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core import fit_map
from everylabel.core.arrays import softmax
from everylabel.labelling.model.learner import fit_classes
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.service import Service
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import NONE, Refused
from tests.labelling.desks import IDS, Y, fingerprint, service

SEEN = [i for i in range(60) if Y[i] != 3]  # the threes are none of the classes
THREES = [i for i in range(100) if Y[i] == 3]


def labelled(made: Service) -> None:
    for i in SEEN:
        made.label("me", IDS[i], int(Y[i])).result()


def of_classes(made: Service, i: int) -> float:
    """Return the probability that any class fits."""
    return sum(made.desk.read(made.views.item, IDS[i]).result()["probabilities"])


def brute(made: Service) -> np.ndarray:
    columns = made.state.columns
    idx, y = zip(*sorted(made.state.labels.items()), strict=True)
    x = made.desk.features[list(idx)].astype(float)
    prior = made.desk.learner.pool.posterior.prior_precision
    return np.asarray(fit_map(x, [columns.index(c) for c in y], len(columns), prior))


def test_none_of_these_lowers_all_classes_for_the_item_and_similar_ones(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        labelled(made)
        assert of_classes(made, THREES[0]) == pytest.approx(1.0, abs=1e-4)
        for i in THREES[:3]:
            made.none_of_these("me", IDS[i]).result()
        assert made.state.columns[-1] == NONE
        assert of_classes(made, THREES[0]) < 0.5
        others = np.mean([of_classes(made, i) for i in range(60, 100) if Y[i] != 3])
        assert np.mean([of_classes(made, i) for i in THREES[3:]]) < 0.8 < others
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, brute(made), atol=0.02)
        retrain(made.desk)
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, brute(made), atol=1e-4)
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before


def test_undone_none_of_these_leaves_no_trace(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        labelled(made)
        retrain(made.desk)
        before = np.asarray(made.desk.learner.pool.posterior.mean)
        made.none_of_these("me", IDS[THREES[0]], key="k").result()
        saved = made.none_of_these("me", IDS[THREES[0]], key="k").result()["saved"]
        assert made.desk.read(made.views.history, "me", 1, None).result()[0]["kind"] == "none"
        made.classes.add("me", "ten").result()  # its column comes before that of none
        assert made.state.columns == (*range(11), NONE)
        made.undo("me", saved).result()
        assert made.state.columns == tuple(range(11))
        made.classes.remove("me", 10).result()
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, before, atol=0.02)
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


def test_exports_omit_none_of_these_and_give_probabilities_given_that_a_class_fits(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        labelled(made)
        made.none_of_these("me", IDS[THREES[0]]).result()
        shot = LabelSet.of(made.state, {})
        assert (shot.none, THREES[0] in shot.labels, len(shot.classes)) == ([THREES[0]], False, 10)
        posterior = fit_classes(made.desk.features, shot.labels, shot.none, 10).posterior
        x = np.column_stack([made.desk.features[60:90].astype(float), np.ones(30)])
        exported = softmax(x @ np.asarray(posterior.mean))
        retrain(made.desk)  # on the prior for this number of classes
        full = softmax(x @ brute(made))
        np.testing.assert_allclose(exported, full[:, :10] / (1.0 - full[:, 10:]), atol=1e-5)
        assert posterior.n_classes == 10


def test_none_of_these_needs_a_class(tmp_path: Path) -> None:
    with service(tmp_path / "log", []) as made:
        item = made.next("me").result()["next"]["item"]["id"]
        with pytest.raises(Refused, match="add one first"):
            made.none_of_these("me", item).result()
