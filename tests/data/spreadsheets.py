"""Excel files with the cells that Excel writes: shared texts, rich texts, numbers, dates, gaps."""

import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
STYLES = f"""<styleSheet xmlns="{MAIN}"><numFmts count="2">
<numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>
<numFmt numFmtId="165" formatCode="0.0 &quot;days&quot;"/></numFmts><cellXfs count="4"><xf numFmtId="0"/>
<xf numFmtId="164"/><xf numFmtId="22"/><xf numFmtId="165"/></cellXfs></styleSheet>"""


def write_xlsx(path: Path, rows: list[list[Any]], sheets: tuple[str, ...] = ("Sheet1",)) -> Path:
    """Write rows to the first sheet: texts are shared, a (number, style) is shown by it, None is a gap."""
    texts: list[str] = []
    body = []
    for i, row in enumerate(rows, 1):
        cells = "".join(_cell(f"{chr(65 + j)}{i}", value, texts) for j, value in enumerate(row))
        body.append(f'<row r="{i}">{cells}</row>')
    whole = "".join(body)
    shared = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in texts)
    names = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in enumerate(sheets, 1))
    places = "".join(
        f'<Relationship Id="rId{i}" Type="{LINKS}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    places += f'<Relationship Id="texts" Type="{LINKS}/sharedStrings" Target="sharedStrings.xml"/>'
    places += f'<Relationship Id="styles" Type="{LINKS}/styles" Target="styles.xml"/>'
    book = f'<Relationship Id="book" Type="{LINKS}/officeDocument" Target="xl/workbook.xml"/>'
    parts = {
        "workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets>{names}</sheets></workbook>',
        "_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">{places}</Relationships>',
        "sharedStrings.xml": f'<sst xmlns="{MAIN}">{shared}</sst>',
        "styles.xml": STYLES,
        "worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{whole}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{PACKAGE}">{book}</Relationships>')
        for name, text in parts.items():
            archive.writestr(f"xl/{name}", text)
    return path


def _cell(place: str, value: Any, texts: list[str]) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        texts.append(value)
        return f'<c r="{place}" t="s"><v>{len(texts) - 1}</v></c>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    number, style = value if isinstance(value, tuple) else (value, 0)
    return f'<c r="{place}" s="{style}"><v>{number}</v></c>'
