"""Make the golden projects and their expected results.

    python -m tests.golden.make logs FIRST SECOND    write the projects; checkouts of 0.1 (commit 1d83236) and
                                                     0.2 (commit 288075a)
    python -m tests.golden.make expected             write their results, by the code of this checkout

Each version writes its logs with its own code (`first.py`, `second.py`). Rewrite the results only where a
change of behaviour is intended, and read the diff.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.golden.looks import results
from tests.golden.opened import CACHES, HERE, LOG, PROJECTS
from tests.golden.scripted import dump, restore, rows

WITH_DATABASE = ("first", "page")  # the others are kept as lines only


def logs(**checkouts: Path) -> None:
    """Make all projects in a temporary folder, and copy them here."""
    with tempfile.TemporaryDirectory() as made:
        for script, checkout in checkouts.items():
            path = os.pathsep.join([str(checkout.absolute() / "src"), str(HERE.parents[1])])
            command = [sys.executable, "-m", f"tests.golden.{script}", made]
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
        for folder in sorted(Path(made).iterdir()):
            take(folder)


def take(made: Path) -> None:
    """Copy a project here: its files without caches, its log as lines, and for two of them the database."""
    (about,) = (made / "project").glob("*.everylabel")
    log = about / LOG
    dump(log, made / "log.jsonl")
    again = made / "again.sqlite"
    restore(made / "log.jsonl", again)
    assert rows(again) == rows(log)
    again.unlink()
    for pattern in (*CACHES, "*.lock", "*-wal", "*-shm"):
        for path in about.glob(pattern):
            path.unlink()
    if made.name not in WITH_DATABASE:
        log.unlink()
    shutil.rmtree(HERE / made.name, ignore_errors=True)
    shutil.copytree(made, HERE / made.name)


def expected() -> None:
    """Write the results of the current code for each project."""
    for name in PROJECTS:
        with tempfile.TemporaryDirectory() as place:
            found = results(name, Path(place))
        (HERE / name / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["logs"]:
        logs(first=Path(sys.argv[2]), second=Path(sys.argv[3]))
    elif sys.argv[1:] == ["expected"]:
        expected()
    else:
        print(__doc__)
