"""Class names as training rows, and the detection of misleading names."""

import numpy as np
import pytest

import everylabel as el
from everylabel.models.class_names import NameRows, are_confirmed, phrase, rows_of_names
from everylabel.models.scaling import fit_pool_scaling, suited_precision

K, D = 5, 20


@pytest.fixture
def texts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Instances around their class's name, as an encoder puts them."""
    rng = np.random.default_rng(0)
    vectors = 3.0 * rng.normal(size=(K, D)) / np.sqrt(D)
    y = rng.integers(K, size=600)
    return vectors[y] + rng.normal(size=(600, D)) * 0.6 + 2.0, y, vectors + 5.0


def _rows(texts: tuple[np.ndarray, ...], order: np.ndarray) -> tuple[NameRows, np.ndarray]:
    scaling = fit_pool_scaling(texts[0])
    rows = rows_of_names({c: texts[2][order[c]][None] for c in range(K)}, scaling)
    assert rows is not None
    return rows, scaling(texts[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [("card_not_working", "card not working"), ("EducationalInstitution", "Educational Institution"),
     ("not-offensive", "not offensive"), ("  two  words ", "two words"), ("USA", "USA")],
)  # fmt: skip
def test_names_become_words(name: str, words: str) -> None:
    assert phrase(name) == words


def test_names_alone_separate_classes_wherever_their_vectors_lie(texts: tuple[np.ndarray, ...]) -> None:
    rows, h = _rows(texts, np.arange(K))
    mean = el.fit_map(rows.features, rows.labels, K, suited_precision(K), weights=rows.weights)
    guesses = np.argmax(h @ mean[:-1] + mean[-1], axis=1)
    assert np.mean(guesses == texts[1]) > 0.8
    size = np.linalg.norm(rows.features, axis=1)
    assert np.linalg.norm(rows.features.mean(axis=0)) < 0.3 * size.mean()  # apart, not all aside


def test_phrases_of_a_class_share_its_weight(texts: tuple[np.ndarray, ...]) -> None:
    vectors = {0: texts[2][:3], 1: texts[2][3:4]}
    rows = rows_of_names(vectors, fit_pool_scaling(texts[0]))
    assert rows is not None
    assert rows.labels.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose([rows.weights[:3].sum(), rows.weights[3]], 3.0)  # two classes: the lightest
    assert rows_of_names({0: texts[2][:3]}, fit_pool_scaling(texts[0])) is None  # one class says nothing


@pytest.mark.parametrize(("k", "weight"), [(2, 3.0), (14, 7.0), (150, 10.0)])
def test_names_of_many_classes_weigh_more(k: int, weight: float) -> None:
    vectors = np.random.default_rng(0).normal(size=(k, D))
    rows = rows_of_names(dict(enumerate(vectors)), fit_pool_scaling(vectors))
    assert rows is not None
    np.testing.assert_allclose(rows.weights, weight)


@pytest.mark.parametrize("most_work", [3 * 10**6, 0])  # labels left out in turn, or hits counted
@pytest.mark.parametrize("per_class", [2, 6])
def test_unreliable_source_is_found_by_labels(
    texts: tuple[np.ndarray, ...], per_class: int, most_work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everylabel.models.class_names.MOST_WORK", most_work)
    rng = np.random.default_rng(1)
    idx = np.concatenate([np.flatnonzero(texts[1] == c)[:per_class] for c in range(K)])
    honest, h = _rows(texts, np.arange(K))
    shuffled, _ = _rows(texts, np.roll(np.arange(K), 1))
    codes = rows_of_names({c: rng.normal(size=(1, D)) for c in range(K)}, fit_pool_scaling(texts[0]))
    assert codes is not None
    found = [
        are_confirmed(rows, h[idx], texts[1][idx], K, suited_precision(K))
        for rows in (honest, shuffled, codes)
    ]
    assert found == [True, False, False]
    assert are_confirmed(shuffled, h[idx[:3]], texts[1][idx[:3]], K, 1.0)  # too few to ask


def test_few_labels_of_many_classes_do_not_refute_names_and_shuffled_names_are_found() -> None:
    k, rng = 150, np.random.default_rng(2)
    vectors = 3.0 * rng.normal(size=(k, 60)) / np.sqrt(60)
    y = rng.permutation(np.repeat(np.arange(k), 4))
    texts = vectors[y] + rng.normal(size=(len(y), 60)) * 0.7
    scaling = fit_pool_scaling(texts)
    h, precision = scaling(texts), suited_precision(k)
    rows = rows_of_names({c: vectors[c][None] for c in range(k)}, scaling)
    shuffled = rows_of_names({c: vectors[c - 1][None] for c in range(k)}, scaling)
    assert rows is not None
    assert shuffled is not None
    alone = el.fit_map(*rows[:2], k, precision, weights=rows.weights)
    hits = np.argmax(h @ alone[:-1] + alone[-1], axis=1) == y
    hard = np.flatnonzero(~hits)[:5]  # all guesses are wrong, as on items that a strategy chooses
    assert len(hard) == 5
    assert are_confirmed(rows, h[hard], y[hard], k, precision)
    assert are_confirmed(rows, h[:60], y[:60], k, precision)
    assert not are_confirmed(shuffled, h[:20], y[:20], k, precision)
