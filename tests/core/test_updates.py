"""One contract suite for all updates and likelihoods, each against its slow twin."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import everylabel as el
from everylabel.core.posterior import Labelled
from everylabel.core.updates import DEFAULT_STEPS
from everylabel.core.updates import METHODS as METHODS_BY_NAME
from tests.conftest import LIKELIHOODS, Case, cases, design
from tests.core import dense

METHODS = ["second_order", "first_order"]
DENSE = [name for name in LIKELIHOODS if name != "matrix_normal"]
close = np.testing.assert_allclose


def fitted(case: Case, likelihood: str, keep_data: bool = True) -> el.Posterior:
    return el.laplace(case.mean, case.features, likelihood, case.prior_precision, keep_data=keep_data)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("likelihood", DENSE)
@hypothesis.given(data=st.data())
def test_second_order_equals_its_dense_twin(likelihood: str, joint: bool, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = fitted(case, likelihood)
    new = el.update(
        post, case.new_features, case.new_labels, "second_order", case.step_size, joint, weights=case.weights
    )
    mean, precision = dense.second_order(
        likelihood,
        case.mean,
        np.linalg.inv(post.cov),
        design(case.new_features),
        case.new_labels,
        case.weights,
        case.step_size,
        joint,
    )
    close(new.mean, mean, rtol=1e-6, atol=1e-8)
    close(new.cov, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
@hypothesis.given(case=cases())
def test_matrix_normal_mean_takes_the_kronecker_direction(joint: bool, case: Case) -> None:
    post = fitted(case, "matrix_normal")
    b = len(case.new_labels) if joint else 1
    new = (case.new_features[:b], case.new_labels[:b])
    moved = el.update(post, *new, step_size=case.step_size, joint=joint, weights=case.weights[:b])
    here = el.condition(post, case.new_features[:b], weights=case.weights[:b])
    grad = dense.gradient(case.mean, design(new[0]), new[1], case.weights[:b])
    close(moved.mean, case.mean - case.step_size * here.cov @ grad @ here.class_cov, atol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("likelihood", ["gaussian", "full", "binary"])
@hypothesis.given(data=st.data())
def test_first_order_follows_the_gradient(likelihood: str, joint: bool, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    new = el.update(
        fitted(case, likelihood), case.new_features, case.new_labels, "first_order", 0.05, joint,
        weights=case.weights,
    )  # fmt: skip
    mean = case.mean
    for r in [slice(None)] if joint else [slice(i, i + 1) for i in range(len(case.new_labels))]:
        mean = mean - 0.05 * dense.gradient(
            mean, design(case.new_features[r]), case.new_labels[r], case.weights[r]
        )
    close(new.mean, mean, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@hypothesis.given(data=st.data())
def test_two_updates_equal_one_with_both(likelihood: str, method: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = fitted(case, likelihood)
    once = el.update(post, case.new_features, case.new_labels, method, weights=case.weights)
    twice = post
    for i in range(len(case.new_labels)):
        r = slice(i, i + 1)
        twice = el.update(twice, case.new_features[r], case.new_labels[r], method, weights=case.weights[r])
    close(once.mean, twice.mean, rtol=1e-9, atol=1e-10)
    close(once.cov, twice.cov, rtol=1e-9, atol=1e-10)


def test_a_method_of_the_table_is_the_one_called(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    post = el.laplace(rng.normal(size=(4, 3)), x)
    told: list[tuple[float, bool]] = []

    def mine(posterior: el.Posterior, new: Labelled, step_size: float, joint: bool) -> el.Posterior:
        told.append((step_size, joint))
        return posterior.replace(mean=posterior.mean + float(new.weights.sum()))

    monkeypatch.setitem(METHODS_BY_NAME, "mine", mine)
    monkeypatch.setitem(DEFAULT_STEPS, "mine", 0.25)
    close(el.update(post, x, y, "mine", joint=True).mean, post.mean + 6.0)
    pool = el.Pool(x, post)
    pool.add(2, 1, method="mine", step_size=0.5)
    close(pool.posterior.mean, post.mean + 1.0)
    assert told == [(0.25, True), (0.5, False)]


@pytest.mark.parametrize("likelihood", DENSE)
@hypothesis.given(data=st.data())
def test_weight_two_is_the_same_label_twice(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = fitted(case, likelihood)
    twice = np.r_[np.arange(len(case.new_labels)), np.arange(len(case.new_labels))]
    doubled = el.update(post, case.new_features[twice], case.new_labels[twice], joint=True, step_size=2.0)
    two = np.full(len(case.new_labels), 2.0)
    weighted = el.update(post, case.new_features, case.new_labels, joint=True, step_size=2.0, weights=two)
    close(weighted.mean, doubled.mean, rtol=1e-7, atol=1e-8)
    close(weighted.cov, doubled.cov, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@hypothesis.given(data=st.data())
def test_forget_restores_the_covariance(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary", max_new=1))
    post = fitted(case, likelihood)
    there = el.update(post, case.new_features, case.new_labels, weights=case.weights)
    back = el.forget(there, case.new_features, case.new_labels, weights=case.weights)
    close(_whole(back), _whole(post), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@hypothesis.given(data=st.data())
def test_forget_undoes_condition(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary"))
    post = fitted(case, likelihood)
    out = el.condition(post, case.new_features, weights=case.weights)
    assert out.mean is post.mean
    back = el.forget(out, case.new_features, weights=case.weights)
    close(_whole(back), _whole(post), rtol=1e-6, atol=1e-8)


def _whole(post: el.Posterior) -> np.ndarray:
    """Return the covariance; of a matrix normal the Kronecker product, which has no free scalar."""
    return post.cov if post.class_cov is None else np.kron(post.class_cov, post.cov)


@pytest.mark.parametrize("likelihood", DENSE)
@hypothesis.given(data=st.data())
def test_forget_takes_the_newton_step_without_the_label(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases(binary=likelihood == "binary", max_new=1))
    there = fitted(case, likelihood, keep_data=False)
    there = el.update(there, case.new_features, case.new_labels, weights=case.weights)
    back = el.forget(there, case.new_features, case.new_labels, weights=case.weights)
    grad = dense.gradient(there.mean, design(case.new_features), case.new_labels, case.weights)
    close(back.mean, there.mean + dense.apply_cov(likelihood, back.cov, grad), rtol=1e-6, atol=1e-8)


@hypothesis.given(case=cases())
def test_condition_needs_no_label(case: Case) -> None:
    post = fitted(case, "gaussian")
    learned = el.update(post, case.new_features, case.new_labels, joint=True)
    close(el.condition(post, case.new_features).cov, learned.cov, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "binary"])
@hypothesis.given(data=st.data())
def test_add_class_moves_nothing_else(likelihood: str, data: st.DataObject) -> None:
    case = data.draw(cases())
    post = fitted(case, likelihood)
    more = el.add_class(post, 2)
    assert more.n_classes == case.k + 2
    close(more.mean[:, : case.k], post.mean)
    close(more.mean[:, case.k :], 0.0)
    close(el.logits(more, case.features)[:, : case.k], el.logits(post, case.features))
    variance, before = el.logit_variance(more, case.features), el.logit_variance(post, case.features)
    close(variance[:, : before.shape[1]] if before.shape[1] > 1 else variance, before)
    after = el.update(more, case.new_features, np.full(len(case.new_labels), case.k + 1))
    assert np.all(np.isfinite(after.mean))
    assert np.all(np.linalg.eigvalsh(after.cov) > 0)


@pytest.mark.unchecked_shapes
@pytest.mark.parametrize("likelihood", DENSE)
def test_a_thousand_labels_keep_the_covariance_sound(likelihood: str) -> None:
    rng = np.random.default_rng(5)
    d, k = 4, 2 if likelihood == "binary" else 3
    features, labels = rng.normal(size=(1000, d)), rng.integers(k, size=1000)
    mean = np.zeros((d + 1, 1 if likelihood == "binary" else k))
    post = el.laplace(mean, features[:5], likelihood, 0.5, keep_data=False)
    precision = np.linalg.inv(post.cov)
    for h, y in zip(features, labels, strict=True):
        post = el.update(post, h[None], [y], step_size=1.0)
        precision = precision + dense.curvature(
            likelihood, post.mean, design(h[None]), np.array([y]), np.ones(1)
        )
    expected = np.linalg.inv(precision)
    np.testing.assert_array_equal(post.cov, np.swapaxes(post.cov, -1, -2))
    assert np.all(np.linalg.eigvalsh(post.cov) > 0)
    assert np.max(np.abs(post.cov - expected)) <= 1e-6 * np.max(np.abs(expected))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("method", METHODS)
def test_the_posterior_given_is_left_alone(likelihood: str, method: str) -> None:
    rng = np.random.default_rng(0)
    k = 2 if likelihood == "binary" else 3
    post = el.laplace(rng.normal(size=(4, 1 if k == 2 else k)), rng.normal(size=(6, 3)), likelihood)
    mean, cov = post.mean.copy(), post.cov.copy()
    post.mean.flags.writeable = post.cov.flags.writeable = False
    el.update(post, rng.normal(size=(5, 3)), rng.integers(k, size=5), method)
    el.forget(el.condition(post, np.ones((1, 3))), np.ones((1, 3)))
    np.testing.assert_array_equal(post.mean, mean)
    np.testing.assert_array_equal(post.cov, cov)


def test_step_size_none_is_the_papers() -> None:
    rng = np.random.default_rng(0)
    post = el.laplace(rng.normal(size=(4, 3)), rng.normal(size=(6, 3)))
    new = rng.normal(size=(2, 3)), [0, 2]
    close(el.update(post, *new).mean, el.update(post, *new, step_size=10.0).mean)
    other = el.laplace(post.mean, rng.normal(size=(6, 3)), "categorical")  # Newton's own step
    close(el.update(other, *new).mean, el.update(other, *new, step_size=1.0).mean)
    first = el.update(post, *new, method="first_order")
    close(first.mean, el.update(post, *new, method="first_order", step_size=0.001).mean)


def test_empty_batch_changes_nothing() -> None:
    post = el.laplace(np.zeros((4, 3)), np.ones((2, 3)))
    assert el.update(post, np.zeros((0, 3)), []) is post
    assert el.condition(post, np.zeros((0, 3))) is post


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_more_labels_than_features(likelihood: str) -> None:
    """With more than d instances no b x b system is built; the result is the same."""
    rng = np.random.default_rng(2)
    k = 2 if likelihood == "binary" else 3
    x, y = rng.normal(size=(30, 2)), rng.integers(k, size=30)
    weights = rng.uniform(0.5, 2.0, 30)
    post = el.laplace(rng.normal(size=(3, 1 if k == 2 else k)), x[:4], likelihood, 0.7, keep_data=False)
    sure = el.condition(post, x, weights=weights)
    one_by_one = post
    for i in range(30):
        one_by_one = el.condition(one_by_one, x[i : i + 1], weights=weights[i : i + 1])
    close(sure.cov, one_by_one.cov, rtol=1e-9)
    joint = el.update(post, x, y, joint=True, step_size=2.0, weights=weights)
    grad = dense.gradient(post.mean, design(x), y, weights)
    if likelihood == "matrix_normal":
        direction = sure.cov @ grad @ sure.class_cov
    else:
        direction = dense.apply_cov(likelihood, sure.cov, grad)
    close(joint.mean, post.mean - 2.0 * direction, rtol=1e-8)


def test_a_posterior_shares_nothing_with_its_caller() -> None:
    mean, features = np.zeros((4, 3)), np.ones((2, 3))
    post = el.laplace(mean, features)
    mean[:], features[:] = 9.0, 9.0
    assert np.all(post.mean == 0.0)
    assert post.data is not None
    assert np.all(np.asarray(post.data.features) == 1.0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("joint", [False, True])
def test_first_order_without_covariance_moves_the_mean_alone(likelihood: str, joint: bool) -> None:
    rng = np.random.default_rng(0)
    k = 2 if likelihood == "binary" else 3
    post = el.laplace(rng.normal(size=(5, 1 if k == 2 else k)), rng.normal(size=(6, 4)), likelihood)
    x, y, w = rng.normal(size=(4, 4)), rng.integers(k, size=4), rng.uniform(0.5, 2.0, 4)
    whole = el.update(post, x, y, "first_order", 0.1, joint, weights=w)
    bare = el.update(post, x, y, "first_order", 0.1, joint, weights=w, covariance=False)
    np.testing.assert_array_equal(bare.mean, whole.mean)
    assert bare.cov is post.cov
    assert bare.data is not None
    assert len(bare.data) == 10  # the labels are noted all the same
    with pytest.raises(el.EverylabelError, match="covariance is False, but method is 'second_order'"):
        el.update(post, x, y, covariance=False)
