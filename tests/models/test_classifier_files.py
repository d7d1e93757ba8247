"""A classifier from a posterior, and on disk: it predicts and learns as the one it came from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import everylabel as el
from everylabel.models.classifier_files import as_classifier
from everylabel.models.scaling import Scaling, fit_scaling

NAMES = np.array([f"digit {i}" for i in range(10)])


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return 3.0 * x + 7.0, y


def test_it_predicts_and_learns_as_the_posterior(tmp_path: Path) -> None:
    x, y = digits()
    scaling = fit_scaling(x[:80], np.ones(80))
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


def test_what_cannot_be_saved_or_loaded_is_told(tmp_path: Path) -> None:
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
