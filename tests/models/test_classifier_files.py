"""A classifier made from a posterior or loaded from disk predicts and learns as the original."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import everylabel as el
from everylabel.core.files import read_file, write_file
from everylabel.models.classifier_files import FORMAT, as_classifier
from everylabel.models.scaling import Scaling, fit_pool_scaling, fit_scaling, suited_precision

NAMES = np.array([f"digit {i}" for i in range(10)])


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return 3.0 * x + 7.0, y


def test_loaded_classifier_predicts_and_learns_as_the_saved_one(tmp_path: Path) -> None:
    x, y = digits()
    scaling, _ = fit_scaling(x[:80], np.ones(80))
    h = scaling(x)
    posterior = el.laplace(el.fit_map(h[:80], y[:80], 10, 0.5), h[:80], "gaussian", 0.5, labels=y[:80])
    classifier = as_classifier(posterior, scaling, NAMES)
    assert np.array_equal(classifier.predict_proba(x), el.predict_proba(posterior, h, method="mean"))
    assert classifier.prior_precision == 0.5
    el.save_classifier(classifier, tmp_path / "c.npz")
    loaded = el.load_classifier(tmp_path / "c.npz")
    again = el.LaplaceClassifier(prior_precision=0.5).fit(x[:80], NAMES[y[:80]])
    for one in (classifier, loaded, again):
        one.partial_fit(x[80:90], NAMES[y[80:90]])
    assert np.allclose(classifier.predict_proba(x), again.predict_proba(x), atol=1e-6)
    assert np.array_equal(classifier.predict_proba(x), loaded.predict_proba(x))
    loaded.forget(x[85:90], NAMES[y[85:90]])
    again.forget(x[85:90], NAMES[y[85:90]])
    assert np.allclose(loaded.predict_proba(x), again.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize("labels", [np.arange(10), np.arange(10) / 2, NAMES.astype(object)])
def test_labels_and_parameters_come_back(tmp_path: Path, labels: Any) -> None:
    x, y = digits()
    fitted = el.LaplaceClassifier(update="second_order", step_size=3.0, predict_method="mean_field")
    fitted.fit(x[:60], labels[y[:60]]) if labels.dtype.kind != "f" else fitted.fit(x[:60], y[:60])
    el.save_classifier(fitted, tmp_path / "c.npz")
    loaded = el.load_classifier(tmp_path / "c.npz")
    assert loaded.get_params() == fitted.get_params()
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))


@pytest.mark.parametrize("update", ["exact", "second_order", "refit"])
@pytest.mark.parametrize("twins", [False, True])
def test_pool_scaling_survives_saving(tmp_path: Path, update: str, twins: bool) -> None:
    x, y = digits()
    pool = np.tile(x[:1], (5, 1)) if twins else x
    fitted = el.LaplaceClassifier(prior_precision=0.5, update=update).fit(x[:60], y[:60], unlabelled=pool)
    el.save_classifier(fitted, tmp_path / "c.npz")
    loaded = el.load_classifier(tmp_path / "c.npz")
    assert loaded.get_params() == fitted.get_params()
    assert np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))
    for one in (fitted, loaded):
        one.partial_fit(x[60:80], y[60:80]).forget(x[60:70], y[60:70])
    assert (loaded.matrix_ is None) == twins
    assert np.allclose(loaded.predict_proba(x), fitted.predict_proba(x), atol=1e-6)
    loaded.fit(x[:60], y[:60], unlabelled=pool)  # the suited factor is taken once
    assert loaded.posterior_.prior_precision == 0.5 * suited_precision(10)
    assert loaded.fit(x[:60], y[:60]).posterior_.prior_precision == 0.5


def test_a_posterior_on_features_that_the_pool_shaped(tmp_path: Path) -> None:
    x, y = digits()
    scaling, prior = fit_pool_scaling(x), suited_precision(10)
    h = scaling(x)
    posterior = el.laplace(el.fit_map(h[:80], y[:80], 10, prior), h[:80], "gaussian", prior, labels=y[:80])
    classifier = as_classifier(posterior, scaling, update="second_order")
    again = el.LaplaceClassifier(update="second_order").fit(x[:80], y[:80], unlabelled=x)
    assert classifier.get_params() == again.get_params()
    told = as_classifier(posterior, scaling, from_pool=False, update="second_order")
    assert told.prior_precision == prior
    for one in (classifier, told, again):
        one.partial_fit(x[80:90], y[80:90]).forget(x[80:90], y[80:90])
        assert np.allclose(one.predict_proba(x), again.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize("pool", [False, True])
def test_a_file_of_before_loads(tmp_path: Path, pool: bool) -> None:
    x, y = digits()
    path = tmp_path / "c.npz"
    fitted = el.LaplaceClassifier(prior_precision=0.5).fit(x[:60], y[:60], unlabelled=x if pool else None)
    el.save_classifier(fitted, path)
    header, arrays = read_file(path, FORMAT, "classifier", "save_classifier")
    del header["from_pool"]
    header["parameters"]["prior_precision"] = fitted.posterior_.prior_precision  # as exports had it
    write_file(path, header, arrays)
    loaded = el.load_classifier(path)
    assert loaded.get_params() == fitted.get_params()
    assert np.array_equal(loaded.predict_proba(x), fitted.predict_proba(x))


def test_unsavable_and_unloadable_files_are_refused(tmp_path: Path) -> None:
    x, y = digits()
    path = tmp_path / "c.npz"
    with pytest.raises(NotFittedError):
        el.save_classifier(el.LaplaceClassifier(), path)
    weighted = el.LaplaceClassifier(class_weight={0: 2.0}, update="refit").fit(x[:60], y[:60])
    with pytest.raises(el.EverylabelError, match="class_weight is a dict"):
        el.save_classifier(weighted, path)
    posterior = el.LaplaceClassifier().fit(x[:60], y[:60]).posterior_
    el.save(posterior, path)
    with pytest.raises(el.EverylabelError, match="no everylabel classifier \\(but 'everylabel posterior'\\)"):
        el.load_classifier(path)
    el.save_classifier(el.LaplaceClassifier().fit(x[:60], y[:60]), path)
    with pytest.raises(el.EverylabelError, match="no everylabel posterior \\(but 'everylabel classifier'\\)"):
        el.load(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name, wrong in (("scale", np.array(np.nan)), ("labels", np.arange(3)), ("center", np.zeros(2))):
        np.savez(path, **{**arrays, name: wrong})
        with pytest.raises(el.EverylabelError, match="is damaged"):
            el.load_classifier(path)
    with pytest.raises(el.EverylabelError, match="scaling is for 2 features"):
        as_classifier(posterior, Scaling(np.zeros(2), 1.0))
    with pytest.raises(el.EverylabelError, match="expected 10 different names"):
        as_classifier(posterior, Scaling(np.zeros(64), 1.0), ["a"] * 10)
