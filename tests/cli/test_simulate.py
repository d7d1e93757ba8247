"""`everylabel simulate` with a real server."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from everylabel.cli import app
from everylabel.cli.simulate import _table
from everylabel.projects.project import Project, open_project
from everylabel.simulation import process
from everylabel.simulation.people import Point, milestones
from tests.web.servers import label_here

pytestmark = pytest.mark.usefixtures("own_place")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *(str(part) for part in arguments)])


@contextmanager
def _serve_here(project: Project, arguments: Sequence[str]) -> Iterator[str]:
    about = process.hide_labels(project)
    shown = process._named(project, about)
    with label_here(about.source, *shown, "--project", project.folder, *arguments) as server:
        yield server.address


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate with a server on a thread: a process would take seconds to load."""
    monkeypatch.setattr("everylabel.simulation.server_process", _serve_here)


def test_digits_are_learned(tmp_path: Path) -> None:
    result = run("digits", "--budget", 40, "--people", 2, "-o", "curve.csv")
    assert result.exit_code == 0, result.output
    assert "digits: accuracy by number of labels" in result.output
    points = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))
    assert int(points[-1]["labels"]) == 40
    assert float(points[-1]["accuracy"]) > 0.7
    assert float(points[0]["accuracy"]) < float(points[-1]["accuracy"])
    assert not (tmp_path / "digits.everylabel").exists()  # it was a temporary project


@pytest.mark.usefixtures("here")
def test_own_labels_are_hidden_from_the_server(tmp_path: Path) -> None:
    words = ["soap cleans", "beans taste"]
    rows = [f"{words[i % 2]} number {i},{words[i % 2].split()[0] if i != 5 else ''}" for i in range(40)]
    (tmp_path / "x.csv").write_text("\n".join(["body,kind", *rows]))
    result = run("x.csv", "--label-column", "kind", "--model", "tfidf", "--budget", 8, "-o", "c.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    result = run("x.csv", "--model", "tfidf", "--budget", 8)
    assert result.exit_code == 2
    assert "no true labels" in result.output


@pytest.mark.usefixtures("here")
def test_a_project_that_is_simulated_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\n".join(["body,kind", *(f"text {i},{i % 2}" for i in range(40))]))
    project = open_project("x.csv", label_column="kind", model="tfidf")
    before = {path.name: path.read_bytes() for path in project.folder.iterdir()}
    result = run("x.csv.everylabel", "--budget", 4, "--model", "tfidf")
    assert result.exit_code == 0, result.output
    assert {path.name: path.read_bytes() for path in project.folder.iterdir()} == before


@pytest.mark.usefixtures("here")
def test_a_table_elsewhere_is_shown(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "shown.csv").write_text("\n".join(["body,kind", *(f"text {i},{i % 2}" for i in range(20))]))
    here = tmp_path / "here"
    here.mkdir()
    np.save(here / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    result = run(here / "x.npy", "--show", elsewhere / "shown.csv", "--label-column", "kind", "--budget", 4)
    assert result.exit_code == 0, result.output


def test_a_running_server_is_used(tmp_path: Path) -> None:
    with label_here("digits", "--strategy", "random") as server:
        result = run("digits", "--budget", 6, "--noise", 1.0, "--url", server.address)
        assert result.exit_code == 0, result.output
        assert server.client.get("/api/progress")["labelled"] == 6
        wrong = run("digits", "--url", server.address, "--strategy", "margin")
        assert wrong.exit_code == 2
        assert "--strategy is a setting of the running server" in wrong.output


def test_impossible_simulation_is_refused() -> None:
    for arguments, told in (
        (["--url", "http://127.0.0.1:9"], "does not answer"),
        (["--url", "ftp://x"], "expected http://address:port"),
        (["-o", "x.doc"], "expected an ending of .png"),
        (["--strategy", "best"], "error: the server did not start: --strategy is 'best'"),
    ):
        result = run("digits", *arguments)
        assert result.exit_code == 2
        assert told in result.output


@pytest.mark.usefixtures("here")
def test_the_slowest_are_of_all_labels_so_far(tmp_path: Path) -> None:
    result = run("digits", "--budget", 5, "--names-prior", "off", "-o", "curve.csv")
    assert result.exit_code == 0, result.output
    points = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))
    medians, slowest = ([float(point[name]) for point in points] for name in ("median_ms", "slowest_ms"))
    for i in range(5):  # a label a point
        assert slowest[i] == pytest.approx(max(medians[: i + 1]))
    assert len(set(medians)) == 5


@pytest.mark.usefixtures("here")
def test_bulk_simulation_presses_fewer_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    x = 3 * np.eye(8)[y] + 0.1 * rng.normal(size=(400, 8))  # near copies, of which the model is soon sure
    np.savez(tmp_path / "alike.npz", X=x, y=y)
    result = run("alike.npz", "--label-column", "y", "--budget", 60, "--hands", "bulk", "-o", "curve.csv")
    assert result.exit_code == 0, result.output
    last = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))[-1]
    assert int(last["labels"]) == 60
    assert 0 < int(last["keys"]) < 60
    assert int(last["groups"]) > 0
    assert f"60 labels by {last['keys']} keys" in " ".join(result.output.split())


@pytest.mark.usefixtures("here")
def test_yes_no_simulation_counts_its_key_presses(tmp_path: Path) -> None:
    result = run("digits", "--budget", 40, "--hands", "yes-no", "-o", "curve.csv")
    assert result.exit_code == 0, result.output
    last = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))[-1]
    keys, noes, looked_up = (int(last[name]) for name in ("keys", "noes", "looked_up"))
    assert (int(last["labels"]), keys) == (40, 40 + noes)
    assert 0 < looked_up < 40
    assert noes > 0
    assert float(last["accuracy"]) > 0.7
    told = f"40 labels by {keys} keys; {40 - looked_up} proposals taken, {noes} refused, {looked_up} classes"
    assert told in " ".join(result.output.split())
    assert run("digits", "--hands", "three").exit_code == 2


def test_milestones_end_with_the_budget() -> None:
    assert milestones(1) == [1]
    assert milestones(3)[-1] == 3
    assert len(milestones(1000)) == 20
    assert milestones(1000)[-1] == 1000


def test_the_table_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(10_000 + i, 0.5, 0.91, 0.81, 0.97, 9, 1234.5, 2345.6) for i in range(20)]
    console = Console(width=80, file=io.StringIO())
    console.print(_table(points, "digits"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert "..." not in text
    lines = [line for line in text.splitlines() if "[0.81, 0.97]" in line]
    assert len(lines) <= 12
    assert "10,019" in lines[-1]


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_missing_labels_are_noticed_before_anything_is_embedded(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.csv").write_text("text\n" + "".join(f"a note number {i}\n" for i in range(20)))
    done = CliRunner().invoke(app, [command, "notes.csv", "--model", "no-such-model"])
    assert done.exit_code == 2
    assert "has no true labels; expected --label-column" in done.output


@pytest.mark.usefixtures("here")
def test_simulation_of_several_classes_per_item_reports_f1(tmp_path: Path) -> None:
    words = {"sport": "football goal", "money": "bank price", "rain": "wet cloud"}
    sets = [("sport",), ("money", "rain"), (), ("sport", "money")]
    rows = [
        f"{' '.join(words[c] for c in sets[i % 4])} item {i},{'/'.join(sets[i % 4]) or '[]'}"
        for i in range(120)
    ]
    (tmp_path / "x.csv").write_text("\n".join(["body,topics", *rows]))
    several = ("--label-column", "topics", "--multi-label", "--label-separator", "/", "--model", "tfidf")
    result = run("x.csv", *several, "--budget", 40, "-o", "curve.csv")
    assert result.exit_code == 0, result.output
    assert "F1" in result.output
    points = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))
    assert int(points[-1]["labels"]) == 40
    assert float(points[-1]["accuracy"]) > 0.9
    refused = run("x.csv", *several, "--budget", 4, "--hands", "yes-no")
    assert refused.exit_code == 2
    assert "expected 'one'" in refused.output
