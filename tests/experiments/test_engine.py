"""The grid: seeded by coordinates, stored cell by cell, resumed where it was."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest

import everylabel as el
from everylabel.experiments import selecting, updating
from everylabel.experiments.data import Data, load
from everylabel.experiments.engine import Cell, Experiment, cells_of, code, run_cells, seeded
from everylabel.experiments.results import Measurement, Results, Row


class Dice(Experiment):
    """An experiment that draws numbers: what it measures depends on its coordinates alone."""

    name = grid = "dice"
    figure, title = "none", "Dice"

    def parts(self, data: Data) -> list[str]:
        return ["a", "b"]

    def run(self, cell: Cell, data: Data) -> list[Measurement]:
        return [Measurement(cell.part, x, "accuracy", float(v)) for x, v in enumerate(cell.rng().random(3))]


DIGITS = partial(load, folder="")
CELLS = cells_of([Dice()], [DIGITS("digits")], 4, "fast")


def _run(path: Path, cells: list[Cell], jobs: int = 1) -> list[Row]:
    results = Results(path)
    for _ in run_cells(cells, [Dice()], DIGITS, results, jobs):
        pass
    rows = results.rows()
    results.close()
    return sorted(rows)


def test_results_do_not_depend_on_order_or_processes(tmp_path: Path) -> None:
    one = _run(tmp_path / "one.sqlite", CELLS)
    assert _run(tmp_path / "two.sqlite", CELLS[::-1], jobs=2) == one
    assert len(one) == 4 * 2 * 3


def test_finished_cells_are_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    _run(path, CELLS[:3])
    results = Results(path)
    again = [cell.name for cell in run_cells(CELLS, [Dice()], DIGITS, results, 1)]
    assert again == [cell.name for cell in CELLS[3:]]
    assert list(run_cells(CELLS, [Dice()], DIGITS, results, 1)) == []


def test_cell_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    results = Results(tmp_path / "r.sqlite")
    broken = [Row("e", "d", 0, "fast", "v", 1.0, "accuracy", 0.5), ("too", "short")]
    with pytest.raises(el.EverylabelError, match="still in it"):
        results.add("cell", 1.0, broken)  # type: ignore[arg-type]
    assert results.finished() == set()
    assert results.rows() == []


def test_seeds_are_the_same_everywhere() -> None:
    assert seeded("digits", 3).integers(10**6) == seeded("digits", 3).integers(10**6)
    draws = {int(Cell("e", "d", r, "fast", p).rng().integers(10**9)) for r in range(9) for p in "ab"}
    assert len(draws) == 18
    paired = {int(Cell("e", "d", 1, "fast", p).shared_rng().integers(10**9)) for p in "abc"}
    assert len(paired) == 1


def test_results_of_another_version_or_a_folder_are_refused(tmp_path: Path) -> None:
    results = Results(tmp_path / "r.sqlite")
    with results._connection:
        results._connection.execute("update about set version = 99")
    results.close()
    with pytest.raises(el.EverylabelError, match=r"has version 99\); expected .* name another file"):
        Results(tmp_path / "r.sqlite")
    with pytest.raises(el.EverylabelError, match=r"cannot be opened .* name another file with --results"):
        Results(tmp_path)


@pytest.mark.parametrize("table", ["shopping", "about"])
def test_database_of_another_program_is_not_changed(tmp_path: Path, table: str) -> None:
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"create table {table} (item text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(el.EverylabelError, match=r"cannot be opened .*expected one"):
        Results(path)
    assert path.read_bytes() == before
    (tmp_path / "notes.txt").write_text("not a database " * 50)
    with pytest.raises(el.EverylabelError, match=r"\(file is not a database\); .* name another file"):
        Results(tmp_path / "notes.txt")


FILL_UP = """
import resource, sys
from pathlib import Path
from everylabel.experiments.results import Results, Row
results = Results(Path(sys.argv[1]))
rows = [Row("e", "d", 0, "fast", "v", float(i), "accuracy", 0.5) for i in range(500)]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
for i in range(100):
    results.add(f"cell {i}", 1.0, rows)
    print(i, flush=True)
"""


def test_full_disk_loses_no_finished_cell(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    command = [sys.executable, "-c", FILL_UP, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "EverylabelError" in done.stderr
    assert "Make room, or name another file" in done.stderr
    stored = len(done.stdout.split())
    assert 0 < stored < 100
    results = Results(path)
    assert results.finished() == {f"cell {i}" for i in range(stored)}
    assert len(results.rows()) == 500 * stored
    results.add("another", 1.0, [])  # there is room again


def test_every_joblib_backend_works(tmp_path: Path) -> None:
    with joblib.parallel_config(backend="threading"):
        assert _run(tmp_path / "threads.sqlite", CELLS, jobs=2) == _run(tmp_path / "one.sqlite", CELLS)


def test_killed_run_continues(tmp_path: Path) -> None:
    """After a kill -9, the second run gives the same numbers as an uninterrupted one."""
    command = [sys.executable, "-m", "everylabel.cli", "reproduce", "batch-selection", "--dataset", "digits"]
    command += ["--fast", "--reps", "1", "--jobs", "1", "--report", str(tmp_path / "report")]
    killed, whole = tmp_path / "killed.sqlite", tmp_path / "whole.sqlite"
    process = subprocess.Popen([*command, "--results", str(killed)], stdout=subprocess.DEVNULL)
    while process.poll() is None and not (killed.exists() and _count(killed)):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 1 <= _count(killed) < 5
    for path in (killed, whole):
        subprocess.run([*command, "--results", str(path)], check=True, stdout=subprocess.DEVNULL)
    assert sorted(Results(killed).rows()) == sorted(Results(whole).rows())


def _count(path: Path) -> int:
    """Return how many cells are stored, without touching the file."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("select count(*) from cells").fetchone()[0])
        except sqlite3.OperationalError:  # being made at this moment
            return 0


def test_splits_do_not_change_and_do_not_overlap() -> None:
    data = load("digits", os.devnull)
    assert len(data.x) + len(data.val_x) == 1297
    assert len(data.test_x) == 500
    rows = {row.tobytes() for row in data.x}
    assert not any(row.tobytes() in rows for row in data.val_x[:50])
    np.testing.assert_array_equal(data.x, load.__wrapped__("digits", os.devnull).x)


def test_cell_stored_by_another_run_stays(tmp_path: Path) -> None:
    row = Row("dice", "digits", 0, "fast", "a", 1.0, "eyes", 3.0)
    for results in (Results(tmp_path / "r.sqlite"), Results(tmp_path / "r.sqlite")):
        results.add("cell", 1.0, [row])
        assert results.rows() == [row]
        results.close()


def test_cells_record_the_version_of_the_code(tmp_path: Path) -> None:
    _run(tmp_path / "r.sqlite", CELLS)
    results = Results(tmp_path / "r.sqlite")
    assert results.codes() == {code(): len(CELLS)}
    assert re.fullmatch(r"everylabel \S+, source [0-9a-f]{12}", code())
    results.add("cell", 1.0, [], "everylabel 9, source 0")
    assert list(results.codes().values()) == [len(CELLS), 1]


def _own_features(folder: Path, n: int, moved: float = 0.0) -> Data:
    """Write features of two classes under the name of DTD and return what is read of them."""
    x, y = np.random.default_rng(0).normal(size=(n, 3)) + moved, np.arange(n) % 2
    np.savez(folder / "dtd_own.npz", X_train=x, y_train=y, X_test=x[:9], y_test=y[:9], classes=["a", "b"])
    load.cache_clear()
    return load("dtd", str(folder))


def test_results_of_other_data_are_not_mixed(tmp_path: Path) -> None:
    data = _own_features(tmp_path, 60)
    cells = cells_of([Dice()], [data], 2, "fast")
    results = Results(tmp_path / "r.sqlite")
    list(run_cells(cells[:2], [Dice()], partial(load, folder=str(tmp_path)), results, 1))
    assert results.datasets() == {"dtd": data.digest}
    assert _own_features(tmp_path, 60, moved=1.0).digest != data.digest
    for some in (cells, cells[:2]):  # also where nothing is left to do
        with pytest.raises(el.EverylabelError, match=r"'dtd' has other features.* --results, or the folder"):
            run_cells(some, [Dice()], partial(load, folder=str(tmp_path)), results, 1)
    assert len(results.finished()) == 2
    _own_features(tmp_path, 60)
    assert len(list(run_cells(cells, [Dice()], partial(load, folder=str(tmp_path)), results, 1))) == 2


def test_small_pool_is_asked_one_item_per_class(tmp_path: Path) -> None:
    assert _own_features(tmp_path, 1112).setting.batch == 50  # a tenth is held out, 1,001 are left
    assert _own_features(tmp_path, 1111).setting.batch == 2


def test_noisy_labels_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, np.ndarray] = {}
    monkeypatch.setattr(selecting, "learning_curve", lambda cell, data, *more: seen.update(y=data.y))
    data, cell = load("digits", ""), Cell("label-noise", "digits", 0, "fast", "random")
    selecting.LabelNoise().run(cell, data)
    meant = cell.shared_rng().random(len(data.y)) < 0.1
    np.testing.assert_array_equal(seen["y"] != data.y, meant)


def test_two_feature_files_of_a_dataset_are_named(tmp_path: Path) -> None:
    _own_features(tmp_path, 60)
    (tmp_path / "dtd_other.npz").write_bytes(b"")
    load.cache_clear()
    with pytest.raises(el.EverylabelError, match=r"dtd_other.npz, dtd_own.npz; expected one: move"):
        load("dtd", str(tmp_path))


def test_numbers_of_labels_beyond_a_small_pool_are_omitted(tmp_path: Path) -> None:
    data = _own_features(tmp_path, 150)  # 135 are left beside the validation data
    rows = updating.NewSizes().run(Cell("new-sizes", "dtd", 0, "fast"), data)
    assert {row.x for row in rows} == {10, 20, 30}
