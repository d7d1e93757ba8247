"""An untrusted project's folder runs no code."""

import json
from pathlib import Path

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelError
from everylabel.projects.folder import LogUse
from everylabel.projects.log import class_names_of
from everylabel.projects.project import open_project
from everylabel.scale import filesystem
from everylabel.scale.manifest import shards_behind
from tests.fixtures import cache, minilm

__all__ = ["cache", "minilm"]
MODULE = "import pathlib\npathlib.Path({place!r}).write_text('run')\n"


def evil(folder: Path, settings: str) -> Path:
    """Make a model's folder that refers to code, and return the file that the code would write."""
    folder.mkdir(parents=True)
    ran = folder.parent / "ran"
    (folder / "attack.py").write_text(MODULE.format(place=str(ran)))
    if settings == "modules.json":
        modules = [{"idx": 0, "name": "0", "path": "", "type": "attack.Attack"}]
        (folder / settings).write_text(json.dumps(modules))
    else:
        auto_map = {"AutoConfig": "attack.Attack", "AutoModel": "attack.Attack"}
        (folder / settings).write_text(json.dumps({"model_type": "attack", "auto_map": auto_map}))
    return ran


def sent(tmp_path: Path, model: str) -> Path:
    """Return the folder of a project that remembers a model."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "texts.csv").write_text("text\na card\nsome money\na house\n")
    folder = tmp_path / "texts.csv.everylabel"
    folder.mkdir(exist_ok=True)
    about = {
        "source": str(tmp_path / "texts.csv"),
        "name": "texts.csv",
        "text_column": "text",
        "model": model,
    }
    (folder / "project.json").write_text(json.dumps(about))
    return folder


@pytest.mark.parametrize(("prefix", "settings"), [("", "modules.json"), ("cls:", "config.json")])
def test_a_model_with_code_of_its_own_is_refused_unless_trusted(
    tmp_path: Path, prefix: str, settings: str
) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    ran = evil(tmp_path / "model", settings)
    model = f"{prefix}{tmp_path / 'model'}"
    with pytest.raises(EverylabelError, match=r"code of its own.*attack\.py.*--trust-model-code"):
        el.embed(["a text"], model)
    (tmp_path / "model" / "attack.py").rename(tmp_path / "model" / "attack")  # what leads to it is enough
    with pytest.raises(EverylabelError, match=rf"code of its own.*{settings}"):
        el.embed(["a text"], model)
    assert not ran.exists()
    (tmp_path / "model" / "attack").rename(tmp_path / "model" / "attack.py")
    with pytest.raises((EverylabelError, AttributeError)):  # it is no model, but it was let run
        el.embed(["a text"], model, trust_model_code=True)
    assert ran.exists()


@pytest.mark.parametrize("prefix", ["", "st:", "cls:"])
def test_a_remembered_model_with_code_is_not_loaded(tmp_path: Path, prefix: str) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    folder = tmp_path / "texts.csv.everylabel"
    ran = evil(folder / "model", "modules.json")
    model = f"{prefix}{folder / 'model'}"
    sent(tmp_path, model)
    for source in (folder, tmp_path / "texts.csv"):
        with pytest.raises(EverylabelError, match="brings code of its own"):
            open_project(source)
    with pytest.raises(EverylabelError, match="brings code of its own"):
        open_project(folder, model=model)
    np.save(tmp_path / "features.npy", np.ones((2, 384), np.float32))
    encoder = class_names_of(open_project(tmp_path / "features.npy", model=model)).encoder
    assert encoder is not None
    with pytest.raises(EverylabelError, match="brings code of its own"):
        encoder.encode(["a card"])
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"text {i}\n" for i in range(300)))
    with pytest.raises(EverylabelError, match="brings code of its own"):
        open_project(folder, log=LogUse(sample=True))  # embedded while it is labelled
    assert not ran.exists()


def test_features_of_a_remembered_model_need_no_model(tmp_path: Path, minilm: str) -> None:
    folder = sent(tmp_path, minilm)
    named = open_project(folder, model=minilm)
    again = open_project(folder)
    assert (again.features == named.features).all()


def test_a_remembered_source_from_elsewhere_is_not_read_unless_named(tmp_path: Path) -> None:
    folder = sent(tmp_path / "theirs", "tfidf")
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\nswordfish\n")
    (tmp_path / "theirs" / "link.csv").symlink_to(secret)
    for place in (secret, tmp_path / "theirs" / "link.csv"):
        about = {"source": str(place), "name": "texts.csv", "text_column": "password", "model": "tfidf"}
        (folder / "project.json").write_text(json.dumps(about))
        with pytest.raises(EverylabelError, match=r"remembers the source .* not named by you.*--project"):
            open_project(folder)
    assert not (folder / "features.npy").exists()
    about["source"] = str(secret)
    (folder / "project.json").write_text(json.dumps(about))
    assert len(open_project(folder, reading=True, keep=False)) == 2  # shown to nobody
    assert len(open_project(secret, folder=folder)) == 2


@pytest.mark.parametrize("address", ["webhdfs://127.0.0.1:8898/x", "ftp://u:p@127.0.0.1/x", "memory://x"])
def test_a_remembered_address_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(filesystem, "_files", lambda _: pytest.fail("it was called"))
    folder = sent(tmp_path, "tfidf")
    (folder / "project.json").write_text(json.dumps({"source": address, "name": "x"}))
    for opens in (open_project, lambda place: shards_behind(str(place))):
        with pytest.raises(EverylabelError, match=r"remembers the source .* not named by you"):
            opens(folder)


def test_a_remembered_path_from_where_the_command_is_run_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's folder cannot know where it is opened: what is no full path is a dataset, or refused."""
    monkeypatch.chdir(tmp_path)
    Path("secret.csv").write_text("password\nhunter2\nswordfish\n")
    folder = sent(tmp_path / "theirs", "tfidf")
    (folder / "project.json").write_text(json.dumps({"source": "secret.csv", "name": "texts.csv"}))
    for reading in (False, True):
        with pytest.raises(EverylabelError, match=r"remembers the source 'secret\.csv'"):
            open_project(folder, reading=reading)
    with pytest.raises(EverylabelError, match=r"remembers the source 'secret\.csv'"):
        shards_behind(str(folder))
    np.save(tmp_path / "theirs" / "x.npy", np.eye(2))
    about = {"source": str(tmp_path / "theirs" / "x.npy"), "name": "x.npy", "text_column": "password"}
    for show in ("secret.csv", "../secret.csv", "webhdfs://127.0.0.1:8898/x"):
        (folder / "project.json").write_text(json.dumps({**about, "show": show}))
        for reading in (False, True):
            with pytest.raises(EverylabelError, match="remembers the table"):
                open_project(folder, reading=reading)


def test_moved_project_asks_for_its_new_place(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    np.save(tmp_path / "before" / "x.npy", np.eye(2))
    (tmp_path / "before" / "seen.csv").write_text("text\na\nb\n")
    open_project(tmp_path / "before" / "x.npy", show=tmp_path / "before" / "seen.csv", text_column="text")
    now = (tmp_path / "before").rename(tmp_path / "now")
    with pytest.raises(EverylabelError, match=f"no longer exists.*its new path and --project {now}/x.npy"):
        open_project(now / "x.npy.everylabel")
    with pytest.raises(EverylabelError, match=r"remembers the table .*add --show"):
        open_project(now / "x.npy")
    assert open_project(now / "x.npy", show=now / "seen.csv").kind == "text"


def test_a_remembered_table_to_show_from_elsewhere_is_not_read_unless_named(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    np.save(tmp_path / "theirs" / "x.npy", np.eye(2))
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\nswordfish\n")
    source = tmp_path / "theirs" / "x.npy"
    open_project(source, show=secret, text_column="password")
    for again in (source, Path(f"{source}.everylabel")):
        with pytest.raises(EverylabelError, match=r"remembers the table .*add --show .*secret\.csv"):
            open_project(again)
    assert open_project(source, show=secret).kind == "text"
    (tmp_path / "theirs" / "seen.csv").write_text(secret.read_text())
    open_project(source, show=tmp_path / "theirs" / "seen.csv")
    assert open_project(source).kind == "text"
