"""Models exported for other programs predict the same."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import everylabel as el
from everylabel.formats.model import export_model
from everylabel.models.scaling import Scaling, fit_scaling
from everylabel.models.thresholds import thresholds_of


def model(likelihood: str = "gaussian") -> tuple[Any, Scaling, list[str], np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    x = x + 20.0
    y = y % 2 if likelihood == "binary" else y
    names = [f"class {i}" for i in range(2 if likelihood == "binary" else 10)]
    scaling, _ = fit_scaling(x[:90], np.ones(90))
    h, binary = scaling(x), likelihood == "binary"
    mean = el.fit_map(h[:90], y[:90], len(names), binary=binary)
    posterior = el.laplace(mean, h[:90], likelihood, labels=y[:90])
    return posterior, scaling, names, x, np.asarray(el.predict_proba(posterior, h, method="mean"))


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_onnx_model_gives_the_same_predictions(likelihood: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    pytest.importorskip("onnx", reason="needs the extra everylabel[export]")
    posterior, scaling, names, x, wanted = model(likelihood)
    session = runtime.InferenceSession(export_model(posterior, scaling, names, "onnx"))
    label, probs = session.run(None, {"features": x.astype(np.float32)})
    assert np.allclose(probs, wanted, atol=1e-5)
    assert np.mean(label == wanted.argmax(axis=1)) > 0.999
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == names


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_torch_model_gives_the_same_predictions(likelihood: str) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra everylabel[torch]")
    posterior, scaling, names, x, wanted = model(likelihood)
    saved = torch.load(io.BytesIO(export_model(posterior, scaling, names, "torch")), weights_only=True)
    layer = torch.nn.Linear(x.shape[1], len(names))
    layer.load_state_dict(saved["state_dict"])
    probs = torch.softmax(layer(torch.tensor(x, dtype=torch.float32)), dim=1).detach().numpy()
    assert np.allclose(probs, wanted, atol=1e-5)
    assert saved["classes"] == names


@pytest.mark.parametrize("form", ["everylabel", "skops"])
def test_estimator_gives_the_same_predictions_and_learns_on(tmp_path: Path, form: str) -> None:
    posterior, scaling, names, x, wanted = model()
    data = export_model(posterior, scaling, names, form)
    if form == "skops":
        skops = pytest.importorskip("skops.io", reason="needs the extra everylabel[export]")
        classifier = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    else:
        (tmp_path / "m.npz").write_bytes(data)
        classifier = el.load_classifier(tmp_path / "m.npz")
    assert np.allclose(classifier.predict_proba(x), wanted, atol=1e-12)
    truth = np.array(names)[load_digits(return_X_y=True)[1]]
    before = classifier.score(x[90:], truth[90:])
    classifier.partial_fit(x[90:290], truth[90:290])
    assert classifier.score(x[290:], truth[290:]) > before


def several() -> tuple[Any, Scaling, list[str], np.ndarray, np.ndarray]:
    """Return a model of digits that are even, above four, or both."""
    x, y = load_digits(return_X_y=True)
    answers = np.stack([y % 2 == 0, y > 4, y == 0], axis=1).astype(float)
    scaling, _ = fit_scaling(x[:90], np.ones(90))
    h = scaling(x)
    posterior = el.laplace(el.fit_map(h[:90], answers[:90], 3), h[:90], "bernoulli", labels=answers[:90])
    return (
        posterior,
        scaling,
        ["even", "large", "zero"],
        x,
        np.asarray(el.predict_proba(posterior, h, "mean")),
    )


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("form", ["onnx", "torch", "sklearn", "skops", "everylabel"])
def test_model_of_several_classes_per_item_gives_the_same_predictions(
    tmp_path: Path, form: str, chosen: bool
) -> None:
    posterior, scaling, names, x, wanted = several()
    limits = thresholds_of(posterior, scaling(x)) if chosen else np.array([0.3, 0.6, 0.5])
    data = export_model(posterior, scaling, names, form, limits)
    if form == "onnx":
        pytest.importorskip("onnx", reason="needs the extra everylabel[export]")
        runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
        label, probs = runtime.InferenceSession(data).run(None, {"features": x.astype(np.float32)})
    elif form == "torch":
        torch = pytest.importorskip("torch", reason="needs the extra everylabel[torch]")
        saved = torch.load(io.BytesIO(data), weights_only=True)
        layer = torch.nn.Linear(x.shape[1], len(names))
        layer.load_state_dict(saved["state_dict"])
        probs = torch.sigmoid(layer(torch.tensor(x, dtype=torch.float32))).detach().numpy()
        label = probs >= np.array(saved["thresholds"])
    else:
        if form == "everylabel":
            (tmp_path / "m.npz").write_bytes(data)
            classifier = el.load_classifier(tmp_path / "m.npz")
        else:
            skops = pytest.importorskip("skops.io", reason="needs the extra everylabel[export]")
            classifier = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
        probs, label = classifier.predict_proba(x), classifier.predict(x)
    assert np.allclose(probs, wanted, atol=1e-5)
    assert np.mean(label == (wanted >= (0.5 if form == "sklearn" else limits))) > 0.999
