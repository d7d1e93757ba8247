"""`everylabel demo` as a user runs it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.experiments import selecting
from everylabel.experiments.reporting import report
from everylabel.experiments.reporting.pages import Picture


def test_demo_shows_both_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "CYCLES", 2)
    monkeypatch.setattr(selecting, "BATCHES", 50)
    monkeypatch.setattr(
        report, "picture", lambda name, caption, _: Picture(f"{name}.png", caption, b"a picture")
    )  # tests of reports draw them
    out = tmp_path / "new"
    arguments = ["demo", "--reps", "1", "--jobs", "1", "--out", str(out)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    for text in ("no update", "second order", "Monte Carlo", "exact", "retrained", "plot saved"):
        assert text in result.output
    for text in (
        "margin with updates",
        "Badge with updates",
        "optimal",
        "look-ahead",
        "herding",
        "report.html",
    ):
        assert text in result.output
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "Batch selection with updates" in (out / "report.html").read_text()


def test_without_matplotlib_the_tables_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "CYCLES", 2)
    monkeypatch.setattr(selecting, "BATCHES", 50)
    monkeypatch.setattr("everylabel.cli.demo.find_spec", lambda name: None)
    arguments = ["demo", "--reps", "1", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert "second order" in result.output
    assert "pip install 'everylabel[plot]'" in result.output
    assert not (tmp_path / "demo.png").exists()


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--reps", "0"])
    assert result.exit_code == 2
    assert "--reps" in result.output
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "file" in result.output
