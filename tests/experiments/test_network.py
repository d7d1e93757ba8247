"""Experiments in which a network is retrained: on a few images, and on texts with a tiny encoder."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from everylabel.experiments import data as datasets
from everylabel.experiments import network
from everylabel.experiments.data import Data, available, load
from everylabel.experiments.engine import Cell, cells_of
from everylabel.experiments.network import (
    EXACT,
    LAST,
    NONE,
    PAPER,
    WHOLE,
    NetworkBatches,
    NetworkIntervals,
    NetworkUpdates,
)
from everylabel.experiments.selecting import CHOOSERS
from everylabel.experiments.updating import Stages

pytest.importorskip("torch", reason="needs the extra everylabel[torch]")
CLASSES = 4


def write_images(folder: Path, n: int = 300) -> np.ndarray:
    """Write files as those of Fashion-MNIST: a class is the place of a bright square; return the labels."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part, size in (("train", n), ("t10k", 80)):
        labels = rng.integers(CLASSES, size=size)
        images = rng.integers(0, 150, (size, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[14 * (label // 2) :, 14 * (label % 2) :][:14, :14] += 80
        for kind, array in (("images", images), ("labels", labels)):
            magic = bytes([0, 0, 8, array.ndim])
            shape = np.array(array.shape, ">i4").tobytes()
            raw = gzip.compress(magic + shape + array.astype(np.uint8).tobytes())
            (folder / f"{part}-{kind}-idx{array.ndim}-ubyte.gz").write_bytes(raw)
    return labels


@pytest.fixture(autouse=True)
def _no_installed_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "SYSTEM", tmp_path / "nothing")


@pytest.fixture
def images(tmp_path: Path) -> Data:
    write_images(tmp_path / "fashion-mnist")
    return load("fashion-mnist", str(tmp_path))


def cell(data: Data, grid: str, part: str = "") -> Cell:
    return Cell(grid, data.name, 0, "fast", part)


def test_files_of_fashion_mnist_are_read(tmp_path: Path) -> None:
    labels = write_images(tmp_path / "fashion-mnist")
    assert available(str(tmp_path)) == ["digits", "fashion-mnist"]
    data = load("fashion-mnist", str(tmp_path))
    assert (data.x.shape, data.test_x.shape, data.n_classes) == ((300, 1, 28, 28), (80, 1, 28, 28), CLASSES)
    assert 0.0 <= data.x.min() < data.x.max() <= 1.0
    np.testing.assert_array_equal(np.sort(data.test_y), np.sort(labels))
    bright = data.test_x[:, 0].reshape(-1, 2, 14, 2, 14).mean(axis=(2, 4)).reshape(-1, 4)
    np.testing.assert_array_equal(bright.argmax(axis=1), data.test_y)  # labels stay with their images


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EverylabelError, match="dataset-fashion-mnist"):
        load("fashion-mnist", str(tmp_path))
    write_images(tmp_path / "fashion-mnist")
    (tmp_path / "fashion-mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"no")
    with pytest.raises(EverylabelError, match="cannot be read"):
        load("fashion-mnist", str(tmp_path))


def test_experiments_on_items_and_on_features_are_kept_apart(images: Data) -> None:
    cells = cells_of([Stages(), NetworkUpdates()], [load("digits", ""), images], 1, "fast")
    assert [(c.experiment, c.dataset) for c in cells] == [
        ("stages", "digits"),
        ("network-updates", "fashion-mnist"),
    ]


def test_every_way_of_learning_new_labels_is_measured(images: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkUpdates, "first", 12)
    monkeypatch.setattr(NetworkUpdates, "sizes", (4, 60))
    rows = NetworkUpdates().run(cell(images, "network-updates"), images)
    found = {(row.variant, row.x): row.value for row in rows if row.metric == "accuracy"}
    assert set(found) == {(how, x) for how in (NONE, PAPER, EXACT, LAST, WHOLE) for x in (4, 60)}
    assert found[NONE, 4] == found[NONE, 60]
    assert min(found[how, 60] for how in (EXACT, WHOLE)) > found[NONE, 60]
    assert {row.metric for row in rows} == {"accuracy", "seconds"}
    again = NetworkUpdates().run(cell(images, "network-updates"), images)
    assert [row for row in again if row.metric == "accuracy"] == [
        row for row in rows if row.metric == "accuracy"
    ]


@pytest.mark.parametrize("strategy", ["random", "Badge with updates", "herding"])
def test_batches_are_chosen_by_the_retrained_network(
    images: Data, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NetworkBatches, "cycles", 2)
    rows = NetworkBatches().run(cell(images, "network-batches", strategy), images)
    assert [row.x for row in rows] == [20, 40, 60]
    assert rows[-1].value > 1 / CLASSES
    assert set(NetworkBatches.strategies) <= set(CHOOSERS)


@pytest.mark.parametrize("how", [PAPER, EXACT, NONE])
def test_network_is_retrained_as_often_as_its_interval_says(
    images: Data, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NetworkIntervals, "n", 20)
    fits: list[int] = []
    fit = network.Network.fit

    def counted(self: network.Network, idx: np.ndarray) -> network.State:
        fits.append(len(set(idx.tolist())))
        return fit(self, idx)

    monkeypatch.setattr(network.Network, "fit", counted)
    rows = NetworkIntervals().run(cell(images, "network-intervals", f"every 10, {how}"), images)
    assert fits == [20, 30, 40]  # of different items each time
    assert [row.x for row in rows] == [20, 25, 30, 35, 40]
    if how == NONE:
        assert rows[0].value == rows[1].value  # nothing is learned in between


def test_texts_are_learned_by_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    from tests.models.tiny import some_texts, tiny_bert

    place = tmp_path / "made"
    place.mkdir()
    Path(tiny_bert(place)).rename(tmp_path / "encoder")
    texts, labels = some_texts(120)
    lines = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    data = load("texts", str(tmp_path))
    assert (len(data.x), len(data.test_x), data.n_classes) == (80, 40, 2)
    monkeypatch.setattr(NetworkUpdates, "first", 20)
    monkeypatch.setattr(NetworkUpdates, "sizes", (10,))
    rows = NetworkUpdates().run(cell(data, "network-updates"), data)
    assert [row.variant for row in rows if row.metric == "accuracy"] == [NONE, PAPER, EXACT, LAST, WHOLE]
    assert all(0 <= row.value <= 1 for row in rows if row.metric == "accuracy")


def test_command_runs_them_and_the_report_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkUpdates, "first", 12)
    monkeypatch.setattr(NetworkUpdates, "sizes", (4, 8))
    monkeypatch.setattr(NetworkBatches, "cycles", 1)
    monkeypatch.setattr(NetworkBatches, "strategies", ("random", "margin"))
    monkeypatch.setattr(NetworkIntervals, "n", 10)
    monkeypatch.setattr(NetworkIntervals, "every", (10,))
    write_images(tmp_path / "fashion-mnist")
    options = [
        "--data",
        str(tmp_path),
        "--fast",
        "--reps",
        "2",
        "--jobs",
        "1",
        "--report",
        str(tmp_path / "r"),
    ]
    options += ["--results", str(tmp_path / "r.sqlite"), "--dataset", "fashion-mnist"]
    done = CliRunner().invoke(app, ["reproduce", *options])
    assert done.exit_code == 0, done.output
    readme = (tmp_path / "r" / "README.md").read_text()
    for title in (NetworkUpdates.title, NetworkBatches.title, NetworkIntervals.title):
        assert f"## {title}" in readme
    assert "seconds of processor time" in readme
    done = CliRunner().invoke(app, ["reproduce", "fig3", *options])
    assert done.exit_code == 2
    assert "nothing to run" in " ".join(done.output.split())
