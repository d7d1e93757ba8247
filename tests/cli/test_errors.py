"""Behaviour of all commands: one line and code 2 for an error, 130 after Ctrl-C, the version."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import everylabel
from everylabel.cli import app, console

COMMANDS = {
    "demo": ["--out", "file"],
    "embed": ["gone.csv", "-o", "x.npy"],
    "label": ["gone.csv", "--no-browser"],
    "label-studio": ["--url", "http://127.0.0.1:9", "--token", "t", "--project", "7", "--port", "0"],
    "simulate": ["gone.csv"],
    "export": ["gone.csv", "-o", "x.csv"],
    "doctor": ["gone.csv"],
    "backup": ["gone.csv"],
    "predict": ["gone.csv", "--project", "gone.csv"],
    "reproduce": ["fig9"],
    "compare": ["gone.csv"],
    "suggest": [
        "gone.csv",
        "--endpoint",
        "http://127.0.0.1:9",
        "--model",
        "m",
        "-o",
        "x.jsonl",
        "--classes",
        "a,b",
    ],
}


def test_every_command_is_here() -> None:
    there = {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert {name.replace("_", "-") for name in there} == set(COMMANDS)


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


WHILE_LOADING = """
import runpy, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
runpy.run_module("everylabel.cli", run_name="__main__")
"""


def _run(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, "label", "digits", "--no-browser", "--port", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("own_place")
def test_an_interrupt_while_a_command_is_loaded_is_quiet() -> None:
    done = _run(WHILE_LOADING)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_version() -> None:
    command = [sys.executable, "-m", "everylabel.cli", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == f"everylabel {everylabel.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_every_option_whole_at_80_columns(command: str) -> None:
    from typer.main import get_command

    told = CliRunner().invoke(app, [command, "--help"], terminal_width=80, color=False).output
    found = get_command(app).commands[command]  # type: ignore[attr-defined]
    options = [name for option in found.params for name in option.opts if name.startswith("--")]
    assert [name for name in options if name not in told] == []
    assert max(map(len, told.splitlines())) <= 80


def test_help_lists_every_strategy() -> None:
    from everylabel.cli.options import STRATEGIES as told
    from everylabel.labelling.views import OFFERED

    assert told.replace(" or ", ", ").split(", ") == OFFERED


def test_a_port_in_use_is_reported_before_anything_is_embedded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("body\nsome words\nother words\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["label", str(tmp_path / "a.csv"), "--port", str(port)])
    assert result.exit_code == 2
    assert f"--port {port} of --host 127.0.0.1 is in use" in " ".join(result.output.split())
    assert not (tmp_path / "a.csv.everylabel").exists()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["x.csv", "--store", "postgresql://me:hunter2@db/x"], "x.csv --store postgresql://..."),
        (["x.csv", "--store=postgresql://me:hunter2@db/x"], "x.csv --store=postgresql://..."),
        (["x.csv", "--token", "hunter2", "--look-token=hunter2"], "x.csv --token ... --look-token=..."),
        (["--store", "my labels.sqlite", "x.csv"], "--store 'my labels.sqlite' x.csv"),
        (["x.csv", "--ray", "ray://me:hunter2@head:1"], "x.csv --ray ray://..."),
        (["x.csv", "--ray", "ray://head:1"], "x.csv --ray ray://head:1"),
        (["--", "-x.csv"], "-- -x.csv"),
    ],
)
def test_the_command_to_continue_by_holds_no_secret(given: list[str], shown: str) -> None:
    assert console.command("label", *given) == f"everylabel label {shown}"
