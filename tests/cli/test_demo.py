"""`everylabel demo` as a user runs it."""

from pathlib import Path

from typer.testing import CliRunner

from everylabel.cli import app


def test_demo_prints_the_table_and_saves_the_plot(tmp_path: Path) -> None:
    plot = tmp_path / "new" / "demo.png"
    result = CliRunner().invoke(app, ["demo", "--reps", "1", "--out", str(plot)], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    for text in ("no update", "second order", "Monte Carlo", "exact", "retrained", "plot saved"):
        assert text in result.output
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_wrong_options_are_refused() -> None:
    result = CliRunner().invoke(app, ["demo", "--reps", "0"])
    assert result.exit_code == 2
    assert "--reps" in result.output
