"""Files are written in place of a link, not through it, unless the user names the path."""

from pathlib import Path

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.projects.project import open_project


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.csv").write_text("text\na card\nsome money\na house\n")
    (tmp_path / "t.csv.everylabel").mkdir()
    (tmp_path / "thesis").write_text("years of work")
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    "name", ["project.json", "features.npy", "features.json", "embedder.npz", "digests.npy"]
)
def test_no_file_of_the_user_is_written_through_a_link(source: Path, name: str) -> None:
    linked = Path(f"{source}.everylabel") / name
    linked.symlink_to(source.parent / "thesis")
    if name == "project.json":  # it is damaged, so nothing is written
        with pytest.raises(EverylabelError, match="is damaged"):
            open_project(source, model="tfidf")
    else:
        assert len(open_project(source, model="tfidf")) == 3
        assert not linked.is_symlink()
    assert (source.parent / "thesis").read_text() == "years of work"


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
    write_atomically(tmp_path / "own", lambda file: file.write(b"new"), follow_links=True)
    assert (tmp_path / "thesis").read_text() == "new"
