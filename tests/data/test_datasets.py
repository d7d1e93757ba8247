"""load_dataset on small files in the official formats, on the real ones when they are there."""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelWarning
from everylabel.data.datasets import catalog
from everylabel.data.datasets.catalog import CATALOG

RNG = np.random.default_rng(0)


def jpeg(shade: int) -> bytes:
    from PIL import Image as pil

    file = io.BytesIO()
    pil.new("RGB", (20, 24), (shade, 0, 0)).save(file, "JPEG")
    return file.getvalue()


def tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def banking77(folder: Path) -> None:
    rows = 'text,category\n"a card, lost",lost\nwhere is it,late\n'
    (folder / "train.csv").write_text(rows)
    (folder / "test.csv").write_text(rows)


def clinc150(folder: Path) -> None:
    known, odd = [["pay it", "pay"], ["move it", "move"]], [["who am i", "oos"]]
    parts = {"train": known, "val": known, "test": known, "oos_train": odd, "oos_val": odd, "oos_test": odd}
    (folder / "data_full.json").write_text(json.dumps(parts))


def dbpedia(folder: Path) -> None:
    rows = b'1,"E. D. Abbott"," A ""coach"" builder"\n2,"Oslo"," A city, in Norway"\n'
    files = {"classes.txt": b"Company\nPlace\n", "train.csv": rows, "test.csv": rows}
    tar(folder / "dbpedia_csv.tgz", {f"dbpedia_csv/{name}": content for name, content in files.items()})


def cifar10(folder: Path) -> None:
    def batch(first: int) -> bytes:
        return b"".join(bytes([first + i]) + bytes([i] * 1024 + [9] * 1024 + [7] * 1024) for i in range(2))

    files = {f"data_batch_{i}.bin": batch(0) for i in range(1, 6)} | {"test_batch.bin": batch(0)}
    files["batches.meta.txt"] = b"airplane\nautomobile\n\n"
    tar(folder / "cifar-10-binary.tar.gz", {f"cifar-10-batches-bin/{name}": c for name, c in files.items()})


def dtd(folder: Path) -> None:
    names = ["banded/banded_0002.jpg", "dotted/dotted_0001.jpg"]
    files = {f"dtd/images/{name}": jpeg(i * 99) for i, name in enumerate(names)}
    files |= {f"dtd/labels/{part}1.txt": "\n".join(names).encode() for part in ("train", "val", "test")}
    tar(folder / "dtd-r1.0.1.tar.gz", files)


def snacks(folder: Path) -> None:
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for part in ("train", "val", "test"):
            for i, name in enumerate(("apple", "ice cream")):
                archive.writestr(f"data/{part}/{name}/1.jpg", jpeg(i * 99))
                archive.writestr(f"data/{part}/{name}/notes.txt", "no image")


OFFICIAL: dict[str, Callable[[Path], None]] = {
    "banking77": banking77,
    "clinc150": clinc150,
    "dbpedia": dbpedia,
    "cifar10": cifar10,
    "dtd": dtd,
    "snacks": snacks,
}
MODELS = {"banking77": "tfidf", "clinc150": "tfidf", "dbpedia": "tfidf"}


@pytest.fixture(params=OFFICIAL)
def official(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    folder = tmp_path / "files"
    folder.mkdir()
    OFFICIAL[request.param](folder)
    return request.param, folder


def test_every_dataset_is_read_from_its_official_files(official: tuple[str, Path]) -> None:
    name, folder = official
    data = el.load_dataset(name, folder, check=False)
    assert len(data.classes) == 2
    assert list(data.classes) == sorted(data.classes)
    assert set(data.splits) == set(CATALOG[name].sizes)
    assert sorted(set(data.train.labels.tolist())) == [0, 1]
    assert data.train.labels[:2].tolist() == ([1, 0] if name in ("banking77", "clinc150") else [0, 1])
    assert len(data.test.items) == len(data.test) == 2
    again = el.load_dataset(name, folder, check=False)  # unpacked by now
    assert again.train.labels.tolist() == data.train.labels.tolist()
    assert not list(folder.glob("*.part"))


def test_items_become_features_that_are_a_source_again(official: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = official
    model = MODELS.get(name, "pixels")
    data = el.load_dataset(name, folder, features=model, check=False)
    assert data.train.features is not None
    assert len(data.train.features) == len(data.train)
    data.save(tmp_path / f"{name}_{model}.npz")
    for source in (tmp_path, tmp_path / f"{name}_{model}.npz"):
        stored = el.load_dataset(name, source, check=False)
        np.testing.assert_array_equal(stored.train.features, data.train.features)
        assert (stored.kind, stored.classes) == (data.kind, data.classes)
        assert stored.splits.keys() == data.splits.keys()
    with pytest.raises(el.EverylabelError, match="has no items"):
        stored.embed(model)


def test_sizes_and_sums_are_checked(official: tuple[str, Path]) -> None:
    name, folder = official
    message = "has SHA-256" if CATALOG[name].files[0].sha256 else "2 classes; expected"
    with pytest.raises(el.EverylabelError, match=message):
        el.load_dataset(name, folder)


def test_the_cache_folder_is_a_place_for_official_files(cache: Path) -> None:
    home = cache / "datasets" / "clinc150"
    with pytest.raises(el.EverylabelError, match=r"put data_full\.json \(https.*\) into .*clinc150"):
        el.load_dataset("clinc150", download=False)
    home.mkdir(parents=True)
    clinc150(home)
    assert el.load_dataset("Clinc-150", download=False, check=False)["oos_test"].labels.tolist() == [-1]


def test_contents_are_as_they_are_in_the_files(tmp_path: Path) -> None:
    for name in ("dbpedia", "cifar10"):
        (tmp_path / name).mkdir()
        OFFICIAL[name](tmp_path / name)
    assert el.load_dataset("dbpedia", tmp_path, check=False).train.items[0] == 'A "coach" builder'
    pixels = el.load_dataset("cifar10", tmp_path, check=False).train.items
    assert pixels.shape == (10, 32, 32, 3)
    assert pixels[1, 5, 6].tolist() == [1, 9, 7]


def test_digits_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    for file in (catalog.FILE, ("nowhere.csv.gz",)):
        monkeypatch.setattr(catalog, "FILE", file)
        for found, theirs in zip(catalog.read_digits(), load_digits(return_X_y=True), strict=True):
            np.testing.assert_array_equal(found, theirs)
            assert found.dtype == theirs.dtype


def test_digits_ship() -> None:
    data = el.load_dataset("digits")
    assert repr(data) == "Dataset('digits', 10 classes: train 1297, test 500)"
    assert data.train.features is not None
    assert data.test.features is not None
    mean = el.fit_map(data.train.features, data.train.labels, 10)
    probs = el.predict_proba(el.laplace(mean, data.train.features), data.test.features)
    assert np.mean(np.argmax(probs, 1) == data.test.labels) > 0.93
    assert data.train.items.shape == (1297, 8, 8, 3)


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(el.EverylabelError, match="name is 'mnist'; expected one of cifar10"):
        el.load_dataset("mnist")
    with pytest.raises(el.EverylabelError, match=r"has no dtd; expected in it one of dtd\*\.npz, dtd-r1"):
        el.load_dataset("dtd", tmp_path)
    data = el.load_dataset("digits")
    with pytest.raises(el.EverylabelError, match="split is 'val'; digits has train, test"):
        data.val  # noqa: B018
    x = np.zeros((2, 3), np.float16)
    bad = [
        ({"X_train": x}, "holds X_train; expected"),
        ({"X_train": x, "y_train": np.arange(3), "classes": ["a"]}, r"y_train \(3,\)"),
        ({"X_train": x, "y_train": np.array([0, 5]), "classes": ["a"]}, "labels 0 to 5 in y_train"),
    ]
    for arrays, message in bad:
        np.savez(tmp_path / "dtd.npz", **arrays)  # type: ignore[arg-type]
        with pytest.raises(el.EverylabelError, match=message):
            el.load_dataset("dtd", tmp_path)
    np.savez(tmp_path / "dtd2.npz", X_train=x)
    with pytest.raises(el.EverylabelError, match=r"dtd\.npz, dtd2\.npz; pass one file"):
        el.load_dataset("dtd", tmp_path)
    (tmp_path / "dtd2.npz").write_bytes(b"PK nothing")
    with pytest.raises(el.EverylabelError, match="damaged"):
        el.load_dataset("dtd", tmp_path / "dtd2.npz")


def test_the_classes_of_features_are_counted(tmp_path: Path) -> None:
    for k in (46, 47, 48):
        x, y, classes = np.zeros((2, 3)), np.zeros(2, int), np.arange(k).astype(str)
        np.savez(tmp_path / f"{k}.npz", X_train=x, y_train=y, classes=classes)
        assert len(el.load_dataset("dtd", tmp_path / f"{k}.npz", check=False).classes) == k
    assert len(el.load_dataset("dtd", tmp_path / "47.npz").classes) == 47
    with pytest.warns(EverylabelWarning, match="46 classes and dtd 47: it is a subset"):
        el.load_dataset("dtd", tmp_path / "46.npz")
    with pytest.raises(el.EverylabelError, match="48 classes and dtd 47; expected features of dtd"):
        el.load_dataset("dtd", tmp_path / "48.npz")


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("clinc150", "data_full.json", b'{"train": []}', "is not Clinc-150's"),
        ("banking77", "test.csv", b"a,b\n1,2\n", "column 'text' is not in"),
        ("dbpedia", "dbpedia_csv.tgz", b"no archive", "cannot be unpacked"),
        ("snacks", "images.zip", b"no archive", "cannot be unpacked"),
    ],
)
def test_damaged_official_files_are_named(
    tmp_path: Path, name: str, file: str, content: bytes, message: str
) -> None:
    OFFICIAL[name](tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(el.EverylabelError, match=message):
        el.load_dataset(name, tmp_path, check=False)
    assert not list(tmp_path.glob("*.part"))


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tar(tmp_path / "in" / "dbpedia_csv.tgz", {"../../evil.txt": b"x"})
    with pytest.raises(el.EverylabelError, match="cannot be unpacked"):
        el.load_dataset("dbpedia", tmp_path / "in", check=False)
    assert not (tmp_path / "evil.txt").exists()


SIZES = {
    "clinc150": (150, 15000, 4500, 384),
    "banking77": (77, 10003, 3080, 384),
    "dbpedia": (14, 18893, 4900, 384),
    "cifar10": (10, 20000, 5000, 384),
    "dtd": (10, 800, 400, 1280),
}


@pytest.mark.parametrize("name", SIZES)
def test_real_features(name: str, real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYLABEL_DATA", str(real_data))
    subset = pytest.warns(EverylabelWarning, match="10 classes and dtd 47: it is a subset")
    with subset if name == "dtd" else nullcontext():
        data = el.load_dataset(name, download=False)
    assert data.train.features is not None
    sizes = len(data.classes), len(data.train), len(data.test), data.train.features.shape[1]
    assert sizes == SIZES[name]


@pytest.mark.parametrize("name", ["banking77", "clinc150"])
def test_real_official_files_have_the_labels_of_the_features(name: str, real_data: Path) -> None:
    texts, stored = el.load_dataset(name, real_data / "official"), el.load_dataset(name, real_data)
    assert texts.classes == stored.classes
    for part, split in texts.splits.items():
        assert split.labels.tolist() == stored[part].labels.tolist()
        assert all(isinstance(item, str) for item in split.items)
