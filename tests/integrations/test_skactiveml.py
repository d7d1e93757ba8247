"""The checks that scikit-activeml runs on its own strategies and classifiers.

Its check suites (`skactiveml.tests.template_*`) are in its repository only, not in what is installed: this
file asks what they ask.
"""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

import everylabel as el
from everylabel.selection.strategies import STRATEGIES
from tests.integrations.data import digits

pytest.importorskip("skactiveml", reason="needs the extra everylabel[skactiveml]")

from skactiveml.classifier import SklearnClassifier
from skactiveml.exceptions import MappingError
from skactiveml.pool import UncertaintySampling
from skactiveml.utils import MISSING_LABEL, is_labeled

from everylabel.integrations.skactiveml import EverylabelClassifier, EverylabelStrategy

N, KNOWN = 60, 12
CITIES = np.array(["tokyo", "nan", "paris"])


def problem(known: int = KNOWN) -> dict[str, Any]:
    x, y = digits(N, 3)
    return {"X": x, "y": np.where(np.arange(N) < known, y, MISSING_LABEL)}


def query(init: dict[str, Any] | None = None, **changes: Any) -> Any:
    return EverylabelStrategy(**{"random_state": 42, **(init or {})}).query(**{**problem(), **changes})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batches_and_utilities(strategy: str) -> None:
    qs = EverylabelStrategy(strategy, random_state=np.random.RandomState(0))
    idx, utilities = qs.query(**problem(), batch_size=5, return_utilities=True)
    assert idx.shape == (5,)
    assert utilities.shape == (5, N)
    assert np.isnan(utilities[:, :KNOWN]).all()
    assert [int(np.isnan(row).sum()) for row in utilities] == [KNOWN + i for i in range(5)]
    np.testing.assert_array_equal(np.nanargmax(utilities, axis=1), idx)
    again, same = qs.query(**problem(), batch_size=5, return_utilities=True)
    np.testing.assert_array_equal(again, idx)
    np.testing.assert_allclose(same, utilities)
    with pytest.warns(UserWarning, match="larger than number of candidates"):
        assert len(qs.query(**problem(), batch_size=N)) == N - KNOWN


@pytest.mark.parametrize("strategy", ["margin", "herding", "random", "lookahead"])
@pytest.mark.parametrize("known", [0, 1, 2, N - 1])
def test_cycles_from_any_number_of_labels(strategy: str, known: int) -> None:
    now = problem(known)
    qs = EverylabelStrategy(strategy, random_state=0)
    for _ in range(min(3, N - known)):
        idx = qs.query(**now)
        assert not is_labeled(now["y"])[idx].any()
        now["y"][idx] = digits(N, 3)[1][idx]


@pytest.mark.parametrize("strategy", ["margin", "coreset"])
def test_candidates(strategy: str) -> None:
    init = {"strategy": strategy}
    _, first = query(init, return_utilities=True)
    free = np.arange(KNOWN, N)
    _, named = query(init, candidates=free[::-1], return_utilities=True)
    np.testing.assert_allclose(named, first)
    idx, one = query(init, candidates=[20], return_utilities=True)
    assert idx.tolist() == [20]
    assert np.flatnonzero(~np.isnan(one[0])).tolist() == [20]
    with pytest.raises(MappingError):
        query(init, candidates=problem()["X"][KNOWN:])
    with pytest.raises(ValueError, match="must not contain labeled"):
        query(init, candidates=[0])


WRONG_QUERY = [
    ("X", "string", (ValueError, TypeError)),
    ("X", np.zeros((2 * N, 64)), ValueError),
    ("y", np.nan, TypeError),
    ("y", np.zeros((2, N)), ValueError),
    ("candidates", np.nan, ValueError),
    ("batch_size", 0, ValueError),
    ("batch_size", 1.2, TypeError),
    ("return_utilities", "string", TypeError),
    ("clf", "state", TypeError),
    ("clf", GaussianNB(), TypeError),
    ("clf", object(), TypeError),
    ("fit_clf", np.nan, TypeError),
    ("fit_clf", "state", TypeError),
]


@pytest.mark.parametrize(("name", "value", "error"), WRONG_QUERY)
def test_wrong_arguments_of_query(name: str, value: Any, error: Any) -> None:
    with pytest.raises(error):
        query(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("random_state", "state", ValueError),
        ("random_state", np.nan, ValueError),
        ("missing_label", object, TypeError),
        ("strategy", "best", ValueError),
        ("options", {"risk": "log"}, ValueError),
    ],
)
def test_wrong_parameters_of_the_strategy(name: str, value: Any, error: Any) -> None:
    with pytest.raises(error):
        query({name: value})
    assert getattr(EverylabelStrategy(**{name: value}), name) is value  # assigned as it came


LABELS = [
    (np.nan, [1.0, 2.0], float),
    (0, [1, 2], int),
    (None, [1, 2], object),
    (None, ["A", "B"], object),
    ("", ["A", "B"], "U1"),
]


@pytest.mark.parametrize(("missing", "classes", "dtype"), LABELS)
def test_every_kind_of_label(missing: Any, classes: list[Any], dtype: Any) -> None:
    y = np.full(N, missing, dtype=dtype)
    y[:2] = classes
    for known in (None, classes):
        how: dict[str, Any] = {"missing_label": missing, "classes": known}
        idx = EverylabelStrategy("margin", random_state=0, **how).query(problem()["X"], y)
        clf = EverylabelClassifier(**how).fit(problem()["X"], y)
        assert EverylabelStrategy("margin", random_state=0, **how).query(problem()["X"], y, clf) == idx
        assert set(clf.predict(problem()["X"]).tolist()) <= set(classes)


def test_given_classifier_is_used_and_not_changed() -> None:
    now = problem()
    clf = EverylabelClassifier(el.LaplaceClassifier(prior_precision=100.0), classes=[0, 1, 2])
    fitted = clone(clf).fit(**now)
    before = deepcopy(fitted.__dict__)
    _, utilities = query({"strategy": "margin"}, clf=fitted, fit_clf=False, return_utilities=True)
    _, again = query({"strategy": "margin"}, clf=clf, return_utilities=True)
    np.testing.assert_allclose(again, utilities)
    probs = np.sort(fitted.predict_proba(now["X"][KNOWN:]), axis=1)
    np.testing.assert_allclose(-utilities[0, KNOWN:], probs[:, -1] - probs[:, -2], atol=1e-6)
    assert fitted.__dict__.keys() == before.keys()
    assert not hasattr(clf, "estimator_")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("missing_label", np.nan, TypeError),
        ("missing_label", 1, TypeError),
        ("classes", np.nan, TypeError),
        ("classes", [1, 2], TypeError),
        ("cost_matrix", -1, ValueError),
        ("cost_matrix", [], ValueError),
        ("random_state", "state", ValueError),
        ("estimator", GaussianNB(), TypeError),
        ("use_unlabelled", "yes", TypeError),
    ],
)
def test_wrong_parameters_of_the_classifier(name: str, value: Any, error: Any) -> None:
    how = {"missing_label": "nan", "classes": ["tokyo", "paris"], name: value}
    clf = EverylabelClassifier(**how)
    assert getattr(clf, name) is value
    with pytest.raises(error):
        clf.fit(np.array([[1.0], [2.0], [3.0]]), CITIES)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"X": np.nan}, ValueError),
        ({"X": [1]}, ValueError),
        ({"y": np.nan}, TypeError),
        ({"y": [0, 1, 2]}, TypeError),
        ({"sample_weight": 1}, ValueError),
        ({"sample_weight": np.ones(2)}, ValueError),
        ({"sample_weight": np.array([0.5, 0.0, 1.0])}, None),
        ({"X": np.zeros((3, 1))}, None),
    ],
)
def test_arguments_of_fit(fit: str, wrong: dict[str, Any], error: Any) -> None:
    clf = EverylabelClassifier(classes=["tokyo", "paris"], missing_label="nan")
    given = {"X": np.array([[1.0], [2.0], [3.0]]), "y": CITIES, **wrong}
    if error is None:
        assert getattr(clf, fit)(**given) is clf
        assert clf.predict([[1.0]]).dtype == clf.classes_.dtype
        with pytest.raises(ValueError, match="features"):
            clf.predict([[1.0, 2.0]])
    else:
        with pytest.raises(error):
            getattr(clf, fit)(**given)


def test_classifier_equals_training_on_the_labels() -> None:
    now, truth = problem(), digits(N, 3)[1]
    wanted = el.LaplaceClassifier().fit(now["X"][:KNOWN], truth[:KNOWN], unlabelled=now["X"])
    found = EverylabelClassifier(classes=[0, 1, 2]).fit(**now)
    np.testing.assert_allclose(found.predict_proba(now["X"]), wanted.predict_proba(now["X"]))
    more = np.where(np.arange(N) >= N - 5, truth, MISSING_LABEL)
    found.partial_fit(now["X"], more)
    wanted.partial_fit(now["X"][-5:], truth[-5:])
    np.testing.assert_allclose(found.predict_proba(now["X"]), wanted.predict_proba(now["X"]))
    assert found.score(now["X"], truth) > 0.9


def test_without_labels_classes_are_equal_and_costs_decide() -> None:
    x = problem()["X"]
    none = np.full(N, MISSING_LABEL)
    clf = EverylabelClassifier(classes=[0, 1, 2], cost_matrix=[[0, 1, 1], [9, 0, 1], [9, 1, 0]]).fit(x, none)
    np.testing.assert_allclose(clf.predict_proba(x), 1 / 3)
    assert 0 not in clf.predict(x)  # to say 0 is dear
    with pytest.raises(ValueError, match="No class label is known"):
        EverylabelClassifier().fit(x, none)
    one = EverylabelClassifier().fit(x, np.where(np.arange(N) == 0, 1.0, np.nan))
    with pytest.raises(el.EverylabelError, match=r"expected classes= to name all"):
        one.partial_fit(x[:2], [0.0, 2.0])


def test_skactiveml_strategies_take_our_classifier() -> None:
    now = problem()
    ours = EverylabelClassifier(classes=[0, 1, 2], use_unlabelled=False)
    theirs = SklearnClassifier(el.LaplaceClassifier(), classes=[0, 1, 2])
    margins = [
        UncertaintySampling("margin_sampling", random_state=0).query(**now, clf=clf, return_utilities=True)[1]
        for clf in (ours, theirs)
    ]
    np.testing.assert_allclose(*margins)
