"""Images and tables become features, by every backend that can run here."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image as PIL

import everylabel as el
from everylabel.core.errors import EverylabelWarning
from everylabel.data import Items
from everylabel.models.embedding import choose, images, tables
from everylabel.models.embedding.chunks import Chunks


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    """Twelve small pictures, red and blue in turn, of different sizes and modes."""
    rng = np.random.default_rng(0)
    paths = []
    for i in range(12):
        array = rng.integers(0, 60, size=(40 + i, 50, 3), dtype=np.uint8)
        array[:, :, 2 * (i % 2)] += 150
        path = tmp_path / f"{i:02}.{'png' if i % 3 else 'jpg'}"
        PIL.fromarray(array).save(path)
        paths.append(path)
    return paths


def red_from_blue(features: np.ndarray) -> bool:
    labels = np.arange(len(features)) % 2
    mean = el.fit_map(features[:8], labels[:8], 2, prior_precision=0.01)
    return bool(np.all(np.argmax(np.c_[features, np.ones(len(features))] @ mean, 1)[8:] == labels[8:]))


def test_pixels_and_pca(photos: list[Path]) -> None:
    features = el.embed(photos, "pixels")
    assert features.shape == (12, 12)
    assert red_from_blue(features)
    opened = el.embed([PIL.open(path) for path in photos], "pixels")
    np.testing.assert_allclose(np.abs(opened), np.abs(features), atol=1e-3)
    assert el.embed([np.zeros((8, 8, 3), np.uint8)], "pixels").shape == (1, 3072)


def test_broken_images_are_rows_of_nan_counted_and_listed(photos: list[Path], tmp_path: Path) -> None:
    photos[1].write_bytes(b"no image at all")
    photos[3].write_bytes(photos[3].read_bytes()[:200])  # cut off
    photos[5] = tmp_path / "missing.png"
    for _ in range(2):  # the second time from the cache
        with pytest.warns(EverylabelWarning, match=r"3 of 12 images.*01\.png, .*03\.jpg, .*missing\.png"):
            features = el.embed(photos, "pixels")
        assert np.flatnonzero(np.isnan(features).any(axis=1)).tolist() == [1, 3, 5]
    with pytest.raises(el.EverylabelError, match="no image that can be read"):
        el.embed([tmp_path / "none.png"], "pixels")


def test_without_the_extra_images_fall_back(monkeypatch: pytest.MonkeyPatch, photos: list[Path]) -> None:
    monkeypatch.setattr(choose, "find_spec", lambda _: None)
    with pytest.warns(EverylabelWarning, match=r"pixels \+ PCA.*everylabel\[image\]"):
        assert len(el.embed(map(str, photos))) == 12


def test_a_tiny_dinov2(photos: list[Path], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra everylabel[image]")
    folder = tmp_path / "dino"
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=14
    )
    model = transformers.Dinov2Model(config).eval()
    model.save_pretrained(folder)
    size, crop = {"shortest_edge": 32}, {"height": 28, "width": 28}
    processor = transformers.BitImageProcessorPil(size=size, crop_size=crop)
    processor.save_pretrained(folder)
    features = el.embed(photos, str(folder), batch_size=5)
    inputs = processor(PIL.open(photos[4]).convert("RGB"), return_tensors="pt")
    expected = model(**inputs).last_hidden_state[0, 0].detach().numpy()
    np.testing.assert_allclose(features[4], expected, atol=1e-5)


@pytest.mark.parametrize(("shape", "last"), [(["n", 3, 16, 16], False), ([1, 16, 16, 3], True)])
def test_an_onnx_file(photos: list[Path], tmp_path: Path, shape: list[Any], last: bool) -> None:
    onnx = pytest.importorskip("onnx", reason="needs onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra everylabel[onnx]")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    axes = onnx.numpy_helper.from_array(np.array([1, 2] if last else [2, 3]), "axes")
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        "mean colour",
        [helper.make_tensor_value_info("x", floats, shape)],
        [helper.make_tensor_value_info("y", floats, [shape[0], 3])],
        [axes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "colour.onnx")
    features = el.embed(photos, str(tmp_path / "colour.onnx"), batch_size=5)
    assert features.shape == (12, 3)
    assert red_from_blue(features)
    (tmp_path / "bad.onnx").write_text("nothing")
    with pytest.raises(el.EverylabelError, match="cannot be loaded"):
        el.embed(photos, str(tmp_path / "bad.onnx"))


def test_timm_is_called_as_its_manual_says(photos: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """timm needs torchvision, which is not installed here: a stand-in with its documented interface."""
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[name-defined]
        pretrained_cfg = {"input_size": (3, 24, 32), "mean": (0.5,) * 3, "std": (0.5,) * 3}  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: Any) -> Any:
            assert x.shape[1:] == (3, 24, 32)
            return x.mean(dim=(2, 3)) * self.scale

    def create_model(name: str, *, pretrained: bool, num_classes: int) -> Net:
        assert (name, pretrained, num_classes) == ("resnet18", True, 0)
        return Net()

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    assert red_from_blue(el.embed(photos, "timm:resnet18"))


def test_tables(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    n = 60
    frame = pandas.DataFrame(
        {
            "age": [20.0 + i if i % 7 else None for i in range(n)],
            "city": [["Kassel", "Oslo", None][i % 3] for i in range(n)],
            "member": [i % 2 == 0 for i in range(n)],
            "since": pandas.date_range("2020-01-01", periods=n),
            "code": [f"c{i}" for i in range(n)],
            "nothing": [float("nan")] * n,
        }
    )
    features = el.embed(frame)
    assert features.shape[0] == n
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert features.shape[1] <= 4 + 3 + 50
    np.testing.assert_allclose(features[:, 0].mean(), 0, atol=0.2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    assert el.embed(tmp_path / "t.csv").shape[0] == n
    np.testing.assert_allclose(el.embed(tmp_path / "t.parquet"), features, atol=1e-6)
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(el.EverylabelError, match="is empty; expected a file with names of columns"):
        el.embed(tmp_path / "e.csv")
    with pytest.raises(el.EverylabelError, match="tables have one encoder"):
        el.embed(frame, "tfidf")
    with pytest.raises(el.EverylabelError, match="items is empty"):
        el.embed(frame[:0])


def test_types_and_empty_cells_distinguish_tables() -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    numbers = el.embed(pandas.DataFrame({"a": [1, 2, 3]}))
    words = el.embed(pandas.DataFrame({"a": ["1", "2", "3"]}))
    assert numbers.shape == (3, 1)
    assert words.shape == (3, 3)
    gap, name = ({"a": pandas.Series(["x", "y", last], dtype=object)} for last in (None, "None"))
    digests = {tables.row_bytes(pandas.DataFrame(columns)) for columns in (gap, name)}
    assert len(digests) == 2


def test_texts_that_end_like_images_are_texts(photos: list[Path]) -> None:
    texts = ["the file is photo.png", "a cat on a mat", "the dog and a cat"]
    names = ["photo.png", "cat.png", "dog.png"]
    for items, model, kind in (
        (texts, None, "text"),
        (names, None, "text"),  # no such files
        (["long " * 1000 + "name.png"], None, "text"),
        ([*map(str, photos), "and a text"], None, "text"),
        ([*map(str, photos)], None, "image"),
        ([None, *map(str, photos)], None, "image"),
        (names, "pixels", "image"),
        (names, "timm:resnet18", "image"),
        (names, "net.onnx", "image"),
        ([*map(str, photos)], "tfidf", "text"),
        ([*map(str, photos)], "bert", "text"),
        (Items(names, "image", names, np.zeros(3)), None, "image"),
        (Items([*map(str, photos)], "text", [], np.zeros(12)), None, "text"),
    ):
        assert Chunks(items, None, choose.kind_of(model)).kind == kind, (items, model)
    assert len(el.embed(texts, "tfidf")) == 3
    with pytest.raises(el.EverylabelError, match="kind is 'features'"):
        el.embed(Items(np.zeros((2, 2)), "features", ["0", "1"], np.zeros(2)))


@pytest.mark.parametrize("out", [False, True])
def test_leading_broken_chunks_wait_for_the_width(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: bool
) -> None:
    monkeypatch.setattr(images.Pixels, "chunk", 2)
    path = tmp_path / "x.npy" if out else None
    items = [tmp_path / "gone.png", None, float("nan"), *photos[:3], tmp_path / "gone.png"]
    with pytest.warns(EverylabelWarning, match=r"4 of 7 images.*items\[1\], items\[2\]"):
        features = el.embed(items, "pixels", out=path)
    assert features.shape == (7, 3)
    assert np.flatnonzero(np.isnan(features).all(axis=1)).tolist() == [0, 1, 2, 6]


def test_source_without_a_readable_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind:
        key, chunk = "blind", 2

        def encode(self, items: list[Any]) -> np.ndarray:
            return np.empty((len(items), 0), dtype=np.float32)

    monkeypatch.setattr(sys.modules["everylabel.models.embedding.embed"], "choose", lambda *_, **__: Blind())
    for out in (None, tmp_path / "x.npy"):
        with pytest.raises(el.EverylabelError, match=r"3 images and none can be read: .*0\.png"):
            el.embed([tmp_path / f"{i}.png" for i in range(3)], out=out)
    assert not (tmp_path / "x.npy").exists()


def test_new_images_are_embedded_by_the_fitted_encoder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = [PIL.fromarray(rng.integers(0, 255, (20, 24, 3), dtype=np.uint8)) for _ in range(9)]
    features = el.embed(pictures, "pixels", fit_out=tmp_path / "fit.npz", cache=False)
    again = el.embed(pictures[2:4], "pixels", fit=tmp_path / "fit.npz", cache=False)
    np.testing.assert_allclose(again, features[2:4], atol=1e-4)
    assert el.embed(pictures[2:4], "pixels").shape != again.shape
    el.embed(pictures[:1], "pixels", fit_out=tmp_path / "one.npz")  # one image tells no directions
    assert el.embed(pictures[1:2], fit=tmp_path / "one.npz").shape == (1, 3072)
