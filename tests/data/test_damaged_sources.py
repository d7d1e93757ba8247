"""Every reader reads damaged files, or reports the damage in a sentence."""

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.data.read import read
from tests.damage import damaged
from tests.data.spreadsheets import write_xlsx

ROWS: list[dict[str, Any]] = [
    {"id": f"a{i}", "text": f'some "words" {i}, ü', "kind": "ab"[i % 2], "n": i} for i in range(6)
]
CELLS = [list(ROWS[0]), *(list(row.values()) for row in ROWS)]


def delimited(by: str) -> bytes:
    lines = (by.join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in CELLS)
    return "\n".join(lines).encode()


def parquet() -> bytes:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    file = io.BytesIO()
    write_table(arrow.Table.from_pylist(ROWS), file)
    return file.getvalue()


def xlsx() -> bytes:
    with TemporaryDirectory() as folder:
        return write_xlsx(Path(folder) / "x.xlsx", CELLS).read_bytes()


def array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.random.default_rng(0).normal(size=(6, 3)))
    return file.getvalue()


def arrays() -> bytes:
    file, rng = io.BytesIO(), np.random.default_rng(0)
    ids, classes = np.array(list("abcdef")), np.array(["u", "v"])
    np.savez(file, X=rng.normal(size=(6, 3)), y=np.arange(6) % 2, ids=ids, classes=classes)
    return file.getvalue()


WHOLE: dict[str, Callable[[], bytes]] = {
    "csv": lambda: delimited(","),
    "tsv": lambda: delimited("\t"),
    "json": lambda: json.dumps(ROWS).encode(),
    "jsonl": lambda: "\n".join(map(json.dumps, ROWS)).encode(),
    "parquet": parquet,
    "xlsx": xlsx,
    "npy": array,
    "npz": arrays,
}
COLUMNS = Options(text_column="text", label_column="kind", id_column="id")
whole = cache(lambda ending: WHOLE[ending]())


@pytest.mark.parametrize("ending", WHOLE)
@hypothesis.settings(max_examples=100)
@hypothesis.given(data=st.data())
def test_a_damaged_file_is_read_or_reported(ending: str, data: st.DataObject) -> None:
    content = data.draw(damaged(whole(ending)))
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"x.{ending}"
        path.write_bytes(content)
        try:
            items = read(str(path), Options() if ending in ("npy", "npz") else COLUMNS)
        except EverylabelError as error:
            assert str(error)  # noqa: PT017
            return
        assert len(items.ids) == len(items.digests) == len(items)


@hypothesis.settings(max_examples=300)
@hypothesis.given(data=st.data())
def test_a_damaged_part_of_a_spreadsheet_is_read_or_reported(data: st.DataObject) -> None:
    """Return the content of the archive, which a damaged archive seldom shows."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "x.xlsx"
        with zipfile.ZipFile(io.BytesIO(whole("xlsx"))) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        odd = data.draw(st.sampled_from(sorted(parts)))
        parts[odd] = data.draw(damaged(parts[odd]))
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        try:
            assert read(str(path), COLUMNS).items
        except EverylabelError as error:
            assert str(error)  # noqa: PT017


@pytest.mark.parametrize("ending", WHOLE)
def test_the_whole_file_is_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_bytes(whole(ending))
    assert len(read(str(path), Options() if ending in ("npy", "npz") else COLUMNS)) == 6
