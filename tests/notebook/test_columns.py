"""Tables of every library come back with one more column."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

import everylabel as el
from everylabel.data.items import Options
from everylabel.data.readers.memory import read_memory
from everylabel.notebook.results import with_column
from tests.notebook.people import CLASSES, TEXTS, answer, answer_texts, truth


def table(kind: str) -> Any:
    """Return the same rows as a table of some library."""
    columns: dict[str, list[Any]] = {"body": list(TEXTS), "size": list(map(len, TEXTS))}
    if kind == "dicts":
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind == "arrow":
        return pytest.importorskip("pyarrow").table(columns)
    if kind == "dataset":
        return pytest.importorskip("datasets", reason="needs datasets").Dataset.from_dict(columns)
    if kind == "polars":
        return pytest.importorskip("polars", reason="needs polars").DataFrame(columns)
    index = [f"row {i}" for i in range(len(TEXTS))]
    return pytest.importorskip("pandas").DataFrame(columns, index=index)


def plain(found: Any, name: str) -> list[Any]:
    values = [row[name] for row in found] if isinstance(found, list) else list(found[name])
    values = [value.as_py() if hasattr(value, "as_py") else value for value in values]
    return [None if value is None or value != value else value for value in values]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dataset", "dicts"])
def test_labels_come_back_in_the_same_kind_of_table(kind: str) -> None:
    given = table(kind)
    with el.label(given, CLASSES, text_column="body", model="tfidf", display=False) as session:
        answer_texts(session, 5)
        found = session.to_frame()
        assert type(found) is type(given)
        assert plain(found, "body") == TEXTS
        said = {i: name for i, name in enumerate(plain(found, "label")) if name is not None}
        assert said == {each["row"]: each["label"] for each in session.records}
        assert len(said) == 5
        assert all(name == CLASSES[truth(TEXTS[i])] for i, name in said.items())
        with pytest.raises(el.EverylabelError, match=r"column 'body' already"):
            session.to_frame("body")
        new = given[:3] if kind != "arrow" else given.slice(0, 3)  # of a dataset a dict of columns
        assert session.predict(new).shape == (3,)
    if kind == "pandas":
        assert found.index.tolist() == given.index.tolist()
        with pytest.raises(el.EverylabelError, match="39 rows, and the source 40"):
            session.labelled(given[1:])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dataset", "dicts"])
def test_column_of_labels_is_completed(kind: str) -> None:
    given = with_column(table(kind), "kind", ["card", None, *[None] * (len(TEXTS) - 2)])
    with el.label(given, CLASSES, label_column="kind", model="tfidf", display=False) as session:
        answer_texts(session, 2)
        found = session.to_frame()
    values = plain(found, "kind")
    assert values[0] == "card"
    assert sum(value is not None for value in values) == 3
    names = getattr(found, "column_names", None) or list(
        found[0] if isinstance(found, list) else found.columns
    )
    assert names[-1] == "kind"


@pytest.mark.parametrize(("old", "new"), [("loan", "card"), (2, 1)])
def test_a_completed_categorical_stays_one_and_adds_new_classes_at_the_end(old: Any, new: Any) -> None:
    pandas = pytest.importorskip("pandas")
    kinds = pandas.Categorical([old, new, None, None], categories=[old, new], ordered=True)
    given = pandas.DataFrame({"body": TEXTS[:4], "kind": kinds})
    found = with_column(given, "kind", [str(old), str(new), "transfer", None], replace=True)
    assert found["kind"].cat.categories.tolist() == [old, new, "transfer"]
    assert found["kind"].cat.ordered
    assert plain(found, "kind") == [old, new, "transfer", None]


def test_completed_class_label_stays_one_and_adds_new_classes_at_the_end() -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    values: list[Any] = ["loan", "card", *[None] * (len(TEXTS) - 2)]
    given = with_column(table("dataset"), "kind", values)
    given = given.cast_column("kind", datasets.ClassLabel(names=["loan", "card"]))
    found = with_column(given, "kind", [*values[:3], "transfer", *values[4:]], replace=True)
    assert found.features["kind"].names == ["loan", "card", "transfer"]
    assert plain(found, "kind") == [0, 1, None, 2, *values[4:]]


@pytest.mark.parametrize("form", ["list", "table"])
def test_missing_first_file_leaves_a_list_of_images(form: str, tmp_path: Path) -> None:
    places = [str(tmp_path / f"{i}.png") for i in range(4)]
    for i, place in enumerate(places[1:]):
        picture(40 * i).save(place)
    items = read_memory(places if form == "list" else {"file": places}, Options())
    assert items.kind == "image"


def picture(shade: int) -> Image.Image:
    return Image.fromarray(np.full((8, 8, 3), shade, np.uint8))


def test_image_dataset_brings_its_classes() -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    types = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])}
    shades = list(range(0, 250, 10))
    columns = {"image": list(map(picture, shades)), "label": [int(shade > 120) for shade in shades]}
    given = datasets.Dataset.from_dict(columns, features=datasets.Features(types))
    with el.label(given, model="pixels", display=False) as session:
        assert session.classes == ["dark", "light"]
        answer(session, 6, lambda item: int(shades[int(item["id"])] > 120))
        assert session.predict([picture(5), picture(240)]).tolist() == ["dark", "light"]
        assert session.labelled(given, "said").column_names == ["image", "label", "said"]
        assert session.records[0].keys() == {"row", "label", "source_label"}
    with el.label(given, label_column="label", model="pixels", display=False) as session:
        assert len(session.records) == len(shades)


def test_bytes_of_images_in_an_arrow_table() -> None:
    arrow = pytest.importorskip("pyarrow")
    files = []
    for shade in range(0, 250, 10):
        out = io.BytesIO()
        picture(shade).save(out, "PNG")
        files.append({"bytes": out.getvalue(), "path": None})
    with el.label(arrow.table({"photo": files}), CLASSES, model="pixels", display=False) as session:
        answer(session, 3, lambda item: int(int(item["id"]) > 12))
        assert len(session.records) == 3


def test_dicts_of_columns_of_any_library() -> None:
    pandas = pytest.importorskip("pandas")
    given = {"body": np.array(["a b", "c d"]), "size": pandas.Series([1, 2], index=[7, 8])}
    items = read_memory(given, Options())
    assert list(items.items) == ["a b", "c d"]
    assert with_column(given, "label", ["x", None])["label"] == ["x", None]
    arrow = pytest.importorskip("pyarrow").table({"body": ["a b", "c d"]})
    assert list(read_memory({"body": arrow["body"]}, Options()).items) == ["a b", "c d"]
    with pytest.raises(el.EverylabelError, match=r"'a' has 1, 'b' has 2; expected the same number of rows"):
        read_memory({"a": ["x"], "b": np.arange(2)}, Options())


def test_unreadable_source_gets_a_sentence() -> None:
    pandas = pytest.importorskip("pandas")
    for source, message in (
        (pandas.DataFrame({"t": []}), "the table has no rows; expected at least one"),
        ([[1.0, 2.0], [3.0, 4.0]], r"source\[0\] is a list of numbers .* pass np.array\(source\)"),
        (scipy.sparse.csr_matrix(np.eye(3)), r"sparse csr_matrix; .* pass source.toarray\(\)"),
    ):
        with pytest.raises(el.EverylabelError, match=message):
            read_memory(source, Options())
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    streamed = datasets.Dataset.from_dict({"body": TEXTS}).to_iterable_dataset()
    with pytest.raises(el.EverylabelError, match=r"is a IterableDataset, .* list\(source.take\(1000\)"):
        read_memory(streamed, Options())
