"""Files of a project are private; features that changed on disk are never used."""

import stat
from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.log.database import make_file
from everylabel.projects.features import Pieces
from everylabel.projects.log import open_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project, open_project
from everylabel.web.item_view import keep_guidelines

TEXTS = [f"text {word}" for word in ("one", "two", "three", "four", "five", "six", "seven", "eight")]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(["text", *TEXTS]))
    return path


def opened(source: Path) -> Project:
    return open_project(source, text_column="text", model="tfidf")


def flip(path: Path, at: int = -9) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def test_features_that_changed_are_refused(source: Path) -> None:
    project = opened(source)
    features = np.array(project.features)
    with open_log(project, LabelOptions(), print):
        pass
    flip(project.folder / "features.npy")
    with (
        pytest.raises(EverylabelError, match=r"are not those that were labelled on.*remove features\.npy"),
        open_log(opened(source), LabelOptions(), print),
    ):
        pass
    (project.folder / "features.npy").unlink()
    again = opened(source)
    np.testing.assert_array_equal(again.features, features)  # by what was learned then
    with open_log(again, LabelOptions(), print):
        pass


def test_changed_embedder_file_is_refused(source: Path) -> None:
    folder = opened(source).folder
    flip(folder / "embedder.npz", (folder / "embedder.npz").stat().st_size // 2)
    source.write_text("\n".join(["text", *TEXTS, "text nine"]))
    with pytest.raises(EverylabelError, match=r"embedder.npz"):
        opened(source)
    (folder / "embedder.npz").unlink()
    assert len(opened(source)) == 9


def test_only_the_owner_can_read_the_files(source: Path) -> None:
    for path in opened(source).folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_files_beside_a_server_are_private(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path, "text", None)
    pieces.add(["0" * 16], np.zeros((1, 2), np.float32))
    pieces.add(["1" * 16], np.zeros((1, 2), np.float32))
    assert len(pieces.read().rows) == 2
    keep_guidelines(tmp_path, "what to do")
    for path in (*(tmp_path / "joined").iterdir(), tmp_path / "guidelines.md"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    make_file(tmp_path / "anew" / "labels.sqlite")
    assert stat.S_IMODE((tmp_path / "anew").stat().st_mode) == 0o700
