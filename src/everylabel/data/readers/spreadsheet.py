"""Excel's .xlsx files: the cells of the first sheet, from the XML in the archive, without another library.

A cell holds a number, a piece of text (its own, or the number of one that the sheets share), true or false,
or an error. Dates are numbers of days, which only the cell's style tells from other numbers.
"""

import re
import warnings
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from everylabel.core.errors import EverylabelError, EverylabelWarning, listed

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
DATES = {*range(14, 23), 27, 30, 36, *range(45, 48), 50, 57}  # formats that every file has
START, START_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
UNSHOWN = re.compile(r'"[^"]*"|\[[^]]*]|\\.')  # in a format: words, colours, single characters
Sheet = tuple[list[str], list[list[Any]]]


def read_sheet(path: Path) -> Sheet:
    """Return the header and the rows of the first sheet, empty rows left out; others are told of."""
    about = path.stat()
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)  # it is asked for its header, for some rows, for all
def _read(path: Path, changed: int, size: int) -> Sheet:
    try:
        with zipfile.ZipFile(path) as archive:
            book = _parsed(archive, "xl/workbook.xml")
            sheets = book.findall(f"{MAIN}sheets/{MAIN}sheet")
            _tell_others(path, [str(sheet.get("name")) for sheet in sheets])
            texts, dates = _texts(archive), _date_styles(archive)
            properties = book.find(f"{MAIN}workbookPr")
            late = properties is not None and properties.get("date1904") in ("1", "true")
            start = START_1904 if late else START
            with archive.open(_place(archive, str(sheets[0].get(RELATION)))) as file:
                rows = list(_rows(file, texts, dates, start))
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, IndexError, ValueError) as error:
        raise EverylabelError(
            f"path {str(path)!r} is no .xlsx file, or has a password ({error}); save it anew as .xlsx or .csv"
        ) from error
    if not rows:
        return [], []
    header = ["" if cell is None else str(cell).strip() for cell in rows[0]]
    beyond = ((i, row[len(header) :]) for i, row in enumerate(rows[1:], 2))
    too_long = [f"row {i}" for i, cells in beyond if any(cell is not None for cell in cells)]
    if too_long:
        raise EverylabelError(
            f"{len(too_long):,} row(s) of {path.name} have more cells than the header's {len(header)}: "
            f"{listed(too_long)}; name these columns in the first row, or empty their cells"
        )
    width = len(header)
    return header, [[*row[:width], *[None] * (width - len(row))] for row in rows[1:]]


def _tell_others(path: Path, names: list[str]) -> None:
    if len(names) > 1:
        warnings.warn(
            f"{path.name} has {len(names)} sheets; the first is read, {names[0]!r}, not {listed(names[1:])}",
            EverylabelWarning,
            stacklevel=3,
        )


def _parsed(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(name))


def _place(archive: zipfile.ZipFile, relation: str) -> str:
    """Return where a sheet lies in the archive."""
    for each in _parsed(archive, "xl/_rels/workbook.xml.rels"):
        if each.get("Id") == relation:
            target = str(each.get("Target"))
            return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    raise KeyError(relation)


def _texts(archive: zipfile.ZipFile) -> list[str]:
    """Return the texts that sheets share."""
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    return [_text(entry) for entry in _parsed(archive, "xl/sharedStrings.xml").findall(f"{MAIN}si")]


def _text(entry: ElementTree.Element) -> str:
    """Return a text, whatever parts have fonts of their own; without hints on how it is spoken."""
    parts = [*entry.findall(f"{MAIN}t"), *entry.findall(f"{MAIN}r/{MAIN}t")]
    text = "".join(part.text or "" for part in parts)
    return re.sub(r"_x([0-9A-Fa-f]{4})_", lambda match: chr(int(match[1], 16)), text)


def _date_styles(archive: zipfile.ZipFile) -> set[int]:
    """Return the numbers of styles that show a date."""
    if "xl/styles.xml" not in archive.namelist():
        return set()
    styles = _parsed(archive, "xl/styles.xml")
    own = {
        int(each.get("numFmtId", 0))
        for each in styles.findall(f"{MAIN}numFmts/{MAIN}numFmt")
        if re.search("[ymdhs]", UNSHOWN.sub("", each.get("formatCode", "").lower()))
    }
    used = styles.findall(f"{MAIN}cellXfs/{MAIN}xf")
    return {i for i, each in enumerate(used) if int(each.get("numFmtId", 0)) in DATES | own}


def _rows(file: Any, texts: list[str], dates: set[int], start: datetime) -> Iterator[list[Any]]:
    for _, element in ElementTree.iterparse(file):
        if element.tag != f"{MAIN}row":
            continue
        row: list[Any] = []
        for cell in element.findall(f"{MAIN}c"):
            at = _column(cell.get("r", "")) if cell.get("r") else len(row)
            row += [None] * (at + 1 - len(row))
            row[at] = _value(cell, texts, dates, start)
        if any(cell is not None for cell in row):
            yield row
        element.clear()


def _column(place: str) -> int:
    """Return the number, from 0, of the column of a cell such as AB12."""
    number = 0
    for letter in re.match("[A-Z]+", place.upper())[0]:  # type: ignore[index]
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _value(cell: ElementTree.Element, texts: list[str], dates: set[int], start: datetime) -> Any:
    kind, inside = cell.get("t", "n"), cell.find(f"{MAIN}is")
    if inside is not None:
        return _text(inside)
    stored = cell.findtext(f"{MAIN}v")
    if not stored or kind == "e":  # a formula never computed, or an error such as #N/A, is no content
        return None
    if kind == "s":
        return texts[int(stored)]
    if kind == "b":
        return stored == "1"
    if kind != "n":
        return stored
    number = float(stored)
    if int(cell.get("s", 0)) in dates:
        moment = start + timedelta(seconds=round(number * 86_400))
        return moment.date().isoformat() if number.is_integer() else moment.isoformat(timespec="seconds")
    return int(number) if number.is_integer() else number
