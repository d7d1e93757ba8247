"""`everylabel embed` as a user runs it."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from everylabel.cli import app


def run(*arguments: object, cache: Path) -> Result:
    environment = {"COLUMNS": "200", "EVERYLABEL_CACHE": str(cache)}
    return CliRunner().invoke(app, ["embed", *map(str, arguments)], env=environment)


def test_texts_become_a_file_row_by_row(tmp_path: Path) -> None:
    lines = ["stars,body"] + [f"{i},a review of {word}" for i, word in enumerate(["soap", "", "beans"])]
    (tmp_path / "reviews.csv").write_text("\n".join(lines))
    out = tmp_path / "reviews.npy"
    result = run(
        tmp_path / "reviews.csv", "--text-column", "body", "--model", "tfidf", "-o", out, cache=tmp_path
    )
    assert result.exit_code == 0, result.output
    assert "3/3" in result.output
    assert "3 rows of" in result.output
    assert len(np.load(out)) == 3


def test_a_table_and_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    from PIL import Image as pil

    (tmp_path / "t.csv").write_text("age,city,label\n1,Oslo,a\n2,Rome,b\n")
    result = run(tmp_path / "t.csv", "--label-column", "label", "-o", tmp_path / "t.npy", cache=tmp_path)
    assert result.exit_code == 0, result.output
    assert np.load(tmp_path / "t.npy").shape == (2, 3)
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.png"):
        pil.new("RGB", (8, 8)).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "c.png").write_text("broken")
    result = run(tmp_path / "photos", "--model", "pixels", "-o", tmp_path / "p.npy", cache=tmp_path)
    assert result.exit_code == 0, result.output
    assert "note: 1 of 3 images cannot be read and were skipped" in result.output
    assert len(np.load(tmp_path / "p.npy")) == 2


def test_errors_are_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("body\nsome text\n")
    out = tmp_path / "x.npy"
    result = run(tmp_path / "x.csv", "--text-column", "text", "--model", "tfidf", "-o", out, cache=tmp_path)
    assert result.exit_code == 2
    assert "error: column 'text' is not in" in result.output
    assert not out.exists()


def test_wrong_columns_are_named_and_brackets_are_printed(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    source = tmp_path / "x.csv"
    source.write_text("age;city;[bold]\n1;Oslo;a\n2;Rome;b\n")
    out = tmp_path / "x.npy"
    result = run(source, "--label-column", "[red]", "-o", out, cache=tmp_path)
    assert result.exit_code == 2
    assert "error: column '[red]' is not in" in result.output
    assert "expected one of 'age', 'city', '[bold]'" in result.output
    result = run(source, "--text-column", "city", "--image-column", "age", "-o", out, cache=tmp_path)
    assert result.exit_code == 2
    assert "--text-column is 'city' and --image-column 'age'; expected one only" in result.output
    assert not out.exists()
    result = run(source, "--label-column", "[bold]", "-o", out, cache=tmp_path)
    assert result.exit_code == 0, result.output
    assert np.load(out).shape == (2, 3)


def test_a_file_that_is_not_utf_8_is_read_by_its_encoding(tmp_path: Path) -> None:
    source, out = tmp_path / "x.csv", tmp_path / "x.npy"
    source.write_text("body\nein schöner Tag\n", encoding="utf-16")
    arguments = (source, "--text-column", "body", "--model", "tfidf", "-o", out)
    result = run(*arguments, cache=tmp_path)
    assert result.exit_code == 2
    assert "--encoding utf-16" in result.output
    result = run(*arguments, "--encoding", "utf-16", cache=tmp_path)
    assert result.exit_code == 0, result.output
    assert len(np.load(out)) == 1


def test_the_text_column_is_found_as_label_finds_it(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        "id,body,stars\n" + "".join(f"{i},a review of number {i % 3},{i % 5}\n" for i in range(9))
    )
    found = run(path, "-o", tmp_path / "x.npy", "--model", "tfidf", cache=tmp_path)
    assert found.exit_code == 0, found.output
    assert (
        "column 'body' is embedded (--text-column chooses another, --whole-table takes all)" in found.output
    )
    named = run(path, "-o", tmp_path / "y.npy", "--model", "tfidf", "--text-column", "body", cache=tmp_path)
    assert named.exit_code == 0, named.output
    assert np.array_equal(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"))
    whole = run(path, "-o", tmp_path / "z.npy", "--whole-table", cache=tmp_path)
    assert whole.exit_code == 0, whole.output
    assert "is embedded" not in whole.output


def test_a_wrong_ending_is_reported_before_the_work(tmp_path: Path) -> None:
    wrong = run(tmp_path / "not-there.csv", "-o", tmp_path / "x.csv", cache=tmp_path)
    assert wrong.exit_code == 2
    assert "expected a file that ends in .npy" in wrong.output
