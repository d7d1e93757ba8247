"""Results name the run that made them; tests/test_docs.py checks the pages."""

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.__main__ import is_made
from benchmarks.results import cache_record, command, records, write


def test_parts_that_were_measured_before_keep_their_record(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write(path, {"a": 1, "b": 1}, parts=["a", "b"])
    old = json.loads(path.read_text())
    old["made_by"]["a"]["date"] = old["made_by"]["b"]["date"] = "2026-01-01"
    path.write_text(json.dumps(old))
    write(path, {**old, "b": 2}, parts=["b"])
    dates = [one["date"] for one in records(path).values()]
    assert dates[0] == "2026-01-01" < dates[1]
    assert json.loads(path.read_text())["b"] == 2
    assert "| [found.json](found.json), a |" in results.page(tmp_path)
    write(path, {"a": 1, "b": 1})
    assert "| [found.json](found.json) |" in results.page(tmp_path)


def test_results_of_an_earlier_version_or_an_unknown_commit_are_listed_as_old(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write(path, {"a": 1, "b": 1, "version 0.1": 1}, parts=["a", "b", "version 0.1"])
    old = json.loads(path.read_text())
    for part in old["made_by"].values():
        part["commit"] = "1234567"
    path.write_text(json.dumps(old))
    assert "changed since: none." in results.page(tmp_path)
    old["made_by"]["a"]["version"] = old["made_by"]["version 0.1"]["version"] = "0.1.0"
    path.write_text(json.dumps(old))
    assert "changed since: [found.json](found.json) (a)." in results.page(tmp_path)
    old["made_by"]["b"]["commit"] = None
    path.write_text(json.dumps(old))
    assert "changed since: [found.json](found.json) (a / b)." in results.page(tmp_path)


def test_a_cache_is_as_old_as_its_first_run(tmp_path: Path) -> None:
    made = cache_record(tmp_path / "new")
    (tmp_path / "new" / "made_by.json").write_text(json.dumps(made | {"date": "2026-01-01"}))
    assert cache_record(tmp_path / "new")["date"] == "2026-01-01"
    (tmp_path / "filled").mkdir()
    (tmp_path / "filled" / "cell.json").write_text("{}")
    assert cache_record(tmp_path / "filled")["commit"] is None  # its cells were made by an unknown commit


def test_a_record_names_the_commit_and_whether_code_differs_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "ROOT", tmp_path)
    assert results.commit() is None  # no checkout
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    name = results.commit()
    assert name is not None
    assert len(name) == 7
    (tmp_path / "notes.txt").write_text("no code")
    assert results.commit() == name
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "new.py").write_text("X = 1")
    assert results.commit() == f"{name} changed"


def test_pages_name_the_commit_or_else_the_day() -> None:
    made = {"version": "0.2.0", "commit": "2764cc0", "date": "2026-11-17"}
    assert results.version(made) == "0.2.0, 2764cc0"
    assert results.version(made | {"commit": None}) == "0.2.0, 2026-11-17"


def test_a_result_without_its_origin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"found\.json has no record of its origin"):
        results.page(tmp_path)


def test_a_command_is_written_as_one_would_type_it() -> None:
    assert command(["/usr/bin/python3", "-m", "benchmarks.core", "--out", str(results.FOLDER)]) == (
        "python -m benchmarks.core --out docs/results"
    )


def test_a_result_whose_parts_were_all_measured_again_has_no_record_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write(path, {"a": [1], "b": [1]})
    write(path, {"a": [2], "b": [1]}, parts=["a"])
    assert set(records(path)) == {results.WHOLE, "a"}
    write(path, {"a": [2], "b": [2], "threads": "1"}, parts=["b"])
    assert set(records(path)) == {"a", "b"}


def test_only_results_of_an_earlier_day_are_measured_again(tmp_path: Path) -> None:
    assert not is_made("core", "2026-01-01", tmp_path)  # never measured
    write(tmp_path / "core.json", {"a": [1]})
    assert is_made("core", "2026-01-01", tmp_path)
    assert not is_made("core", "9999-01-01", tmp_path)
