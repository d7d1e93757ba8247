"""`everylabel reproduce` as a user runs it, on digits with two cycles."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from everylabel.cli import app
from everylabel.experiments import selecting, updating


def _run(*arguments: str, folder: Path) -> Result:
    places = [
        "--results",
        str(folder / "r.sqlite"),
        "--report",
        str(folder / "report"),
        "--data",
        str(folder),
    ]
    return CliRunner().invoke(app, ["reproduce", *arguments, *places, "--jobs", "1"], env={"COLUMNS": "200"})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "CYCLES", 2)
    monkeypatch.setattr(updating, "SAMPLES", 50)
    monkeypatch.setattr(updating.Stages, "sizes", (10, 20))
    monkeypatch.setattr(updating.NewSizes, "sizes", (10, 20))
    monkeypatch.setattr(updating.StepSize, "sizes", (1, 2))
    monkeypatch.setattr(updating.SpeedUp, "sizes", (10,))


@pytest.mark.usefixtures("small")
def test_everything_on_digits(tmp_path: Path) -> None:
    result = _run("--fast", "--reps", "1", "--export", str(tmp_path / "r.csv"), folder=tmp_path)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report" / "report.html").read_text()
    for text in ("The paper's claims", "Fig. 3", "Fig. 7", "Speed-up"):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")  # one file, nothing from elsewhere
    assert (tmp_path / "report" / "README.md").exists()
    assert len(list((tmp_path / "report").glob("*.png"))) >= 10
    header, *lines = (tmp_path / "r.csv").read_text().splitlines()
    assert header == "experiment,dataset,repetition,training,variant,x,metric,value"
    assert len(lines) > 200


@pytest.mark.usefixtures("small")
def test_the_papers_recipe(tmp_path: Path) -> None:
    result = _run("fig3", "--reps", "1", folder=tmp_path)
    assert result.exit_code == 0, result.output
    assert "RAdam" in (tmp_path / "report" / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig9"], "experiment is 'fig9'; expected one of"),
        (["--dataset", "mnist"], "dataset is 'mnist'"),
        (["--dataset", "snacks"], "has no feature file"),
        (["--reps", "0"], "--reps"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = _run(*arguments, folder=tmp_path)
    assert result.exit_code == 2
    assert message in result.output


def test_list(tmp_path: Path) -> None:
    result = _run("--list", folder=tmp_path)
    assert result.exit_code == 0
    assert "batch-selection" in result.output
    assert "snacks (no file" in result.output
    assert not (tmp_path / "r.sqlite").exists()
