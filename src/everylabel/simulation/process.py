"""A real server process on this machine, for a project with its labels hidden."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import class_names_in
from everylabel.projects.folder import Remembered, remember, remembered
from everylabel.projects.project import Project

READY = "everylabel is ready: "
PATIENCE = 10  # seconds to stop


@contextmanager
def server_process(project: Project, arguments: Sequence[str] = ()) -> Iterator[str]:
    """Yield the address of a new server process for the project; stop it afterwards."""
    about = hide_labels(project)
    command = [sys.executable, "-m", "everylabel.cli", "label", about.source, *_named(project, about)]
    options = ["--project", str(project.folder), "--port", "0", "--no-browser", *arguments]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(READY):
                process.wait()
                errors.seek(0)
                reason = errors.read().decode(errors="replace").rpartition("error:")[2].strip()
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


def _named(project: Project, about: Remembered) -> list[str]:
    """Return the arguments that a project does not remember, or that must be named again."""
    shown = [] if about.options.show is None else ["--show", about.options.show]
    return [*shown, "--trust-model-code"] if project.trust_code else shown


def hide_labels(project: Project) -> Remembered:
    """Keep the names of the classes in the project's folder, but not its column of labels."""
    about = remembered(project.folder)
    if about is None:
        raise EverylabelError(f"folder {str(Path(project.folder))!r} is not a project")
    several = about.options.label_separator is not None
    names = tuple(class_names_in(project.classes) if several else project.classes)
    about = about._replace(options=replace(about.options, label_column=None, classes=names))
    remember(project.folder, about)
    return about
