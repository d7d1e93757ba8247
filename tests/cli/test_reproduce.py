"""`everylabel reproduce` as a user runs it, on digits with two cycles."""

import gzip
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from everylabel.cli import app
from everylabel.experiments import engine, selecting, updating
from everylabel.experiments.reporting import report
from everylabel.experiments.reporting.claims import UNMEASURED
from everylabel.experiments.reporting.pages import Picture


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
    monkeypatch.setattr(selecting, "BATCHES", 50)
    monkeypatch.setattr(updating, "SAMPLES", 50)
    monkeypatch.setattr(updating.Stages, "sizes", (10, 20))
    monkeypatch.setattr(updating.NewSizes, "sizes", (10, 20))
    monkeypatch.setattr(updating.StepSize, "sizes", (1, 2))
    monkeypatch.setattr(updating.SpeedUp, "sizes", (10,))


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write reports without plots, which take longest; one test draws them."""
    monkeypatch.setattr(
        report, "picture", lambda name, caption, _: Picture(f"{name}.png", caption, b"a picture")
    )


@pytest.mark.usefixtures("small")
def test_everything_on_digits(tmp_path: Path) -> None:
    result = _run(
        "--fast", "--reps", "1", "--dataset", "digits", "--export", str(tmp_path / "r.csv"), folder=tmp_path
    )
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report" / "report.html").read_text()
    for text in ("The paper's claims", "Fig. 3", "Fig. 7", "Speed-up"):
        assert text in page
    assert "nan" not in page.split("</style>")[1].split("<img")[0]
    assert "± nan" not in page
    assert "http" not in page.replace("http-equiv", "")  # one file, nothing from elsewhere
    assert (tmp_path / "report" / "README.md").exists()
    assert len(list((tmp_path / "report").glob("*.png"))) >= 10
    header, *lines = (tmp_path / "r.csv").read_text().splitlines()
    assert header == "experiment,dataset,repetition,training,variant,x,metric,value"
    assert len(lines) > 200


@pytest.mark.usefixtures("small", "unpainted")
def test_only_finished_experiments_have_a_section(tmp_path: Path) -> None:
    result = _run("fig7", "--fast", "--reps", "1", "--dataset", "digits", folder=tmp_path)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report" / "README.md").read_text()
    assert "## Optimal look-ahead (Fig. 7)" in text
    assert "(Fig. 6)" not in text  # its curves are shared, but not all of them
    assert "## The whole pool" not in text
    claims, experiments = text.split("## Optimal look-ahead")
    tested, others = claims.split("claims are not tested")
    assert UNMEASURED not in tested
    assert UNMEASURED in others
    assert UNMEASURED not in experiments
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.index("<details>") < page.index(UNMEASURED) < page.index("<img")


@pytest.mark.usefixtures("small", "unpainted")
def test_the_answer_comes_first_and_the_making_last(tmp_path: Path) -> None:
    result = _run("fig4", "--fast", "--reps", "1", "--dataset", "digits", folder=tmp_path)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report" / "README.md").read_text()
    parts = (
        "This report answers",
        "| claims | fast |",
        "## The paper's claims",
        "## Varying size of the new data",
        "## Illustration",
        "## How this report was made",
        "- command:",
        "| repetitions |",
    )
    assert [text.count(part) for part in parts] == [1] * len(parts)
    assert sorted(parts, key=text.index) == list(parts)


@pytest.mark.usefixtures("small", "unpainted")
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
        (["--report-only"], "does not exist; run without"),
        (["--report-only", "fig4"], "--report-only shows all that is stored; leave out fig4"),
        (
            ["--fast", "--export", "no/such/folder/r.csv"],
            "'no/such/folder/r.csv' would be in a folder that does not exist",
        ),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = _run(*arguments, folder=tmp_path)
    assert result.exit_code == 2
    assert message in result.output


def test_a_data_folder_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no folder of the default name
    assert CliRunner().invoke(app, ["reproduce", "--list"]).exit_code == 0
    named = CliRunner().invoke(app, ["reproduce", "--list", "--data", "gone"])
    from_outside = CliRunner().invoke(app, ["reproduce", "--list"], env={"EVERYLABEL_DATA": "gone"})
    for result in (named, from_outside):
        assert result.exit_code == 2
        assert "data folder 'gone' does not exist" in result.output


@pytest.mark.usefixtures("small", "unpainted")
def test_cells_of_other_source_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fig4 = ("fig4", "--fast", "--dataset", "digits")
    with monkeypatch.context() as before:
        before.setattr(engine, "code", lambda: "everylabel 0.0, source 000000000000")
        assert "other source" not in _run(*fig4, "--reps", "1", folder=tmp_path).output
    told = " ".join(_run(*fig4, "--reps", "2", folder=tmp_path).output.split())
    assert "holds cells measured by other source (1 by everylabel 0.0, source 000000000000; this is" in told
    page = (tmp_path / "report" / "report.html").read_text()
    assert "everylabel 0.0, source 000000000000 (1 cells); everylabel" in page


def test_wrong_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "banking77.npz").write_bytes(b"not a feature file")
    result = _run("fig3", "--fast", "--dataset", "banking77", folder=tmp_path)
    assert result.exit_code == 2
    assert "banking77.npz" in result.output
    assert not (tmp_path / "r.sqlite").exists()  # nothing is made before all is known to be there
    (tmp_path / "r.sqlite").write_text("my notes")
    result = _run("fig3", "--fast", "--dataset", "digits", folder=tmp_path)
    assert result.exit_code == 2
    assert "not a database" in result.output
    assert (tmp_path / "r.sqlite").read_text() == "my notes"


@pytest.mark.usefixtures("small", "unpainted")
def test_a_report_that_cannot_be_written_costs_no_measurement(tmp_path: Path) -> None:
    fig4 = ("fig4", "--fast", "--reps", "1", "--dataset", "digits")
    (tmp_path / "report").write_text("a file where the folder should be")
    result = _run(*fig4, folder=tmp_path)
    assert result.exit_code == 2
    assert "cannot be written" in result.output
    assert not (tmp_path / "r.sqlite").exists()  # it is found before the work
    (tmp_path / "report").unlink()
    (tmp_path / "report" / "README.md").mkdir(parents=True)
    result = _run(*fig4, folder=tmp_path)
    assert result.exit_code == 2
    assert "the measurements are safe" in " ".join(result.output.split())
    (tmp_path / "report" / "README.md").rmdir()
    result = _run("--report-only", folder=tmp_path)
    assert result.exit_code == 0
    assert "Varying size of the new data" in (tmp_path / "report" / "report.html").read_text()
    assert "1/1" in _run(*fig4, folder=tmp_path).output


@pytest.mark.usefixtures("small", "unpainted")
def test_a_report_replaces_reports_only(tmp_path: Path) -> None:
    report = tmp_path / "report"
    _run("fig3", "fig4", "--fast", "--reps", "1", "--dataset", "digits", folder=tmp_path)
    (report / "mine.png").write_bytes(b"mine")
    assert (report / "stages-fast.png").exists()
    (tmp_path / "r.sqlite").unlink()
    _run("fig4", "--fast", "--reps", "1", "--dataset", "digits", folder=tmp_path)
    assert not (report / "stages-fast.png").exists()  # of a report that is no more
    assert (report / "mine.png").exists()
    (report / "README.md").write_text("# My own notes")
    result = _run("--report-only", folder=tmp_path)
    assert result.exit_code == 2
    assert "has a README.md that is not a report" in result.output
    assert (report / "README.md").read_text() == "# My own notes"


@pytest.mark.usefixtures("small", "unpainted")
def test_measurements_are_exported_whole(tmp_path: Path) -> None:
    _run("fig4", "--fast", "--reps", "1", "--dataset", "digits", folder=tmp_path)
    for name in ("r.csv", "r.csv.gz"):
        assert _run("--report-only", "--export", str(tmp_path / name), folder=tmp_path).exit_code == 0
    with gzip.open(tmp_path / "r.csv.gz", "rt", newline="") as file:
        assert file.read() == (tmp_path / "r.csv").read_bytes().decode()
    before = (tmp_path / "r.sqlite").read_bytes()
    for name, message in (("r.sqlite", "is the results file"), ("report", "is a folder")):
        result = _run("--report-only", "--export", str(tmp_path / name), folder=tmp_path)
        assert result.exit_code == 2
        assert message in result.output
    assert (tmp_path / "r.sqlite").read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.usefixtures("small", "unpainted")
def test_unmeasured_claims_are_not_counted(tmp_path: Path) -> None:
    _run("fig6", "--fast", "--reps", "2", "--dataset", "digits", folder=tmp_path)
    _run("fig7", "--fast", "--reps", "1", "--dataset", "digits", folder=tmp_path)
    text = (tmp_path / "report" / "README.md").read_text()
    assert "| batch-selection | fast | 2 |\n| look-ahead | fast | 1 |" in text
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as connection, connection:
        connection.execute("delete from measurements where variant = 'optimal'")
    _run("--report-only", folder=tmp_path)
    assert "| look-ahead | fast |  |" in (tmp_path / "report" / "README.md").read_text()


def test_a_missing_library_is_named_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    result = _run("fig3", folder=tmp_path)
    assert result.exit_code == 2
    assert "--fast" in result.output
    assert not (tmp_path / "r.sqlite").exists()


def test_list(tmp_path: Path) -> None:
    result = _run("--list", folder=tmp_path)
    assert result.exit_code == 0
    assert "batch-selection" in result.output
    assert "snacks (no file" in result.output
    assert not (tmp_path / "r.sqlite").exists()
