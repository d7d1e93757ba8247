"""An untrusted project's folder runs no code."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelError
from everylabel.projects.features import word_encoder
from everylabel.projects.files import Trust
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
def test_a_remembered_model_of_this_machine_is_not_loaded_unless_named(tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "texts.csv.everylabel"
    ran = evil(folder / "model", "modules.json")
    model = f"{prefix}{folder / 'model'}"
    sent(tmp_path, model)
    for source in (folder, tmp_path / "texts.csv"):
        with pytest.raises(
            EverylabelError, match=r"remembers the model .* not named by you; expected --model"
        ):
            open_project(source)
    with pytest.raises(EverylabelError, match="brings code of its own"):
        open_project(folder, model=model)
    assert not ran.exists()


@pytest.mark.parametrize(
    "model",
    ["local-dir:{}", "LOCAL-DIR:{}", "local-dir://anybody{}", " local-dir:{}", "local-dir:/no", "//["],
)
def test_a_remembered_folder_of_timm_is_not_loaded_unless_named(tmp_path: Path, model: str) -> None:
    """By whatever way timm reads a name: it splits it as an address."""
    named = f"timm:{model.format(tmp_path)}"
    with pytest.raises(EverylabelError, match="lies on this machine and is not named"):
        Trust().check(named)
    Trust(named).check(named)
    Trust().check("timm:resnet18")
    Trust().check("timm:hf-hub:timm/resnet18.a1_in1k")


def test_features_of_a_remembered_model_need_no_model(tmp_path: Path, minilm: str) -> None:
    folder = sent(tmp_path, minilm)
    named = open_project(folder, model=minilm)
    again = open_project(folder)
    assert (again.features == named.features).all()


def test_a_model_is_named_once_for_a_project_and_again_for_another_folder(
    tmp_path: Path, minilm: str
) -> None:
    folder = sent(tmp_path / "own", minilm)
    open_project(folder, model=minilm)
    changed = "text\na card\nsome money\na house\na new one\n"
    (tmp_path / "own" / "texts.csv").write_text(changed)
    assert len(open_project(folder)) == 4
    shutil.copytree(tmp_path / "own", tmp_path / "copy")  # as if it came from somebody else
    about = json.loads((tmp_path / "copy" / folder.name / "project.json").read_text())
    del about["digest"]
    about["source"] = str(tmp_path / "copy" / "texts.csv")
    (tmp_path / "copy" / folder.name / "project.json").write_text(json.dumps(about))
    (tmp_path / "copy" / "texts.csv").write_text(changed + "another new one\n")
    with pytest.raises(EverylabelError, match="remembers the model"):
        open_project(tmp_path / "copy" / folder.name)
    (tmp_path / "own" / "texts.csv").write_text(changed + "another new one\n")
    (folder / "project.json").write_text(
        json.dumps({**about, "source": str(tmp_path / "own" / "texts.csv"), "id": "0"})
    )
    with pytest.raises(EverylabelError, match="remembers the model"):  # another project in the same place
        open_project(folder)


def test_class_names_are_not_embedded_by_a_model_that_is_not_named(tmp_path: Path, minilm: str) -> None:
    encoder = word_encoder("features", None, minilm, 384, Trust())
    assert encoder is not None
    with pytest.raises(EverylabelError, match="remembers the model"):
        encoder.encode(["a card"])
    named = word_encoder("features", None, minilm, 384, Trust(minilm))
    assert named is not None
    assert named.encode(["a card"]).shape == (1, 384)
    Trust().check("sentence-transformers/any")
    Trust().check("tfidf")


def test_a_source_that_is_embedded_while_it_is_labelled_asks_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "texts.csv.everylabel"
    evil(folder / "model", "modules.json")
    sent(tmp_path, str(folder / "model"))
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"text {i}\n" for i in range(300)))
    with pytest.raises(EverylabelError, match="remembers the model"):
        open_project(folder, begin=lambda _: [])


def test_a_remembered_source_from_elsewhere_is_not_read_unless_named(tmp_path: Path) -> None:
    folder = sent(tmp_path / "theirs", "tfidf")
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\nswordfish\n")
    (tmp_path / "theirs" / "link.csv").symlink_to(secret)
    (tmp_path / "theirs" / "loop.csv").symlink_to("loop.csv")
    for place in (secret, tmp_path / "theirs" / "link.csv", tmp_path / "theirs" / "loop.csv"):
        about = {"source": str(place), "name": "texts.csv", "text_column": "password", "model": "tfidf"}
        (folder / "project.json").write_text(json.dumps(about))
        with pytest.raises(EverylabelError, match=r"remembers the source .* not named by you.*--project"):
            open_project(folder)
    assert not (folder / "features.npy").exists()
    about["source"] = str(secret)
    (folder / "project.json").write_text(json.dumps(about))
    assert len(open_project(folder, private=True, keep=False)) == 2  # shown to nobody
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
    for private in (False, True):
        with pytest.raises(EverylabelError, match=r"remembers the source 'secret\.csv'"):
            open_project(folder, private=private)
    with pytest.raises(EverylabelError, match=r"remembers the source 'secret\.csv'"):
        shards_behind(str(folder))
    np.save(tmp_path / "theirs" / "x.npy", np.eye(2))
    about = {"source": str(tmp_path / "theirs" / "x.npy"), "name": "x.npy", "text_column": "password"}
    for show in ("secret.csv", "../secret.csv", "webhdfs://127.0.0.1:8898/x"):
        (folder / "project.json").write_text(json.dumps({**about, "show": show}))
        for private in (False, True):
            with pytest.raises(EverylabelError, match="remembers the table"):
                open_project(folder, private=private)


def test_moved_project_names_its_new_place(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    np.save(tmp_path / "before" / "x.npy", np.eye(2))
    (tmp_path / "before" / "seen.csv").write_text("text\na\nb\n")
    open_project(tmp_path / "before" / "x.npy", show=tmp_path / "before" / "seen.csv", text_column="text")
    now = (tmp_path / "before").rename(tmp_path / "now")
    with pytest.raises(EverylabelError, match=f"is not there any more .* label {now}/x.npy --project"):
        open_project(now / "x.npy.everylabel")
    with pytest.raises(EverylabelError, match=f"is not there any more .*add --show {now}/seen.csv"):
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
