"""Exports: every row and probability comes out as it went in; models predict alike in every format."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import everylabel as el
from everylabel.formats.tables import guarded, unguarded
from everylabel.formats.writing import (
    Given,
    Records,
    answer_records,
    export_model,
    label_records,
    prediction_records,
    write_table,
)
from everylabel.models.scaling import Scaling, fit_scaling

IDS = ["=cmd()", "-5", 'b,"c"', "ü\n"]
CLASSES = ["+ve", "no"]


def whole(records: Records, form: str) -> list[dict[str, Any]]:
    data = b"".join(write_table(records, form))
    if form == "csv":
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    if form == "jsonl":
        return [json.loads(line) for line in data.decode().split("\n") if line]
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra everylabel[export]")
    return list(parquet.read_table(io.BytesIO(data)).to_pylist())


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_labels_and_answers(form: str) -> None:
    def value(text: str) -> str:
        return unguarded(text) if form == "csv" else text

    rows = whole(label_records(IDS, {3: 0, 0: 1}, CLASSES, show=lambda i: f"item {i}"), form)
    assert [(value(row["id"]), value(row["label"]), row["shown"]) for row in rows] == [
        ("=cmd()", "no", "item 0"),
        ("ü\n", "+ve", "item 3"),
    ]
    given = [Given(1, "Ann", 1, 0.25, 7), Given(1, "Bob", None, 1.0, 8)]
    rows = whole(answer_records(IDS, given, CLASSES), form)
    assert [row["person"] for row in rows] == ["Ann", "Bob"]
    assert rows[0]["at"] == "1970-01-01T00:00:00.250+00:00"
    assert (rows[0]["label"], rows[1]["label"]) == ("no", "" if form == "csv" else None)
    assert whole(answer_records(IDS, [], CLASSES), form) == []


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_predictions(form: str) -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=9000)
    ids = [f"i{i}" for i in range(9000)]
    items = np.arange(9000)[::2]
    rows = whole(prediction_records(ids, items, lambda at: probs[at], ["a", "b", "c"]), form)
    assert len(rows) == 4500
    stored = np.array([[float(row[f"p({name})"]) for name in "abc"] for row in rows])
    assert np.allclose(stored, probs[items], atol=1e-6)
    assert [row["label"] for row in rows] == ["abc"[i] for i in probs[items].argmax(axis=1)]
    assert rows[7]["id"] == "i14"
    assert float(rows[7]["probability"]) == stored[7].max()


def test_pieces_come_before_all_rows_are_read() -> None:
    def endless() -> Iterator[tuple[str]]:
        while True:
            yield ("x",)

    for form in ("csv", "jsonl"):
        assert next(iter(write_table(Records({"id": str}, endless()), form)))


def test_no_cell_is_a_formula() -> None:
    for text in ("=1+1", "+x", "-x", "@sum", "\tx", "\rx"):
        assert guarded(text) == f"'{text}"
        assert unguarded(guarded(text)) == text
    for harmless in ("-5", "+3.5e4", "plain", "'quoted'", "", 5, None):
        assert guarded(harmless) == harmless
    assert unguarded("'quoted'") == "'quoted'"


def test_an_unknown_format_or_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(el.EverylabelError, match="format is 'xlsx'; expected one of"):
        write_table(Records({}, []), "xlsx")
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(el.EverylabelError, match=r"pip install 'everylabel\[export\]'"):
        write_table(Records({}, []), "parquet")


def model(likelihood: str = "gaussian") -> tuple[Any, Scaling, list[str], np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    x = x + 20.0
    y = y % 2 if likelihood == "binary" else y
    names = [f"class {i}" for i in range(2 if likelihood == "binary" else 10)]
    scaling = fit_scaling(x[:90], np.ones(90))
    h, binary = scaling(x), likelihood == "binary"
    mean = el.fit_map(h[:90], y[:90], len(names), binary=binary)
    posterior = el.laplace(mean, h[:90], likelihood, labels=y[:90])
    return posterior, scaling, names, x, np.asarray(el.predict_proba(posterior, h, method="mean"))


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_onnx_predicts_alike(likelihood: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    pytest.importorskip("onnx", reason="needs the extra everylabel[export]")
    posterior, scaling, names, x, wanted = model(likelihood)
    session = runtime.InferenceSession(export_model(posterior, scaling, names, "onnx"))
    label, probs = session.run(None, {"features": x.astype(np.float32)})
    assert np.allclose(probs, wanted, atol=1e-5)
    assert np.mean(label == wanted.argmax(axis=1)) > 0.999
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == names


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
def test_torch_predicts_alike(likelihood: str) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra everylabel[torch]")
    posterior, scaling, names, x, wanted = model(likelihood)
    saved = torch.load(io.BytesIO(export_model(posterior, scaling, names, "torch")), weights_only=True)
    layer = torch.nn.Linear(x.shape[1], len(names))
    layer.load_state_dict(saved["state_dict"])
    probs = torch.softmax(layer(torch.tensor(x, dtype=torch.float32)), dim=1).detach().numpy()
    assert np.allclose(probs, wanted, atol=1e-5)
    assert saved["classes"] == names


@pytest.mark.parametrize("form", ["everylabel", "skops"])
def test_the_estimator_predicts_alike_and_goes_on_learning(tmp_path: Path, form: str) -> None:
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


def test_a_model_without_classes_is_refused() -> None:
    posterior, scaling, names, _, _ = model()
    with pytest.raises(el.EverylabelError, match="classes has 9 names; expected 10"):
        export_model(posterior, scaling, names[:9], "onnx")
    with pytest.raises(el.EverylabelError, match="format is 'pickle'"):
        export_model(posterior, scaling, names, "pickle")
    one = el.laplace(np.zeros((65, 1)), np.zeros((0, 64)), labels=np.zeros(0, np.int64))
    with pytest.raises(el.EverylabelError, match="fewer than two classes"):
        export_model(one, scaling, ["a"], "torch")
