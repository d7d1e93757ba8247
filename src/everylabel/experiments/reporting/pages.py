"""The report as a self-contained HTML page, and as Markdown."""

import html
import re
from typing import NamedTuple

from everylabel.experiments.reporting.plots import as_img

TRAININGS = {"recipe": "by the paper's recipe (RAdam, 200 epochs)", "fast": "to the optimum by fit_map"}
MADE = "Made by the command below; not edited by hand."
VERDICTS = ("holds", "does not hold", "mixed", "undecided", "not tested")
RULE = (
    "Each claim is tested by a number that is positive if the claim is right, computed in every repetition. "
    "A dataset supports the claim if the 95% confidence interval of the mean over repetitions (Student's t) "
    "lies above zero, and contradicts it if below; differences of less than a tenth of a point of accuracy "
    "do neither. A claim holds if no dataset contradicts it and at least half support it (one, for a claim "
    "that something can happen); it does not hold if some contradict and none supports it; it is undecided "
    "if none does either; all else is mixed. Only the datasets that the paper's sentence or figure shows "
    "are counted; others are listed after the bar. A dataset with one repetition is not counted. A claim to "
    "beat all others is supported only where all were measured."
)
Table = list[list[str]]  # the first row is the heading


class Picture(NamedTuple):
    """A plot: its file, its description, and its bytes."""

    file: str
    caption: str
    png: bytes


class Section(NamedTuple):
    """A part of the report."""

    heading: str
    note: str
    pictures: list[Picture]
    tables: list[Table]


class Report(NamedTuple):
    """The content of page and README, in this order."""

    facts: list[tuple[str, str]]
    repetitions: Table  # what was run
    sections: list[Section]
    verdicts: Table
    claims: Table  # claims that were tested
    untested: Table  # the number of claims that were not tested
    runs: Table
    data: Table


CLAIMS, RUN, RUNS = "The paper's claims", "Experiments", "Runs and data"


def as_html(report: Report) -> str:
    """Return the report as HTML."""
    facts = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in report.facts)
    parts = [f"<h1>everylabel: the paper, reproduced</h1><dl>{facts}</dl>"]
    headings = [RUN, *(section.heading for section in report.sections), CLAIMS, RUNS]
    links = "".join(
        f'<li><a href="#{_anchor(name)}">{html.escape(name, quote=False)}</a></li>' for name in headings
    )
    parts.append(f"<nav><ul>{links}</ul></nav>")
    parts.append(f"{_h2(RUN)}{_html_table(report.repetitions)}")
    parts += [section_html(section) for section in report.sections]
    parts.append(f"{_h2(CLAIMS)}<p>{RULE}</p>{_html_table(report.verdicts)}")
    parts.append(_html_table(report.claims, "claims") if report.claims[1:] else "")
    if report.untested[1:]:
        summary = f"<summary>{_not_tested(report)}</summary>"
        parts.append(f"<details>{summary}{_html_table(report.untested, 'claims')}</details>")
    parts.append(f"{_h2(RUNS)}{_html_table(report.runs)}{_html_table(report.data)}")
    return PAGE.format(title="everylabel: the paper, reproduced", body="\n".join(parts))


def section_html(section: Section) -> str:
    """Return a section: heading, note, pictures, tables."""
    parts = [f"{_h2(section.heading)}<p>{html.escape(section.note)}</p>"]
    parts += [as_img(picture.png, html.escape(picture.caption)) for picture in section.pictures]
    return "".join([*parts, *(_html_table(table) for table in section.tables)])


def _not_tested(report: Report) -> str:
    n = len(report.untested) - 1
    return f"{n} more {'claims are' if n > 1 else 'claim is'} not tested: nothing of it was measured here"


def _h2(heading: str) -> str:
    return f'<h2 id="{_anchor(heading)}">{html.escape(heading, quote=False)}</h2>'


def _anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def _html_table(rows: Table, kind: str = "") -> str:
    lines = []
    for i, row in enumerate(rows):
        tag = "th" if i == 0 else "td"
        cells = []
        for cell in row:
            mark = f' class="{cell.replace(" ", "-")}"' if cell in VERDICTS else ""
            cells.append(f"<{tag}{mark}>{html.escape(cell)}</{tag}>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table{f' class={kind!r}' if kind else ''}>{''.join(lines)}</table>"


def as_markdown(report: Report) -> str:
    """Return the report as Markdown, with links to the pictures beside it."""
    lines = ["# The paper, reproduced", "", MADE, ""]
    lines += [f"- {name}: {f'`{text}`' if name == 'command' else text}" for name, text in report.facts]
    lines += ["", f"## {RUN}", "", *_md_table(report.repetitions)]
    for section in report.sections:
        lines += ["", f"## {section.heading}", "", section.note]
        for picture in section.pictures:
            lines += ["", f"![{picture.caption}]({picture.file})"]
        for table in section.tables:
            lines += ["", *_md_table(table)]
    lines += ["", f"## {CLAIMS}", "", RULE, "", *_md_table(report.verdicts)]
    lines += ["", *_md_table(report.claims)] if report.claims[1:] else []
    lines += ["", f"{_not_tested(report)}.", "", *_md_table(report.untested)] if report.untested[1:] else []
    lines += ["", f"## {RUNS}", "", *_md_table(report.runs), "", *_md_table(report.data)]
    return "\n".join(lines) + "\n"


def _md_table(rows: Table) -> list[str]:
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [body[0], "|" + "---|" * len(rows[0]), *body[1:]]


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ margin-top: 2.5rem; border-bottom: 1px solid #8884; padding-bottom: .2rem; }}
dt {{ font-weight: 600; }} dd {{ margin: 0 0 .4rem 0; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; font-size: .88rem; }}
th, td {{ text-align: left; padding: .25rem .7rem; border-bottom: 1px solid #8884; vertical-align: top; }}
th {{ white-space: nowrap; }} td {{ font-variant-numeric: tabular-nums; min-width: 4rem; }}
.claims td:nth-child(2), .claims td:nth-child(6) {{ min-width: 18rem; }} nav ul {{ columns: 22rem; }}
img {{ max-width: 100%; height: auto; background: white; display: block; margin: 1rem 0; }}
.holds {{ color: #0a7d32; font-weight: 600; }} .does-not-hold {{ color: #c02020; font-weight: 600; }}
.mixed {{ color: #b07000; font-weight: 600; }} .undecided, .not-tested {{ color: #777; }}
@media (prefers-color-scheme: dark) {{ .holds {{ color: #5fd38a; }} .does-not-hold {{ color: #ff8080; }}
  .mixed {{ color: #ffc04d; }} }}
</style>
{body}
</html>
"""
