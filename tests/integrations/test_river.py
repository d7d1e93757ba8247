"""The classifier for streams: River's own checks, and comparison with the plain functions."""

import pickle
import subprocess
import sys
from itertools import islice
from typing import Any

import numpy as np
import pytest

import everylabel as el

pytest.importorskip("river", reason="needs the extra everylabel[river]")

from river import datasets, linear_model, metrics, multiclass, preprocessing

from everylabel.integrations.river import SHARED, EverylabelClassifier


def test_passes_every_check_of_river() -> None:
    code = (
        "from river.checks import check_estimator; "
        "from everylabel.integrations.river import EverylabelClassifier; "
        "check_estimator(EverylabelClassifier())"
    )  # on its own: 14,000 labels take a minute where every shape is checked
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def stream(n: int = 40) -> list[tuple[dict[str, float], str]]:
    """Return features that come and go, and a class that comes late."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        names = [name for name in "dbca" if rng.random() < 0.7 or i > 30]
        x = {name: float(rng.normal()) for name in names if name != "a" or i > 9}
        rows.append((x, ("one", "two", "three")[int(rng.integers(2 if i < 20 else 3))]))
    return rows


@pytest.mark.parametrize("likelihood", SHARED)
def test_learning_equals_the_update_on_all_features(likelihood: str) -> None:
    how: dict[str, Any] = {"prior_precision": 0.3, "step_size": 1.7, "likelihood": likelihood}
    model = EverylabelClassifier(**how, classes=("one", "two", "three"))
    names = list("abcd")
    whole = np.array([[x.get(name, 0.0) for name in names] for x, _ in stream()])
    numbers = np.array([["one", "two", "three"].index(y) for _, y in stream()])
    post = el.laplace(np.zeros((5, 3)), whole[:0], likelihood, 0.3, keep_data=False)
    for (x, y), row, number in zip(stream(), whole, numbers, strict=True):
        model.learn_one(x, y)
        post = el.update(post, row[None], [number], step_size=1.7)
    wanted = el.predict_proba(post, whole, method="mean")
    found = [list(model.predict_proba_one(x).values()) for x, _ in stream()]
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_late_classes_and_unseen_features() -> None:
    model = EverylabelClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, "yes")
    assert model.predict_proba_one({"b": 1.0}) == {"yes": 1.0}
    model.learn_one({"a": -1.0}, "no")
    assert model.predict_one({"a": 1.0, "never": 5.0}) == "yes"
    assert EverylabelClassifier(classes=(1, 2)).predict_proba_one({}) == {1: 0.5, 2: 0.5}


def test_non_numbers_are_refused() -> None:
    with pytest.raises(el.EverylabelError, match="feature 'town' is 'Paris'; expected a number"):
        EverylabelClassifier().learn_one({"town": "Paris"}, True)
    with pytest.raises(el.EverylabelError, match="likelihood is 'full'"):
        EverylabelClassifier(likelihood="full")


def test_accuracy_on_a_stream_is_competitive() -> None:
    rivals: dict[str, Any] = {
        "ours": EverylabelClassifier(),
        "theirs": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    }
    right = {}
    for name, classifier in rivals.items():
        model, accuracy = preprocessing.StandardScaler() | classifier, metrics.Accuracy()
        for x, y in islice(datasets.ImageSegments(), 400):
            guess = model.predict_one(x)
            if guess is not None:
                accuracy.update(y, guess)
            model.learn_one(x, y)
        right[name] = accuracy.get()
    assert right["ours"] > right["theirs"]
    x = {"a": 1.0}
    again = pickle.loads(pickle.dumps(rivals["ours"]))
    assert again.predict_proba_one(x) == rivals["ours"].predict_proba_one(x)


@pytest.mark.parametrize("bad", ["x", float("nan")])
def test_refused_call_changes_nothing(bad: Any) -> None:
    model = EverylabelClassifier()
    for label in ("no", "yes"):
        model.learn_one({"a": float(label == "yes")}, label)
    before = model.predict_proba_one({"a": 1.0})
    with pytest.raises(el.EverylabelError, match=r"expected a number|NaN or infinite"):
        model.learn_one({"a": 1.0, "b": bad}, "maybe")
    assert model.predict_proba_one({"a": 1.0}) == before
    model.learn_one({"a": 1.0, "c": 2.0}, "yes")
    assert model.predict_proba_one({"a": 1.0})["yes"] > before["yes"]
