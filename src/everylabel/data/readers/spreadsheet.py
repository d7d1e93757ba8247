"""Excel's .xlsx files: the cells of the first sheet, read by python-calamine."""

import re
import warnings
import zipfile
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from everylabel.core import room
from everylabel.core.errors import EverylabelError, EverylabelWarning, listed

XML, CELLS = 0.04, 0.25  # shares of this machine's memory: what a file unpacks to, what its table takes
CELL = 40  # bytes that an empty cell takes: 32 of calamine's, 8 of a list
WIDEST, HIGHEST = 16_384, 1_048_576  # XFD1048576 is the last cell of a sheet
PLACE = re.compile(rb"""<(?:\w+:)?(?:row|c)\b[^<>]*?\sr\s*=\s*["']([A-Za-z]*)(\d*)""")  # of a row or a cell
ERRORS = {"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#GETTING_DATA"}
Sheet = tuple[list[str], list[list[Any]]]


def read_sheet(path: Path) -> Sheet:
    """Return the header and the rows of the first sheet without empty rows; warn of other sheets."""
    about = path.stat()
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)  # it is asked for its header, for some rows, for all
def _read(path: Path, changed: int, size: int) -> Sheet:
    from python_calamine import CalamineWorkbook  # here, so that only those wait who have a spreadsheet

    try:
        _check_size(path)
        with CalamineWorkbook.from_path(path) as book:
            names = book.sheet_names
            found = ([_value(cell) for cell in row] for row in book.get_sheet_by_index(0).iter_rows())
            rows = [row for row in found if any(cell is not None for cell in row)]
    except (EverylabelError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of calamine's on a damaged file is no Exception
        raise EverylabelError(
            f"path {str(path)!r} is no .xlsx file, or has a password ({error}); save it anew as .xlsx or .csv"
        ) from error
    if len(names) > 1:
        warnings.warn(
            f"{path.name} has {len(names)} sheets; the first is read, {names[0]!r}, not {listed(names[1:])}",
            EverylabelWarning,
            stacklevel=3,
        )
    return _table(path, rows)


def _check_size(path: Path) -> None:
    """Refuse a file that would not fit into memory: calamine holds every cell up to the last one."""
    columns = rows = 1
    with zipfile.ZipFile(path) as archive:
        size = room.unpacked_size(archive)
        _check_room(path, size, XML)
        for entry in archive.infolist():
            for letters, number in PLACE.findall(archive.read(entry)):
                columns, rows = max(columns, _column(letters)), max(rows, int(number[:8] or 0))
    if columns > WIDEST or rows > HIGHEST:
        raise ValueError("it has cells beyond the last one of a sheet, XFD1048576")
    _check_room(path, CELL * columns * rows, CELLS)


def _check_room(path: Path, size: int, share: float) -> None:
    if size > share * room.memory():
        raise EverylabelError(
            f"path {str(path)!r} unpacks to {size / 1e9:,.1f} GB or more, too much for this machine's memory "
            f"of {room.memory() / 1e9:,.1f} GB; save it as .csv, which is read row by row"
        )


def _column(letters: bytes) -> int:
    """Return the number, from 1, of a column such as AB."""
    number = 0
    for letter in letters.upper()[:5]:
        number = 26 * number + letter - ord("A") + 1
    return number


def _table(path: Path, rows: list[list[Any]]) -> Sheet:
    """Return the header, and rows as long as it; refuse rows that have cells beyond it."""
    if not rows:
        return [], []
    header = ["" if cell is None else str(cell).strip() for cell in rows[0]]
    while not header[-1]:
        header.pop()
    width = len(header)
    too_long = [
        f"row {i}" for i, row in enumerate(rows[1:], 2) if any(cell is not None for cell in row[width:])
    ]
    if too_long:
        raise EverylabelError(
            f"{len(too_long):,} row(s) of {path.name} have more cells than the header's {width}: "
            f"{listed(too_long)}; name these columns in the first row, or empty their cells"
        )
    return header, [row[:width] for row in rows[1:]]


def _value(cell: Any) -> Any:
    """Return a cell as it is shown: whole numbers without a point, dates as text, errors as nothing."""
    if cell == "" or (isinstance(cell, str) and cell in ERRORS):
        return None
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="seconds")
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else cell
    return cell if isinstance(cell, str | bool | int) else str(cell)
