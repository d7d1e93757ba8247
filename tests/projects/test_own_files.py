"""Links in an untrusted project's folder are refused before anything is read."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.projects.files import check_own_files
from everylabel.projects.project import open_project

OURS = (
    *("project.json", "features.npy", "features.json", "embedder.npz", "digests.npy", "joined.rows"),
    *("joined", "joined/1.npz"),
    *("labels.sqlite", "labels.sqlite.lock", "labels.sqlite-wal", "model.kept.npz", "ledger.kept.npz"),
    *("guidelines.md", "next", "next/features.npy"),
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.csv").write_text("text\na card\nsome money\na house\n")
    (tmp_path / "t.csv.everylabel").mkdir()
    (tmp_path / "thesis").write_text("years of work")
    (tmp_path / "thesis").chmod(0o644)
    return tmp_path / "t.csv"


def link(source: Path, name: str) -> Path:
    path = Path(f"{source}.everylabel") / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(source.parent / "thesis")
    return path


@pytest.mark.parametrize("name", OURS)
def test_no_file_of_the_user_is_written_through_a_link(source: Path, name: str) -> None:
    linked = link(source, name)
    before = sorted(path.name for path in linked.parent.iterdir())
    for command in (
        ["label", "--no-browser", "--model", "tfidf"],
        ["export", "-o", "out.csv"],
        ["doctor"],
        ["backup"],
    ):
        done = CliRunner().invoke(app, [command[0], str(source), *command[1:]])
        assert done.exit_code == 2, done.output
        assert f"'{linked}' is a link or no plain file" in done.output.replace("\n", "")
    assert (source.parent / "thesis").read_text() == "years of work"
    assert (source.parent / "thesis").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in linked.parent.iterdir()) == before


def test_a_pipe_in_the_folder_is_refused_and_not_waited_for(source: Path) -> None:
    os.mkfifo(f"{source}.everylabel/project.json")
    with pytest.raises(EverylabelError, match="no plain file"):
        open_project(source, model="tfidf")


def test_the_folder_itself_may_be_a_link(source: Path) -> None:
    folder = Path(f"{source}.everylabel")
    folder.rmdir()
    (source.parent / "elsewhere").mkdir()
    folder.symlink_to(source.parent / "elsewhere")
    assert len(open_project(source, model="tfidf")) == 3
    assert (source.parent / "elsewhere" / "project.json").exists()


def test_only_a_path_of_the_users_own_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    for name in ("own", "project"):
        (tmp_path / name).symlink_to(tmp_path / "thesis")
    write_atomically(tmp_path / "project", lambda file: file.write(b"new"))
    assert (tmp_path / "thesis").read_text() == "years of work"
    assert not (tmp_path / "project").is_symlink()
    write_atomically(tmp_path / "own", lambda file: file.write(b"new"), follow=True)
    assert (tmp_path / "thesis").read_text() == "new"


def test_an_editor_s_lock_file_is_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".#guidelines.md").symlink_to("anna@host.1234:5678")
    check_own_files(tmp_path)
