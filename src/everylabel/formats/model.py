"""The model as a file for other programs: skops, plain scikit-learn, ONNX, torch, or our own .npz.

d features, k classes. The scaling of the features is folded into one linear layer (`linear_layer`).
"""

import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core import Posterior
from everylabel.core.errors import need
from everylabel.models.scaling import Scaling, linear_layer

OPSET = 13


def export_model(
    posterior: Posterior,
    scaling: Scaling,
    classes: Sequence[str],
    form: str,
    thresholds: np.ndarray | None = None,
) -> bytes:
    """Return the bytes of a file with the model, which predicts these classes from unscaled features.

    form : "everylabel" (`everylabel.load_classifier`), "skops" (`skops.io.load`, with everylabel installed),
    "sklearn" (`skops.io.load` without everylabel: a LogisticRegression with these weights), "onnx" (input
    `features`, outputs `label` and `probabilities`, class names in the metadata) or "torch" (`torch.load`:
    a dict of `state_dict`, for `torch.nn.Linear(d, k)`, and `classes`).
    With several classes per item, "sklearn" is a OneVsRestClassifier with threshold 0.5; ONNX has sigmoids,
    and `label` is an indicator (n, k) by `thresholds` (k,); "torch" holds `multi_label` and `thresholds`;
    "everylabel" and "skops" predict by them.
    """
    layer = linear_layer(posterior, scaling)
    if form in ("onnx", "torch"):
        return (_onnx if form == "onnx" else _torch)(*layer, classes, thresholds)
    if form == "sklearn":
        plain = (_one_vs_rest if posterior.multi_label else _sklearn)(*layer, classes)
        return bytes(need("skops.io", "export", "exporting for skops").dumps(plain))
    from everylabel.models.classifier_files import (  # scikit-learn takes two seconds
        as_classifier,
        save_classifier,
    )

    options = {} if thresholds is None else {"thresholds": thresholds.tolist()}
    classifier = as_classifier(posterior, scaling, classes, **options)
    if form == "skops":
        return bytes(need("skops.io", "export", "exporting for skops").dumps(classifier))
    with tempfile.TemporaryDirectory() as folder:
        save_classifier(classifier, Path(folder) / "model.npz")
        return (Path(folder) / "model.npz").read_bytes()


def _onnx(
    weights: np.ndarray, bias: np.ndarray, classes: Sequence[str], thresholds: np.ndarray | None
) -> bytes:
    """Return a graph of a softmax and its best class; with thresholds, of sigmoids and classes."""
    onnx = need("onnx", "export", "exporting as ONNX")
    make, single, whole = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    d, k = weights.shape
    nodes = [make.make_node("Gemm", ["features", "weights", "bias"], ["logits"])]
    stored = {"weights": weights, "bias": bias}
    if thresholds is None:
        nodes += [
            make.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
            make.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
        ]
    else:
        stored["thresholds"] = thresholds
        nodes += [
            make.make_node("Sigmoid", ["logits"], ["probabilities"]),
            make.make_node("GreaterOrEqual", ["probabilities", "thresholds"], ["there"]),
            make.make_node("Cast", ["there"], ["label"], to=whole),
        ]
    graph = make.make_graph(
        nodes,
        "everylabel",
        [make.make_tensor_value_info("features", single, ["n", d])],
        [
            make.make_tensor_value_info("label", whole, ["n"] if thresholds is None else ["n", k]),
            make.make_tensor_value_info("probabilities", single, ["n", k]),
        ],
        [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in stored.items()],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], producer_name="everylabel")
    model.ir_version = 8  # also read by older runtimes
    make.set_model_props(model, {"classes": json.dumps(list(classes), ensure_ascii=False)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _torch(
    weights: np.ndarray, bias: np.ndarray, classes: Sequence[str], thresholds: np.ndarray | None
) -> bytes:
    torch: Any = need("torch", "torch", "exporting for torch")
    state = {
        "weight": torch.tensor(weights.T, dtype=torch.float32),
        "bias": torch.tensor(bias, dtype=torch.float32),
    }
    file = io.BytesIO()
    several = {} if thresholds is None else {"multi_label": True, "thresholds": thresholds.tolist()}
    torch.save({"state_dict": state, "classes": list(classes), **several}, file)
    return file.getvalue()


def _sklearn(weights: np.ndarray, bias: np.ndarray, classes: Sequence[str]) -> Any:
    """Return a LogisticRegression; for two classes it has one column, their difference."""
    order = np.argsort(np.asarray(classes))  # scikit-learn sorts classes
    weights, bias = weights[:, order], bias[order]
    if len(classes) == 2:
        weights, bias = weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1]
    return _logistic(weights, bias, np.asarray(classes)[order])


def _one_vs_rest(weights: np.ndarray, bias: np.ndarray, classes: Sequence[str]) -> Any:
    """Return a OneVsRestClassifier; its columns are the classes in this order."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import LabelBinarizer

    k, yes = len(classes), np.array([0, 1])
    every = OneVsRestClassifier(LogisticRegression())
    every.estimators_ = [_logistic(weights[:, c : c + 1], bias[c : c + 1], yes) for c in range(k)]
    every.label_binarizer_ = LabelBinarizer().fit(np.r_[np.zeros((1, k), int), np.ones((1, k), int)])
    every.n_features_in_ = len(weights)
    return every


def _logistic(weights: np.ndarray, bias: np.ndarray, classes: np.ndarray) -> Any:
    """Return a LogisticRegression with these weights (d, m)."""
    from sklearn.linear_model import LogisticRegression

    plain = LogisticRegression()
    plain.coef_, plain.intercept_ = np.ascontiguousarray(weights.T), bias
    plain.classes_, plain.n_features_in_ = classes, len(weights)
    plain.n_iter_ = np.zeros(1, np.int32)
    return plain
