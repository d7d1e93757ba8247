"""What all commands share: one line and code 2 for an error, 130 after Ctrl-C, the version."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import everylabel
from everylabel.cli import app

COMMANDS = {
    "demo": ["--out", "file"],
    "embed": ["gone.csv", "-o", "x.npy"],
    "label": ["gone.csv", "--no-browser"],
    "simulate": ["gone.csv"],
    "export": ["gone.csv", "-o", "x.csv"],
    "predict": ["gone.csv", "--project", "gone.csv"],
    "reproduce": ["fig9"],
}


def test_every_command_is_here() -> None:
    assert {command.callback.__name__ for command in app.registered_commands if command.callback} == set(
        COMMANDS
    )


@pytest.mark.usefixtures("own_place")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_is_one_line_and_code_2(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder is expected")
    result = CliRunner().invoke(app, [command, *COMMANDS[command]])
    assert result.exit_code == 2
    assert result.stdout == ""
    line, *more = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert not more
    assert CliRunner().invoke(app, [command, "--no-such-option"]).exit_code == 2


def test_an_interrupt_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("everylabel.cli.reproduce._list", interrupted)
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 128 + signal.SIGINT
    assert result.output == ""


def test_the_version() -> None:
    command = [sys.executable, "-m", "everylabel.cli", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == f"everylabel {everylabel.__version__}\n"
