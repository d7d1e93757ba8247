"""Features and options that were changed on disk are reported and never used."""

import json
import random
import stat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from everylabel.log.database import make_file
from everylabel.projects.files import Pieces, read_json, write_json
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project, open_project
from everylabel.web.item_view import Guidelines

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


def told(project: Project) -> list[str]:
    return [note for note in project.notes if "changed on disk" in note]


def test_features_that_changed_are_embedded_again(source: Path) -> None:
    first = opened(source)
    features = np.array(first.features)
    assert told(opened(source)) == []
    for _ in range(2):
        flip(first.folder / "features.npy")
        again = opened(source)
        assert "the items were embedded again" in told(again)[0]
        np.testing.assert_array_equal(again.features, features)  # by what was learned then
        assert told(opened(source)) == []


def test_no_flipped_bit_gives_other_features(source: Path) -> None:
    first = opened(source)
    features, draw = np.array(first.features), random.Random(3)
    whole = {
        name: (first.folder / name).read_bytes() for name in ("features.npy", "features.json", "digests.npy")
    }
    for name in whole:
        for _ in range(12):
            for file, content in whole.items():
                (first.folder / file).write_bytes(content)
            flip(first.folder / name, draw.randrange(len(whole[name])))
            np.testing.assert_allclose(opened(source).features, features)


def test_changed_embedder_file_is_refused(source: Path) -> None:
    folder = opened(source).folder
    flip(folder / "embedder.npz", 200)
    source.write_text("\n".join(["text", *TEXTS, "text nine"]))
    with pytest.raises(EverylabelError, match=r"embedder.npz' has changed on disk.*remove it"):
        opened(source)
    (folder / "embedder.npz").unlink()
    assert len(opened(source)) == 9


def test_options_that_changed_are_reported(source: Path) -> None:
    folder = opened(source).folder
    file = folder / "project.json"
    text = file.read_text()
    file.write_text(text.replace("reviews.csv", "reviewz.csv"))
    with pytest.raises(EverylabelError, match=r"project.json' is damaged: its 'digest' does not match"):
        open_project(folder)
    about = json.loads(text)
    del about["digest"]  # on purpose, or by a version before
    file.write_text(json.dumps(about))
    assert open_project(folder).name == "reviews.csv"


def test_doctor_looks_at_them_too(source: Path) -> None:
    from everylabel.projects.log import open_log

    project = opened(source)
    with open_log(project, LabelOptions(), print):
        pass
    run = CliRunner()
    assert run.invoke(app, ["doctor", str(source)]).exit_code == 0
    for name in ("features.npy", "embedder.npz", "project.json"):
        flip(project.folder / name, 40)
    result = run.invoke(app, ["doctor", str(project.folder)])
    assert result.exit_code == 1
    assert "all whole" in result.output
    for name in ("features.npy", "embedder.npz", "project.json"):
        assert name in result.output


def test_only_the_owner_can_read_the_files(tmp_path: Path, source: Path) -> None:
    for path in opened(source).folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    write_json(tmp_path / "x.json", {"a": 1, "ü": [None, "☃"]})
    assert read_json(tmp_path / "x.json") == {"a": 1, "ü": [None, "☃"]}
    assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o600


def test_files_beside_a_server_are_private(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path, "text", None)
    pieces.add(["0" * 16], np.zeros((1, 2), np.float32))
    pieces.add(["1" * 16], np.zeros((1, 2), np.float32))
    assert len(pieces.read().rows) == 2
    (tmp_path / "say.md").write_text("what to do")
    Guidelines(tmp_path, tmp_path / "say.md").keep()
    for path in (*(tmp_path / "joined").iterdir(), tmp_path / "guidelines.md"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    make_file(tmp_path / "anew" / "labels.sqlite")
    assert stat.S_IMODE((tmp_path / "anew").stat().st_mode) == 0o700
