"""Class names for users of the library: rows for plain functions, and a classifier that starts from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.models.class_names import LIGHTEST

K, D = 5, 20
EXACT = 2e-3  # an exact update stops at its own tolerance
NAMES = np.array([f"kind_{c}" for c in range(K)])


@pytest.fixture
def texts() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Instances around their class's name, as an encoder puts them, and the names."""
    rng = np.random.default_rng(0)
    vectors = 3.0 * rng.normal(size=(K, D)) / np.sqrt(D)
    y = rng.integers(K, size=600)
    phrases = vectors[:, None] + 0.1 * rng.normal(size=(K, 2, D)) + 5.0
    return (
        vectors[y] + 0.6 * rng.normal(size=(600, D)) + 2.0,
        NAMES[y],
        dict(zip(NAMES, phrases, strict=True)),
    )


def shuffled(names: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(names, np.roll(list(names.values()), 1, axis=0), strict=True))


def first(y: np.ndarray, each: int) -> np.ndarray:
    return np.concatenate([np.flatnonzero(y == name)[:each] for name in NAMES])


def test_rows_teach_whatever_is_trained(texts: Any) -> None:
    x, y, names = texts
    numbers = np.searchsorted(NAMES, y)
    rows = el.name_rows(names, x)
    mean = el.fit_map(rows.features, rows.labels, K, weights=rows.weights)
    assert np.mean(el.predict_proba(el.laplace(mean, rows.features), x).argmax(axis=1) == numbers) > 0.8
    spread = np.sqrt(np.mean(np.sum((x - x.mean(axis=0)) ** 2, axis=1)))
    np.testing.assert_allclose(np.linalg.norm(rows.features - x.mean(axis=0), axis=1), spread)
    np.testing.assert_allclose(np.bincount(rows.labels, rows.weights), LIGHTEST)
    given, labels, weights = rows.together_with(x[:3], numbers[:3])
    post = el.laplace(el.fit_map(given, labels, K, weights=weights), given, weights=weights, labels=labels)
    pool = el.Pool(x, post, labelled_idx=[0, 1, 2], labels=numbers[:3], method="exact")
    el.select(pool, n=5, rng=np.random.default_rng(0), ask=lambda i: int(numbers[i]))
    assert np.mean(pool.logits().argmax(axis=1) == numbers) > 0.8


def test_rows_follow_the_order_of_classes_and_the_scale(texts: Any) -> None:
    x, _, names = texts
    rows = el.name_rows(names, x, classes=NAMES[::-1].tolist())
    assert rows.labels.tolist() == np.repeat(np.arange(K), 2).tolist()
    np.testing.assert_allclose(rows.features[::-1][::-1][:2], el.name_rows(names, x).features[-2:])
    for a, b in ((3.0, 0.0), (0.1, 7.0)):
        told = el.name_rows([a * some + b for some in names.values()], a * x + b)
        np.testing.assert_allclose(told.features, a * el.name_rows(names, x).features + b)


@pytest.mark.parametrize("update", ["exact", "second_order", "refit"])
@pytest.mark.parametrize("pool", [False, True])
def test_a_classifier_starts_from_names(texts: Any, update: str, pool: bool) -> None:
    x, y, names = texts
    pooled = {"unlabelled": x} if pool else {}
    clf = el.LaplaceClassifier(update=update)
    if pool:
        assert clf.fit(x[:0], y[:0], names=names, **pooled).score(x, y) > 0.8
        assert clf.names_hold_
    idx = first(y, 1)[:3]  # two classes have a name and no label
    plain = el.LaplaceClassifier(update=update).fit(x[idx], y[idx], **pooled)
    clf.fit(x[idx], y[idx], names=names, **pooled)
    assert clf.names_hold_
    assert clf.classes_.tolist() == NAMES.tolist()
    assert clf.score(x, y) > plain.score(x, y) + 0.1


@pytest.mark.parametrize("scale_features", [False, True])
def test_labels_find_out_that_names_lie(texts: Any, scale_features: bool) -> None:
    x, y, names = texts
    idx = first(y, 2)
    clf = el.LaplaceClassifier(scale_features=scale_features)
    lied_to = clf.fit(x[idx], y[idx], unlabelled=x, names=shuffled(names))
    assert not lied_to.names_hold_
    plain = el.LaplaceClassifier(scale_features=scale_features).fit(x[idx], y[idx], unlabelled=x)
    np.testing.assert_allclose(lied_to.predict_proba(x), plain.predict_proba(x), atol=1e-9)
    learned = el.LaplaceClassifier().fit(x[:0], y[:0], unlabelled=x, names=shuffled(names))
    assert learned.names_hold_  # taken at their word
    for i in idx:
        learned.partial_fit(x[i : i + 1], y[i : i + 1])
    assert not learned.names_hold_
    both = el.LaplaceClassifier().fit(x[idx], y[idx], unlabelled=x)
    np.testing.assert_allclose(learned.predict_proba(x), both.predict_proba(x), atol=EXACT)


def test_learning_on_and_taking_back_is_training_without_the_label(texts: Any) -> None:
    x, y, names = texts
    idx = first(y, 3)
    told = {"unlabelled": x, "names": names}
    clf = el.LaplaceClassifier().fit(x[idx[:8]], y[idx[:8]], **told).partial_fit(x[idx[8:]], y[idx[8:]])
    whole = el.LaplaceClassifier().fit(x[idx], y[idx], **told)
    np.testing.assert_allclose(clf.predict_proba(x), whole.predict_proba(x), atol=EXACT)
    clf.forget(x[idx[10:]], y[idx[10:]])
    left = el.LaplaceClassifier().fit(x[idx[:10]], y[idx[:10]], **told)
    np.testing.assert_allclose(clf.predict_proba(x), left.predict_proba(x), atol=EXACT)
    stepped = el.LaplaceClassifier(update="second_order").fit(x[idx[:8]], y[idx[:8]], **told)
    before = stepped.predict_proba(x)
    stepped.partial_fit(x[idx[8:]], y[idx[8:]]).forget(x[idx[8:]], y[idx[8:]])
    np.testing.assert_allclose(stepped.predict_proba(x), before, atol=1e-9)


@pytest.mark.parametrize("pool", [False, True])
def test_a_class_that_comes_later_brings_its_name(texts: Any, pool: bool) -> None:
    x, y, names = texts
    idx = first(y, 2)
    some = {name: names[name] for name in NAMES[:3]}
    early = np.isin(y, NAMES[:3])[idx]
    pooled = {"unlabelled": x} if pool else {}
    clf = el.LaplaceClassifier().fit(x[idx[early]], y[idx[early]], names=some, **pooled)
    rest = {name: names[name] for name in NAMES[3:]}
    clf.partial_fit(x[idx[~early]], y[idx[~early]], names=rest)
    assert clf.names_ is not None
    assert clf.classes_.tolist() == sorted(clf.names_.vectors) == NAMES.tolist()
    late = el.LaplaceClassifier().fit(x[idx], y[idx], **pooled).partial_fit(x[:0], y[:0], names=names)
    assert late.names_hold_
    if pool:
        whole = el.LaplaceClassifier().fit(x[idx], y[idx], names=names, **pooled)
        for one in (clf, late):
            np.testing.assert_allclose(one.predict_proba(x), whole.predict_proba(x), atol=EXACT)


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("honest", [False, True])
def test_names_come_back_from_disk(texts: Any, tmp_path: Path, pool: bool, honest: bool) -> None:
    x, y, names = texts
    idx = first(y, 2)
    told: Any = {"names": names if honest else shuffled(names), **({"unlabelled": x} if pool else {})}
    clf = el.LaplaceClassifier().fit(x[idx], y[idx], **told)
    el.save_classifier(clf, tmp_path / "c.npz")
    loaded = el.load_classifier(tmp_path / "c.npz")
    assert loaded.names_hold_ == clf.names_hold_ == honest
    assert np.array_equal(loaded.predict_proba(x), clf.predict_proba(x))
    more = first(y, 5)
    for one in (clf, loaded):
        one.partial_fit(x[more], y[more]).forget(x[more[:7]], y[more[:7]])
        one.partial_fit(x[:0], y[:0], names=names)
    assert loaded.names_hold_
    np.testing.assert_allclose(loaded.predict_proba(x), clf.predict_proba(x), atol=EXACT)


def test_invalid_name_is_refused(texts: Any) -> None:
    x, y, names = texts
    clf = el.LaplaceClassifier()
    cases: list[tuple[Any, str]] = [
        ({"a": np.ones(3), "b": np.ones(D)}, r"names\['a'\] has shape \(3,\); expected finite vectors of 20"),
        ({"a": "refund", "b": "billing"}, r"names\['a'\] is 'refund'; expected vectors: embed_names"),
        (["refund"], "names is a list; expected a dict of vectors by class: embed_names"),
        ({1: np.ones(D), 2: np.zeros(D)}, r"names is of classes such as \[1\] and y of \['kind_0'\]"),
    ]
    for wrong, told in cases:
        with pytest.raises(el.EverylabelError, match=told):
            clf.fit(x[:50], y[:50], names=wrong)
    with pytest.raises(el.EverylabelError, match="expected some: unlabelled=pool"):
        clf.fit(x[:0], y[:0], names=names)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        clf.fit(x[:0], y[:0])
    with pytest.raises(el.EverylabelError, match="do not distinguish classes"):
        el.name_rows([np.ones(D), np.ones(D)], x)


def test_phrases_are_embedded_by_a_model_that_knows_words(minilm: str) -> None:
    found = el.embed_names({"card_lost": "I cannot find my card", "refund": ["money back", "refund"]}, minilm)
    assert [len(some) for some in found.values()] == [2, 2]
    np.testing.assert_allclose(found["card_lost"][0], el.embed(["card lost"], minilm)[0], atol=1e-6)
    pool = el.embed(["my card is gone", "where is my card", "give me my money", "pay me back"], minilm)
    clf = el.LaplaceClassifier().fit(pool[:0], [], unlabelled=pool, names=found)
    assert clf.predict(pool).tolist() == ["card_lost"] * 2 + ["refund"] * 2
    assert list(el.embed_names(["a", "b"], minilm)) == ["a", "b"]


def test_tfidf_knows_no_words() -> None:
    with pytest.raises(el.EverylabelError, match="expected a language model"):
        el.embed_names(["a", "b"], "tfidf")
    nothing: list[Any] = ["refund", [], {}]
    for wrong in nothing:
        with pytest.raises(el.EverylabelError, match="expected class names, or phrases by class name"):
            el.embed_names(wrong)
