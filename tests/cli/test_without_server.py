"""Commands import only what they need: no server, which takes a second to import, and no shards."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from everylabel.projects.log import Label, bring_up_to_date, project_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project

COMMANDS = """
--help
label --help
export {folder} -o {out}/labels.csv
export {folder} --what predictions -o {out}/predictions.jsonl
export {folder} --what answers --format labelstudio -o {out}/tasks.json
predict {new} --project {folder} -o {out}/new.csv
simulate {new} --label-column y --budget 2
"""
CODE = """
import sys
from everylabel.cli import app
for line in sys.stdin.read().split("\\n"):
    app(line.split(), standalone_mode=False)
    shards = ["everylabel.scale." + name for name in ("project", "jobs", "features")]
    loaded = [name for name in ("fastapi", "starlette", "uvicorn", *shards) if name in sys.modules]
    if loaded:
        sys.exit(f"{line} loaded {loaded}")
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project with labels of two classes."""
    place = tmp_path_factory.mktemp("project")
    rng = np.random.default_rng(0)
    np.savez(place / "x.npz", X=rng.normal(size=(30, 4)), y=np.arange(30) % 2)
    project = open_project(place / "x.npz", classes=["a", "b"])
    labels = [Label(project.ids[i], "ab"[i % 2]) for i in range(10)]
    with project_log(project, None, write=True) as store:
        bring_up_to_date(store, project, LabelOptions(labels=labels), print)
    return project.folder


def test_no_server_is_loaded(folder: Path, tmp_path: Path) -> None:
    lines = COMMANDS.strip().format(folder=folder, out=tmp_path, new=folder.with_suffix(""))
    command = [sys.executable, "-c", CODE]
    result = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(list(tmp_path.iterdir())) == 4  # the files that were written
