"""The only file by which the golden tests use the code under test.

Surfaces in use: `open_project` and `opened_server` (the application that `everylabel label` serves), the HTTP
API, and the command `everylabel export`. If one of them moves, adapt this file; the golden logs and expected
results stay as they are.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio.from_thread
from starlette.testclient import TestClient
from typer.testing import CliRunner

from everylabel.cli import app as commands
from everylabel.projects.folder import LogUse
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web.server import one_thread, opened_server
from tests.golden.scripted import restore

HERE = Path(__file__).parent
PROJECTS = sorted(path.parent.name for path in HERE.glob("*/log.jsonl"))
LOG = "labels.sqlite"
CACHES = ("model.mean.npz", "class-names.npz")  # beside the log


def copied(name: str, to: Path) -> Path:
    """Copy a golden project and return its source; a log without a database is restored from its lines."""
    shutil.copytree(HERE / name / "project", to / name)
    (source,) = (path for path in (to / name).iterdir() if (to / name / f"{path.name}.everylabel").exists())
    log = folder_of(source) / LOG
    if not log.exists():
        restore(HERE / name / "log.jsonl", log)
    return source


def folder_of(source: Path) -> Path:
    """Return the folder of a source's project."""
    return source.with_name(f"{source.name}.everylabel")


def forget_caches(source: Path) -> int:
    """Delete all caches; return the number of files."""
    found = [path for pattern in CACHES for path in folder_of(source).glob(pattern)]
    for path in found:
        path.unlink()
    return len(found)


@contextmanager
def opened(source: Path, **how: Any) -> Iterator[TestClient]:
    """Yield a client of a project that is served as the command `everylabel label SOURCE` would.

    how : arguments of `open_project` for a source that was never opened
    """
    project = open_project(source, keep=False, log=LogUse(sample=True), **how)
    opening = opened_server(project, LabelOptions(port=0), _silent, _silent, None)
    with one_thread(), opening as server:
        app: Any = server.server.config.app
        made = TestClient(app, base_url="http://127.0.0.1")
        with anyio.from_thread.start_blocking_portal() as made.portal:  # one thread for all requests
            yield made


def export(source: Path, what: str, out: Path, *more: str) -> str:
    """Return the text that `everylabel export` writes."""
    done = CliRunner().invoke(commands, ["export", str(source), "--what", what, "--out", str(out), *more])
    assert done.exit_code == 0, done.output
    return out.read_text()


def _silent(*_: Any) -> None:
    """Notes are for people."""
