"""Results tell which code made them, and when that has changed; tests/test_docs.py looks at the pages."""

import json
from pathlib import Path

import pytest

from benchmarks import index, made_by
from benchmarks.__main__ import is_current
from benchmarks.made_by import changed, code_digest, command, kept, record, records
from benchmarks.timing import write

SOURCE = '''
"""A module."""
X = [1, 2.5, "a"]  # numbers

def f(x: int) -> int:
    """Return it."""
    return x + 1
'''


def test_comments_docstrings_and_layout_do_not_count() -> None:
    other = "X=[1,2.5,'a']\n\n\ndef f(x:int)->int:\n    # the same\n    return x+1\n"
    assert code_digest(SOURCE) == code_digest(other)


@pytest.mark.parametrize(
    ("was", "became"), [("x + 1", "x + 2"), ("2.5", "2.0"), ('"a"', "'b'"), ("int) -> int", "int) -> float")]
)
def test_code_does_count(was: str, became: str) -> None:
    assert code_digest(SOURCE) != code_digest(SOURCE.replace(was, became))


def test_a_result_is_older_once_what_it_measures_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("core", "web"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.py").write_text(SOURCE)
    monkeypatch.setattr(made_by, "SOURCE", tmp_path)
    made = record(("core", "web/part.py"))
    assert changed(made) == []
    (tmp_path / "web" / "other.py").write_text("Y = 1\n")  # is not measured
    (tmp_path / "core" / "part.py").write_text(SOURCE.replace("2.5", "3.5"))
    made_by.digest.cache_clear()
    assert changed(made) == ["core"]
    (tmp_path / "web" / "part.py").unlink()
    made_by.digest.cache_clear()
    assert changed(made) == ["core", "web/part.py"]
    made_by.digest.cache_clear()


def test_parts_that_were_measured_before_keep_their_record(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write(path, {"a": 1, "b": 1}, measures=("core",), parts=["a", "b"])
    old = json.loads(path.read_text())
    old["made_by"]["a"]["code"] = old["made_by"]["b"]["code"] = {"core": "another"}
    path.write_text(json.dumps(old))
    write(path, {**old, "b": 2}, measures=("core",), parts=["b"])
    assert [changed(one) for one in records(path).values()] == [["core"], []]
    assert json.loads(path.read_text())["b"] == 2
    assert [row.line().split("|")[1:3] for row in index.rows(tmp_path)] == [
        [" [found.json](found.json), a ", " older "],
        [" [found.json](found.json), b ", " current "],
    ]
    write(path, {"a": 1, "b": 1}, measures=("core",))
    assert [row.name for row in index.rows(tmp_path)] == ["[found.json](found.json)"]


def test_cache_entry_is_as_old_as_its_download(tmp_path: Path) -> None:
    assert changed(kept(tmp_path / "new", ("core",))) == []
    assert kept(tmp_path / "new", ("core", "web"))["code"].keys() == {"core"}  # noted once
    (tmp_path / "of_before").mkdir()
    (tmp_path / "of_before" / "cell.json").write_text("{}")
    assert changed(kept(tmp_path / "of_before", ("core",))) == ["core"]


def test_a_result_without_its_origin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"found\.json has no record of its origin"):
        index.page(tmp_path)


def test_a_command_is_written_as_one_would_type_it() -> None:
    assert command(["/usr/bin/python3", "-m", "benchmarks.core", "--out", str(index.FOLDER)]) == (
        "python -m benchmarks.core --out docs/results"
    )


def test_a_result_whose_parts_were_all_measured_again_is_no_older(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write(path, {"a": [1], "b": [1]}, measures=("core",))
    write(path, {"a": [2], "b": [1]}, measures=("core",), parts=["a"])
    assert set(made_by.records(path)) == {made_by.WHOLE, "a"}
    write(path, {"a": [2], "b": [2], "threads": "1"}, measures=("core",), parts=["b"])
    assert set(made_by.records(path)) == {"a", "b"}


def test_only_results_older_than_the_code_are_measured_again(tmp_path: Path) -> None:
    assert not is_current("core", tmp_path)  # never measured
    path = tmp_path / "core.json"
    write(path, {"a": [1]}, measures=("core",))
    assert is_current("core", tmp_path)
    found = json.loads(path.read_text())
    found["made_by"][made_by.WHOLE]["code"]["core"] = "another digest"
    path.write_text(json.dumps(found))
    assert not is_current("core", tmp_path)
