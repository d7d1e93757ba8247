"""Weights of checks if a class is tested more, compared with uniform checks."""

import numpy as np
import pytest

from everylabel.labelling.state.types import Check, check_weights


def test_checks_of_a_class_count_as_many_as_chance_would_have_drawn() -> None:
    plain = [Check(i, guess=i % 4) for i in range(8)]
    more = [Check(i, guess=3, among=3, share=0.25) for i in range(8, 14)]
    assert set(check_weights(plain).values()) == {1.0}
    weights = check_weights(plain + more)
    assert {weights[i] for i in (3, 7, *range(8, 14))} == {2 / (2 + 6)}
    assert {weights[i] for i in (0, 1, 2, 4, 5, 6)} == {1.0}
    assert set(check_weights(more).values()) == {0.0}  # alone they tell nothing of the whole


def test_the_weighted_mean_is_unbiased_where_the_plain_one_is_not() -> None:
    rng = np.random.default_rng(0)
    share, right = np.array([0.7, 0.2, 0.1]), np.array([0.9, 0.8, 0.3])
    truth, plain, weighted = float(share @ right), [], []
    for _ in range(400):
        guess = rng.choice(3, 20, p=share)
        checks = [Check(i, int(c)) for i, c in enumerate(guess)]
        checks += [Check(i, 2, among=2, share=0.1) for i in range(20, 40)]
        fine = rng.random(40) < right[[*guess, *[2] * 20]]
        m = np.array([check_weights(checks)[i] for i in range(40)])
        plain.append(fine.mean())
        weighted.append(m @ fine / m.sum())
    assert np.mean(weighted) == pytest.approx(truth, abs=0.02)
    assert np.mean(plain) < truth - 0.2
