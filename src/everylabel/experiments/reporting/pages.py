"""Reports as Markdown, and the same as a self-contained HTML page."""

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote

from markdown_it import MarkdownIt

VERDICTS = ("holds", "does not hold", "mixed", "undecided", "not tested")
Table = list[list[str]]  # the first row is the heading


class Picture(NamedTuple):
    """A plot: its file, its description, and its bytes."""

    file: str
    caption: str
    png: bytes


class Section(NamedTuple):
    """A part of a report; a part without a note has tables only."""

    heading: str
    note: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    folded: tuple[str, Table] | None = None  # a table that is shown on request, with its summary


def as_markdown(head: Sequence[str], sections: Iterable[Section]) -> str:
    """Return a report as Markdown, with links to the pictures beside it."""
    lines = [*head]
    for section in sections:
        lines += ["", f"## {section.heading}"]
        lines += ["", section.note] if section.note else []
        for picture in section.pictures:
            lines += ["", f"![{picture.caption}]({quote(picture.file)})"]
        for table in section.tables:
            lines += ["", *table_lines(table)]
        if section.folded is not None:
            summary, table = section.folded
            lines += ["", f"<details><summary>{summary}</summary>", "", *table_lines(table), "", "</details>"]
    return "\n".join(lines) + "\n"


def table_lines(rows: Table) -> list[str]:
    """Return the lines of a table in Markdown."""
    cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows]
    body = ["| " + " | ".join(row) + " |" for row in cells]
    return [body[0], "|" + "---|" * len(rows[0]), *body[1:]]


def as_html(title: str, markdown: str, sections: Iterable[Section]) -> str:
    """Return a page of a Markdown text: a list of its headings in front, the sections' pictures inside."""
    reader = MarkdownIt("commonmark").enable("table").disable("html_inline")
    reader.add_render_rule("html_block", _html_block)
    body = reader.render(markdown)
    for picture in (each for section in sections for each in section.pictures):
        data = base64.b64encode(picture.png).decode()
        body = body.replace(f'src="{quote(picture.file)}"', f'src="data:image/png;base64,{data}"')
    body = re.sub(f"<td>({'|'.join(VERDICTS)})</td>", _coloured, body)
    body, links = re.sub("<h2>(.*)</h2>", _anchored, body), re.findall("<h2>(.*)</h2>", body)
    items = "".join(f'<li><a href="#{_anchor(heading)}">{heading}</a></li>' for heading in links)
    return PAGE.format(title=title, body=body.replace("</h1>", f"</h1><nav><ul>{items}</ul></nav>", 1))


def _html_block(_: Any, tokens: Any, at: int, *__: Any) -> str:
    """Return the frame of a folded part as HTML, and other HTML (of a command, of a name) as text."""
    text = tokens[at].content
    folded = re.fullmatch(r"<details><summary>[^<]*</summary>\s*|</details>\s*", text)
    return text if folded else f"<p>{escape(text)}</p>\n"


def _coloured(cell: re.Match[str]) -> str:
    return f'<td class="{cell[1].replace(" ", "-")}">{cell[1]}</td>'


def _anchored(heading: re.Match[str]) -> str:
    return f'<h2 id="{_anchor(heading[1])}">{heading[1]}</h2>'


def _anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ margin-top: 2.5rem; border-bottom: 1px solid #8884; padding-bottom: .2rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; font-size: .88rem; }}
th, td {{ text-align: left; padding: .25rem .7rem; border-bottom: 1px solid #8884; vertical-align: top; }}
th {{ white-space: nowrap; }} td {{ font-variant-numeric: tabular-nums; min-width: 4rem; }}
nav ul {{ columns: 22rem; }}
img {{ max-width: 100%; height: auto; background: white; display: block; margin: 1rem 0; }}
.holds {{ color: #0a7d32; font-weight: 600; }} .does-not-hold {{ color: #c02020; font-weight: 600; }}
.mixed {{ color: #b07000; font-weight: 600; }} .undecided, .not-tested {{ color: #777; }}
@media (prefers-color-scheme: dark) {{ .holds {{ color: #5fd38a; }} .does-not-hold {{ color: #ff8080; }}
  .mixed {{ color: #ffc04d; }} }}
</style>
{body}
</html>
"""
