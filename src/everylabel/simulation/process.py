"""A real server process on this machine, for a project whose labels it is not told."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.projects.files import Remembered, remember, remembered
from everylabel.projects.project import Project

READY = "everylabel is ready: "
PATIENCE = 10  # seconds to stop in


@contextmanager
def server_process(project: Project, arguments: Sequence[str] = ()) -> Iterator[str]:
    """Yield the address of a new server of the project, in a process of its own; stop it afterwards."""
    about = hide_labels(project)
    command = [sys.executable, "-m", "everylabel.cli", "label", about.source, *_trusted(project, about)]
    options = ["--project", str(project.folder), "--port", "0", "--no-browser", *arguments]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=told, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(READY):
                process.wait()
                told.seek(0)
                reason = told.read().decode(errors="replace").rpartition("error:")[2].strip()
                raise EverylabelError(f"the server did not start: {reason}")
            yield line.removeprefix(READY).strip()
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _trusted(project: Project, about: Remembered) -> list[str]:
    """Return the arguments that name what was named to us: the model, and the table that is shown."""
    model, code = project.trust
    named = {"--model": model, "--show": about.options.show}
    arguments = [part for name, value in named.items() if value is not None for part in (name, value)]
    return [*arguments, "--trust-model-code"] if code else arguments


def hide_labels(project: Project) -> Remembered:
    """Have the project's folder know the names of the classes, and nothing of who is in which."""
    about = remembered(project.folder)
    if about is None:
        raise EverylabelError(f"folder {str(Path(project.folder))!r} is of no project")
    about = about._replace(options=replace(about.options, label_column=None, classes=tuple(project.classes)))
    remember(project.folder, about)
    return about
