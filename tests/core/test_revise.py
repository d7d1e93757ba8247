"""Labels taken back and changed at the cost of one label, against dense inverses, away from the defaults."""

import numpy as np
import pytest

import everylabel as el
from everylabel.core import revise
from tests.core import dense

STEP, WEIGHT, LABEL = 3.3, 1.7, 2


@pytest.fixture
def made() -> tuple[el.Posterior, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 4)), rng.integers(3, size=12)
    posterior = el.laplace(el.fit_map(x, y, 3, 0.7), x, "gaussian", 0.7, keep_data=False)
    return posterior, rng.normal(size=(3, 4))


def residual(posterior: el.Posterior, features: np.ndarray, label: int = LABEL) -> np.ndarray:
    p = dense.probabilities(np.c_[features, np.ones(len(features))], np.asarray(posterior.mean))
    return np.asarray(WEIGHT * (p - np.eye(3)[[label]]))


def test_the_latest_label_is_unlearned_to_the_letter(made: tuple[el.Posterior, np.ndarray]) -> None:
    before, new = made[0], made[1][:1]
    there = el.update(before, new, [LABEL], step_size=STEP, weights=[WEIGHT])
    back = revise.undo_label(there, new, residual(before, new), STEP, weight=WEIGHT)
    np.testing.assert_allclose(back.mean, before.mean, atol=1e-12)
    np.testing.assert_allclose(back.cov, before.cov, atol=1e-12)


def test_the_latest_label_is_turned_to_the_letter(made: tuple[el.Posterior, np.ndarray]) -> None:
    before, new = made[0], made[1][:1]
    there = el.update(before, new, [LABEL], step_size=STEP, weights=[WEIGHT])
    turned = revise.change_label(there, new, LABEL, 0, STEP, weight=WEIGHT)
    twin = el.update(before, new, [0], step_size=STEP, weights=[WEIGHT])
    np.testing.assert_allclose(turned.mean, twin.mean, atol=1e-12)
    np.testing.assert_allclose(turned.cov, twin.cov, atol=1e-12)


def test_earlier_labels_are_taken_back_and_turned_as_the_covariance_of_now_says(
    made: tuple[el.Posterior, np.ndarray],
) -> None:
    before, new = made
    there = el.update(before, new, [LABEL, 0, 1], step_size=STEP, weights=[WEIGHT, 1.0, 1.0])
    h, pull = np.r_[new[0], 1.0], residual(before, new[:1])[0]
    mean, cov = np.asarray(there.mean), np.asarray(there.cov)
    back = revise.undo_label(there, new[:1], pull[None], STEP, weight=WEIGHT)
    np.testing.assert_allclose(back.mean, mean + STEP * np.outer(cov @ h, pull), atol=1e-12)
    np.testing.assert_allclose(
        back.cov, np.linalg.inv(np.linalg.inv(cov) - WEIGHT * np.outer(h, h)), atol=1e-9
    )
    turned = revise.change_label(there, new[:1], LABEL, 1, STEP, weight=WEIGHT)
    other = WEIGHT * (np.eye(3)[1] - np.eye(3)[LABEL])
    np.testing.assert_allclose(turned.mean, mean + STEP * np.outer(cov @ h, other), atol=1e-12)
    assert turned.cov is there.cov


def test_a_label_of_what_was_conditioned_on_pulls_as_if_it_had_not_been(
    made: tuple[el.Posterior, np.ndarray],
) -> None:
    before, new = made[0], made[1][:1]
    out = el.condition(before, new, weights=[WEIGHT])
    pulled = revise.label_conditioned(out, new, residual(before, new), STEP)
    twin = el.update(before, new, [LABEL], step_size=STEP, weights=[WEIGHT])
    np.testing.assert_allclose(pulled.mean, twin.mean, atol=1e-12)
    np.testing.assert_allclose(pulled.cov, twin.cov, atol=1e-12)
