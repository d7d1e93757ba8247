"""Several classes per item from Python: labels, the filled-up column, and the model."""

from pathlib import Path

import numpy as np
import pytest

import everylabel as el


def test_lists_come_in_and_go_out(tmp_path: Path) -> None:
    tags = [["sport"], ["money", "politics"], []]
    words = ["football goal", "bank election", "garden rain"]
    rows = [{"text": f"{words[i % 3]} {i}", "tags": tags[i % 3] if i < 9 else None} for i in range(30)]
    session = el.label(
        rows,
        ["sport", "money", "politics"],
        text_column="text",
        label_column="tags",
        multi_label=True,
        model="tfidf",
        folder=tmp_path / "rows.everylabel",
        display=False,
    )
    try:
        assert [record["label"] for record in session.records[:3]] == ["sport", "money;politics", "[]"]
        filled = session.to_frame(column="topics")
        assert [row["topics"] for row in filled[:3]] == ["sport", "money;politics", "[]"]
        assert session.model.predict_proba(np.zeros((2, session.model.n_features_in_))).shape == (2, 3)
        there = session.predict_proba() >= session.model.thresholds_
        names = ["sport", "money", "politics"]
        wanted = [";".join(n for n, yes in zip(names, row, strict=True) if yes) or "[]" for row in there]
        assert session.predict().tolist() == wanted
    finally:
        session.stop()


def test_lists_of_class_labels_of_a_dataset_come_in_and_go_out(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the library datasets")
    words = ["football goal", "bank election", "garden rain"]
    kinds = datasets.Sequence(datasets.ClassLabel(names=["sport", "money", "politics"]))
    tags = [[0], [1, 2], []]
    rows = {
        "text": [f"{words[i % 3]} {i}" for i in range(30)],
        "tags": [tags[i % 3] if i < 9 else None for i in range(30)],
    }
    features = datasets.Features({"text": datasets.Value("string"), "tags": kinds})
    given = datasets.Dataset.from_dict(rows, features=features)
    session = el.label(
        given,
        text_column="text",
        label_column="tags",
        multi_label=True,
        model="tfidf",
        folder=tmp_path / "rows.everylabel",
        display=False,
    )
    try:
        assert [record["label"] for record in session.records[:3]] == ["sport", "money;politics", "[]"]
        filled = session.to_frame()
        assert filled["tags"][:4] == [[0], [1, 2], [], [0]]
        assert filled["tags"][20] is None
        assert filled.features["tags"] == given.features["tags"]
    finally:
        session.stop()
