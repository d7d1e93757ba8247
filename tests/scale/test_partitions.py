"""embed and predict over partitions: what they make of the whole, whoever cuts it, also the real Dask."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelError
from everylabel.scale.partitions import embed_partition, predict_partition
from tests.scale.shards import TEXTS, source

ROOT = Path(__file__).parents[2]
pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")


def trained(folder: Path, fit: Path) -> tuple[Path, np.ndarray, Any]:
    """Return a classifier's file, the features of all texts, and the classifier."""
    features = el.embed(TEXTS, fit=fit, cache=False)
    names = np.array(["soap", "beans", "trains", "lamps", "rivers"])[np.arange(len(TEXTS)) % 5]
    classifier = el.LaplaceClassifier().fit(features[:60], names[:60])
    el.save_classifier(classifier, folder / "model.npz")
    return folder / "model.npz", features, classifier


def test_partitions_get_the_features_and_labels_of_the_whole_table(tmp_path: Path) -> None:
    _, fit = source(tmp_path)
    model, features, classifier = trained(tmp_path, fit)
    frame = pandas.DataFrame({"body": TEXTS[:100]}, index=np.arange(100) * 7)
    embedded = embed_partition(frame, text_column="body", fit=fit)
    assert list(frame.columns) == ["body"]  # as it was
    assert np.array_equal(np.stack(embedded["features"].tolist()), features[:100])
    predicted = predict_partition(embedded, model)
    assert predicted.index.equals(frame.index)
    assert predicted["label"].tolist() == classifier.predict(features[:100]).tolist()
    assert np.allclose(predicted["probability"], classifier.predict_proba(features[:100]).max(axis=1))
    nothing = predict_partition(embed_partition(frame[:0], text_column="body", fit=fit), model)
    assert list(nothing.columns) == ["body", "features", "label", "probability"]
    el.save_classifier(
        classifier.partial_fit(features[60:90], ["soap"] * 30), model
    )  # another, of the same name
    assert predict_partition(embedded, model)["label"].tolist() != predicted["label"].tolist()


def test_unreadable_images_have_no_label(tmp_path: Path) -> None:
    from PIL import Image

    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for i, path in enumerate(paths):
        Image.new("RGB", (8, 8), (250 * (i % 2), 9 * i, 99)).save(path)
    features = el.embed(paths, "pixels", fit_out=tmp_path / "fit.npz", cache=False)
    el.save_classifier(el.LaplaceClassifier().fit(features, [0, 1] * 3), tmp_path / "model.npz")
    paths[1].write_text("broken")
    frame = pandas.DataFrame({"path": [str(path) for path in paths]})
    embedded = embed_partition(frame, image_column="path", fit=tmp_path / "fit.npz")
    predicted = predict_partition(embedded, tmp_path / "model.npz")
    assert predicted["label"].fillna("none").tolist() == ["0", "none", "0", "1", "0", "1"]
    assert np.isnan(predicted["probability"][1])
    only = embed_partition(frame[1:2], image_column="path", fit=tmp_path / "fit.npz")
    assert only["features"].tolist() == [None]


def test_bad_input_gets_a_sentence(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"body": ["a"]})
    with pytest.raises(EverylabelError, match="text_column or image_column is needed, and one only"):
        embed_partition(frame)
    with pytest.raises(
        EverylabelError, match="column 'text' is not in 'the partition'; expected one of 'body'"
    ):
        embed_partition(frame, text_column="text")
    with pytest.raises(EverylabelError, match=r"^model tfidf learns from all rows"):
        embed_partition(frame, text_column="body", model="tfidf")
    with pytest.raises(EverylabelError, match="column 'features' is not in"):
        predict_partition(frame, tmp_path / "model.npz")


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # Dask's own
def test_dask_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm: str) -> None:
    pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")
    assert minilm
    monkeypatch.chdir(tmp_path)
    labels = documented(tmp_path)
    exec(example("dask"), {})
    result = pandas.read_parquet(tmp_path / "predictions").sort_values("id")
    assert result["label"].tolist() == labels
    assert list(result.columns) == ["id", "label", "probability"]


def example(name: str) -> str:
    """Return the example of docs/scale.md that imports a library."""
    page = (ROOT / "docs" / "scale.md").read_text()
    (found,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if f" {name}" in block)
    return found


def documented(folder: Path) -> list[str]:
    """Write the reviews and the model that the examples read; return the label of each review."""
    texts = [f"{i}: the {('school', 'river')[i % 2]} of a village" for i in range(12)]
    features = el.embed(texts, cache=False)
    classifier = el.LaplaceClassifier().fit(features[:8], ["school", "river"] * 4)
    el.save_classifier(classifier, folder / "model.npz")
    (folder / "reviews").mkdir()
    for at in (0, 6):
        frame = pandas.DataFrame({"id": np.arange(at, at + 6), "body": texts[at : at + 6]})
        frame.to_parquet(folder / "reviews" / f"{at}.parquet")
    return [str(label) for label in classifier.predict(features)]
