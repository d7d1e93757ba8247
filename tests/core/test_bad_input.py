"""Every kind of bad input gets an EverylabelError that names the argument, and changes nothing."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.pipeline import make_pipeline

import everylabel as el
from everylabel.core.errors import EverylabelWarning

RNG = np.random.default_rng(0)
POST = el.laplace(RNG.normal(size=(4, 3)), RNG.normal(size=(9, 3)))
BARE = el.laplace(RNG.normal(size=(4, 3)), RNG.normal(size=(9, 3)), keep_data=False)
SAMPLES = el.sample(POST, 4, RNG)
X, Y = RNG.normal(size=(2, 3)), np.array([0, 2])
NINE: Any = np.ones(9)  # where one number, a pair or a function is expected
TWO: Any = 2
SILENT: Any = lambda i: None  # noqa: E731
NAN = np.array([[1.0, np.nan, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: el.update(POST, X[0], Y), r"features has shape \(3,\); expected two axes"),
        (lambda: el.update(POST, X[:, :2], Y), "features has 2 columns; expected 3"),
        (lambda: el.update(POST, NAN, Y), "features holds 1 NaN or infinite"),
        (lambda: el.update(POST, np.full((2, 3), np.inf), Y), "features holds 6 NaN or infinite"),
        (lambda: el.update(POST, X, [0, 3]), "labels runs from 0 to 3; expected class numbers 0 to 2"),
        (lambda: el.update(POST, X, [-1, 0]), "labels runs from -1"),
        (lambda: el.update(POST, X, [0]), r"labels has shape \(1,\); expected \(2,\)"),
        (lambda: el.update(POST, X, [0.5, 1]), "labels holds fractions"),
        (lambda: el.update(POST, X, [np.nan, 1]), "labels holds fractions"),
        (lambda: el.update(POST, X, ["a", "b"]), "labels has dtype <U1"),
        (lambda: el.update(POST, X, Y, weights=[1]), r"weights has shape \(1,\)"),
        (lambda: el.update(POST, X, Y, weights=[1, -1]), "weights holds negative"),
        (lambda: el.update(POST, X, Y, weights=["a", "b"]), "weights has dtype"),
        (lambda: el.update(POST, X, Y, method="third_order"), "method is 'third_order'; expected one of"),
        (lambda: el.update(POST, X, Y, step_size=-1), "step_size is -1"),
        (lambda: el.update(POST, X, Y, step_size="big"), "step_size is 'big'"),  # type: ignore[arg-type]
        (lambda: el.update(POST, X, Y, "monte_carlo"), "pass sample"),
        (lambda: el.update(SAMPLES, X, Y, "second_order"), "samples are updated by 'monte_carlo' only"),
        (lambda: el.update("posterior", X, Y), "posterior is a str"),  # type: ignore[type-var]
        (lambda: el.update(POST, csr_matrix(X), Y), "toarray"),
        (lambda: el.update(POST, torch.tensor(X), Y), "different libraries"),
        (lambda: el.update(POST, X, torch.tensor(Y)), "different libraries"),
        (lambda: el.update(POST, X.astype(complex), Y), "features has dtype complex128"),
        (lambda: el.update(POST, np.array([["a"] * 3] * 2), Y), "features has dtype"),
        (lambda: el.update(POST, [[1, 2, 3], [1, 2]], Y), "features cannot be made an array"),
        (lambda: el.update(POST, X, Y, "exact", step_size=1.0), "step_size is 1.0; method='exact' has none"),
        (lambda: el.update(BARE, X, Y, "exact"), "has not kept them"),
        (lambda: el.update(POST, NAN, Y, "exact"), "features holds 1 NaN"),
        (lambda: el.forget(POST, X, Y), "cannot be taken back: number 1 was never learned"),
        (lambda: el.laplace(np.zeros((4, 3)), X, labels=[0, 3]), "labels runs from 0 to 3"),
        (lambda: el.condition(POST, X[:, :1]), "features has 1 columns"),
        (lambda: el.forget(POST, 100 * X, Y), "cannot be taken back"),
        (lambda: el.forget(POST, 100 * X), "cannot be taken back"),
        (lambda: el.add_class(POST, 0), "n is 0"),
        (lambda: el.add_class(POST, names=["a"]), "names is 1 name"),
        (lambda: el.add_class(el.laplace(np.zeros((4, 1)), X, "binary")), "room for two classes"),
        (lambda: el.laplace(np.zeros((7, 2)), X), "mean has 7 rows and features has 3"),
        (lambda: el.laplace(np.zeros((4, 3)), X, "binary"), "mean has shape"),
        (lambda: el.laplace(np.zeros((4, 2)), X, "poisson"), "likelihood is 'poisson'"),
        (lambda: el.laplace(np.zeros((4, 2)), X, Y), "likelihood is an array of shape"),  # type: ignore[arg-type]
        (lambda: el.laplace(np.zeros((4, 2)), X, prior_precision=0), "prior_precision is 0"),
        (lambda: el.laplace(np.zeros((4, 2)), X, classes=["a"]), "classes holds 1 names"),
        (lambda: el.laplace(np.full((4, 2), np.nan), X), "mean holds 8 NaN"),
        (lambda: el.laplace(torch.zeros(4, 2), X), "mean is a torch Tensor"),
        (lambda: el.fit_map(X, Y, 2), "labels runs from 0 to 2; expected class numbers 0 to 1"),
        (lambda: el.fit_map(np.zeros((0, 3)), [], 2), "features has no rows"),
        (lambda: el.fit_map(X, Y, 3, init=np.zeros((2, 2))), r"init has shape \(2, 2\); expected \(4, 3\)"),
        (lambda: el.fit_map(X, Y, 3, class_weight=[1, 2]), "class_weight has shape"),
        (lambda: el.fit_map(X, Y, 3, class_weight=[1, 2]), r"expected \(3,\), one weight a class"),
        (lambda: el.fit_map(X, Y, 3, class_weight={3: 1.0}), "class_weight runs from 3 to 3"),
        (
            lambda: el.fit_map(X, Y, 3, prior_precision=NINE),
            r"is an array of shape \(9,\); expected one",
        ),
        (lambda: el.fit_map(X, Y, 3, partial=NINE), r"partial is an array of shape .*; expected a pair"),
        (lambda: el.fit_map(X, Y, 3, partial=(X, np.ones((2, 2)))), r"partial\[1\] has shape \(2, 2\)"),
        (lambda: el.fit_map(X, Y, 3, partial=(X, np.zeros((2, 3), bool))), r"partial\[1\] leaves no class"),
        (lambda: el.fit_map(X, Y, 3, init=np.full((4, 3), np.nan)), "init holds 12 .*; expected finite"),
        (lambda: el.update(POST, X, Y, "exact", weights=[1e300, 1]), "weights holds 1e.300, too large"),
        (lambda: el.update(POST, X, np.eye(3)[:2]), "soft targets.* with its share in weights"),
        (lambda: el.forget(POST, X.astype(np.float32) / 3, Y), "or update, in the same precision"),
        (lambda: el.Pool(X, POST, labelled_idx=[True, False], labels=[1]), r"np.flatnonzero\(labelled_idx\)"),
        (lambda: el.Pool(X, POST).rule_out(1, TWO), r"classes is 2; expected several class numbers: \[2\]"),
        (lambda: el.select(el.Pool(X, POST), candidates=[True, False]), r"np.flatnonzero\(candidates\)"),
        (
            lambda: el.select(el.Pool(X, POST), "random", ask=NINE),
            r"ask is an array .* ask=lambda i: y\[i\]",
        ),
        (lambda: el.select(el.Pool(X, POST), "random", ask=SILENT), "ask returned None for instance"),
        (
            lambda: el.LaplaceClassifier().fit(X, np.array(["a", None], object)),
            r"different kinds \(NoneType, str\)",
        ),
        (lambda: el.save_classifier(make_pipeline(el.LaplaceClassifier()), "x.npz"), "pass its last step"),
        (lambda: el.fit_map(X, Y, 3, class_weight="fair"), "class_weight is 'fair'"),
        (lambda: el.fit_map(X, Y, 3, binary=True), "n_classes is 3; expected 2"),
        (lambda: el.fit_map(X, Y, 2.5), "n_classes is 2.5"),  # type: ignore[arg-type]
        (lambda: el.predict_proba(POST, X, "median"), "method is 'median'"),
        (lambda: el.predict_proba(POST, X, "probit"), "probit"),
        (lambda: el.predict_proba(POST, X, "monte_carlo"), "rng is a NoneType"),
        (lambda: el.predict_proba(SAMPLES, X, "mean"), "samples are averaged"),
        (lambda: el.sample(POST, 3, 0), "rng is a int; expected a numpy.random.Generator"),  # type: ignore[arg-type]
        (lambda: el.reweight(np.zeros((2, 3)), [0]), r"member_logits has shape \(2, 3\)"),
        (lambda: el.reweight(np.full((2, 1, 3), np.nan), [0]), "member_logits holds NaN"),
        (lambda: el.mix(np.zeros((2, 1, 3)), [0.0]), r"log_weights has shape \(1,\)"),
        (lambda: el.mix(np.zeros((2, 1, 3)), [0.0, np.nan]), "log_weights holds NaN"),
        (lambda: el.reweight(np.array([[["a"]]]), [0]), "member_logits has dtype"),
        (lambda: el.sample(POST), "rng is a NoneType"),
        (lambda: el.forget(SAMPLES, X), "posterior is a Samples"),  # type: ignore[arg-type]
        (lambda: el.condition("p", X), "posterior is a str"),  # type: ignore[arg-type]
        (lambda: el.predict_proba("p", X), "posterior is a str"),  # type: ignore[arg-type]
        (lambda: el.logits(SAMPLES, X), "posterior is a Samples"),  # type: ignore[arg-type]
        (lambda: el.save(SAMPLES, "x.npz"), "posterior is a Samples"),  # type: ignore[arg-type]
        (lambda: el.update(POST, np.ma.masked_array(X), Y), "features is a masked array"),
        (lambda: el.update(POST, torch.tensor(X).to_sparse(), Y), "features is a sparse tensor"),
        (lambda: el.update(POST, X, [np.inf, 0]), "labels runs from 0 to inf"),
        (lambda: el.update(POST, X * 1e200, Y), "features holds numbers beyond 1e.100"),
        (lambda: el.laplace(np.zeros((4, 2)), X, prior_precision=1e-300), "has no inverse in double"),
        (lambda: el.laplace([1.0, 2.0], X), r"mean has shape \(2,\); expected two axes \(d\+1, k\)"),
    ],
)
def test_message_names_the_argument(call: Any, message: str) -> None:
    mean, cov = POST.mean.copy(), POST.cov.copy()
    with pytest.raises(el.EverylabelError, match=message):
        call()
    np.testing.assert_array_equal(POST.mean, mean)
    np.testing.assert_array_equal(POST.cov, cov)


def test_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="labels"):
        el.update(POST, X, [7, 7])


def test_mixed_devices_are_refused() -> None:
    post = el.laplace(torch.zeros(4, 2), torch.ones(2, 3))
    with pytest.raises(el.EverylabelError, match="different devices"):
        el.update(post, torch.ones(2, 3, device="meta"), [0, 1])


def test_a_class_weight_may_be_a_dict() -> None:
    weighted = el.fit_map(X, Y, 3, class_weight={Y[0]: 2.0})
    factors = np.ones(3)
    factors[Y[0]] = 2.0
    np.testing.assert_array_equal(weighted, el.fit_map(X, Y, 3, class_weight=factors))


def _far(rows: int = 40, at: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return single-precision rows, one of them with a number of a million."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    x[at, 1] = 1e6
    return x, np.arange(rows) % 3


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, y: el.fit_map(x, y, 3), "features"),
        (lambda x, y: el.laplace(np.zeros((4, 3)), x), "features"),
        (lambda x, y: el.update(el.laplace(np.zeros((4, 3)), x[:0]), x, y), "features"),
        (lambda x, y: el.Pool(x, el.laplace(np.zeros((4, 3)), x[:0])), "features"),
        (
            lambda x, y: el.Pool(torch.as_tensor(x), el.laplace(torch.zeros(4, 3), torch.ones(0, 3))),
            "features",
        ),
        (lambda x, y: el.LaplaceClassifier().fit(x, y), "X"),
        (lambda x, y: el.LaplaceClassifier().partial_fit(x, y), "X"),
        (lambda x, y: el.LaplaceClassifier().fit(x[:5], y[:5], unlabelled=x), "unlabelled"),
    ],
)
def test_row_far_out_of_scale_is_named(call: Any, name: str) -> None:
    with pytest.warns(EverylabelWarning, match=f"{name} has 1 row with numbers .* as most: row 7; expected"):
        call(*_far())


def test_new_row_is_compared_with_those_learned_before() -> None:
    x, y = _far()
    post = el.laplace(np.zeros((4, 3)), x[:5], labels=y[:5])
    with pytest.warns(EverylabelWarning, match="features has 1 row .* as most: row 1; expected"):
        el.update(post, x[6:8], y[6:8])


def _learn_and_update(x: np.ndarray, y: np.ndarray) -> None:
    classifier = el.LaplaceClassifier(update="second_order", scale_features=False).fit(x[:2000], y[:2000])
    classifier.partial_fit(x[2000:2001], y[2000:2001])


def _learn_from_pool(x: np.ndarray, y: np.ndarray) -> None:
    pool = el.Pool(x, el.laplace(np.zeros((4, 3)), x[20:100], labels=y[20:100]))
    pool.add(7, y[7])


@pytest.mark.parametrize("call", [_learn_and_update, _learn_from_pool])
def test_row_far_out_of_scale_is_named_once(call: Any) -> None:
    with pytest.warns(EverylabelWarning, match="as large as most") as told:
        call(*_far(rows=3000))
    assert len(told) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int64, np.float16])
def test_whole_and_half_precision_numbers_of_one_scale_are_not_outliers(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 5, size=(40, 3)).astype(dtype)
    el.Pool(x, el.laplace(np.zeros((4, 3)), x[:0].astype(float)))  # a warning would fail the test
