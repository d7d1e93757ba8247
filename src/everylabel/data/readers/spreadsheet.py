"""Excel's .xlsx files: the cells of the first sheet, from the XML in the archive, without another library.

A cell holds a number, a piece of text (its own, or the number of one that the sheets share), true or false,
or an error. Dates are numbers of days, which only the cell's style tells from other numbers.
"""

import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from everylabel.core import room
from everylabel.core.errors import EverylabelError, EverylabelWarning, listed

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
DATES = {*range(14, 23), 27, 30, 36, *range(45, 48), 50, 57}  # formats that every file has
START, START_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
UNSHOWN = re.compile(r'"[^"]*"|\[[^]]*]|\\.')  # in a format: words, colours, single characters
WIDEST = 16_384  # columns, up to XFD
XML, CELLS = 0.04, 0.25  # shares of this machine's memory: what a file unpacks to, what its table takes
SETTINGS = 2**24  # bytes of XML that is no sheet and no text
INSIDE, DEEPEST = 200_000, 100  # elements of a row or a text, and in each other; they take much more than XML
# what an archive, its XML and odd cells raise
DAMAGE = (
    *(zipfile.BadZipFile, ElementTree.ParseError, zlib.error, lzma.LZMAError, EOFError),
    *(KeyError, IndexError, ValueError, TypeError, OverflowError, MemoryError, RuntimeError),
)
Row = dict[int, Any]  # by column
Sheet = tuple[list[str], list[list[Any]]]


def read_sheet(path: Path) -> Sheet:
    """Return the header and the rows of the first sheet, empty rows left out; others are told of."""
    about = path.stat()
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)  # it is asked for its header, for some rows, for all
def _read(path: Path, changed: int, size: int) -> Sheet:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_room(path, room.unpacked_size(archive), XML)
            book = _parsed(archive, "xl/workbook.xml")
            sheets = book.findall(f"{MAIN}sheets/{MAIN}sheet")
            _tell_others(path, [str(sheet.get("name")) for sheet in sheets])
            texts, dates = _texts(archive), _date_styles(archive)
            properties = book.find(f"{MAIN}workbookPr")
            late = properties is not None and properties.get("date1904") in ("1", "true")
            start = START_1904 if late else START
            with archive.open(_place(archive, str(sheets[0].get(RELATION)))) as file:
                return _table(path, _rows(file, texts, dates, start))
    except EverylabelError:
        raise
    except DAMAGE as error:
        raise EverylabelError(
            f"path {str(path)!r} is no .xlsx file, or has a password ({error}); save it anew as .xlsx or .csv"
        ) from error


def _check_room(path: Path, size: int, share: float) -> None:
    if size > share * room.memory():
        raise EverylabelError(
            f"path {str(path)!r} unpacks to {size / 1e9:,.1f} GB or more, too much for this machine's memory "
            f"of {room.memory() / 1e9:,.1f} GB; save it as .csv, which is read row by row"
        )


def _table(path: Path, rows: Iterator[Row]) -> Sheet:
    """Return the header, and rows as long as it; refuse rows that have cells beyond it."""
    first = next(rows, None)
    if first is None:
        return [], []
    width = max(first) + 1
    header = ["" if first.get(at) is None else str(first[at]).strip() for at in range(width)]
    table, too_long = list[list[Any]](), list[str]()
    for i, row in enumerate(rows, 2):
        _check_room(path, 8 * i * width, CELLS)
        table.append([row.get(at) for at in range(width)])
        if any(at >= width and cell is not None for at, cell in row.items()):
            too_long.append(f"row {i}")
    if too_long:
        raise EverylabelError(
            f"{len(too_long):,} row(s) of {path.name} have more cells than the header's {width}: "
            f"{listed(too_long)}; name these columns in the first row, or empty their cells"
        )
    return header, table


def _tell_others(path: Path, names: list[str]) -> None:
    if len(names) > 1:
        warnings.warn(
            f"{path.name} has {len(names)} sheets; the first is read, {names[0]!r}, not {listed(names[1:])}",
            EverylabelWarning,
            stacklevel=3,
        )


def _parsed(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    """Return a small part of the archive, whole."""
    size = archive.getinfo(name).file_size
    if size > SETTINGS:
        raise ValueError(f"{name} has {size / 1e6:,.0f} MB")
    return ElementTree.fromstring(archive.read(name))


def _each(file: Any, tag: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of a name, each whole; nothing that has ended is held, whatever else there is."""
    around: list[ElementTree.Element] = []
    wanted, inside = 0, 0  # elements of that name that have begun, and others in them
    for event, element in ElementTree.iterparse(file, ("start", "end")):
        if event == "start":
            around.append(element)
            wanted, inside = wanted + (element.tag == tag), inside + 1 if wanted else 0
            if len(around) > DEEPEST or inside > INSIDE:
                raise ValueError("it has more elements in one than a program writes")
            continue
        around.pop()
        if element.tag == tag:
            wanted -= 1
            yield element
        if around and not wanted:
            around[-1].remove(element)


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
    with archive.open("xl/sharedStrings.xml") as file:
        return [_text(entry) for entry in _each(file, f"{MAIN}si")]


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


def _rows(file: Any, texts: list[str], dates: set[int], start: datetime) -> Iterator[Row]:
    for element in _each(file, f"{MAIN}row"):
        row: Row = {}
        at = -1
        for cell in element.findall(f"{MAIN}c"):
            at = _column(cell.get("r", "")) if cell.get("r") else at + 1
            row[at] = _value(cell, texts, dates, start)
        if any(cell is not None for cell in row.values()):
            yield row


def _column(place: str) -> int:
    """Return the number, from 0, of the column of a cell such as AB12."""
    number = 0
    for letter in re.match("[A-Z]+", place.upper())[0]:  # type: ignore[index]
        number = 26 * number + ord(letter) - ord("A") + 1
        if number > WIDEST:
            raise ValueError(f"cell {place!r:.40} is beyond the last column, XFD")
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
        try:
            moment = start + timedelta(seconds=round(number * 86_400))
        except (OverflowError, ValueError):  # no date: the program that wrote it shows none, either
            return stored
        return moment.date().isoformat() if number.is_integer() else moment.isoformat(timespec="seconds")
    return int(number) if number.is_integer() else number
