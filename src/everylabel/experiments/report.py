"""The report: one self-contained HTML page, and the same as Markdown with plots for docs/results."""

import html
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from everylabel.experiments import illustrations
from everylabel.experiments.catalogue import EXPERIMENTS, rows_of
from everylabel.experiments.claims import Verdict, judge
from everylabel.experiments.plots import accuracy_panels, as_img, as_png
from everylabel.experiments.results import Results, Row
from everylabel.experiments.summary import curve_mean, curves, datasets_of

LABELS = {
    "step-size": "size of D+",
    "stages": "size of D",
    "new-sizes": "size of D+",
    "speed-up": "size of D",
}
RELATIVE = {"stages": "baseline", "batch-selection": "random", "look-ahead": "random"}
RELATIVE |= dict.fromkeys(("label-noise", "imbalance"), "random")


class Section(NamedTuple):
    """One experiment's part of the report."""

    name: str
    heading: str
    note: str
    figures: list[tuple[str, Figure]]  # file name, figure
    table: list[list[str]]  # the first row is the heading


def write_report(results: Results, training: str, command: str, folder: Path) -> Path:
    """Write report.html, README.md and the plots into `folder`; return the page's path."""
    rows = {name: rows_of(results, name, training) for name in EXPERIMENTS}
    sections = [_section(name, found) for name, found in rows.items() if found]
    pictures = [
        ("monte-carlo.png", "Monte Carlo reweighting (Fig. 1)", illustrations.monte_carlo_picture()),
        ("boundary.png", "A decision boundary before and after", illustrations.boundary_picture()),
    ]
    facts = _facts(rows, training, command)
    verdicts = judge(rows)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    page.write_text(_html(facts, verdicts, sections, pictures))
    (folder / "README.md").write_text(_markdown(facts, verdicts, sections, pictures))
    for name, figure in [*((n, f) for n, _, f in pictures), *(pair for s in sections for pair in s.figures)]:
        (folder / name).write_bytes(as_png(figure))
    return page


def _facts(rows: dict[str, list[Row]], training: str, command: str) -> list[tuple[str, str]]:
    reps = {name: len({row.repetition for row in found}) for name, found in rows.items() if found}
    how = "the paper's recipe (RAdam, 200 epochs)" if training == "recipe" else "exact training (fit_map)"
    return [
        ("command", command),
        ("training", how),
        ("repetitions", ", ".join(f"{name} {n}" for name, n in reps.items())),
        ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by everylabel {version('everylabel')}"),
        ("machine", f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"),
    ]


def _section(name: str, rows: list[Row]) -> Section:
    experiment = EXPERIMENTS[name]
    note = (experiment.__doc__ or "").split("\n")[0]
    heading = f"{experiment.title} ({experiment.figure})"
    if name == "speed-up":
        return Section(name, heading, note, [], _speed_table(rows))
    label = LABELS.get(name, "labels")
    figures = [(f"{name}.png", accuracy_panels(rows, label, log=name == "stages"))]
    if name in RELATIVE:
        relative = accuracy_panels(rows, label, relative_to=RELATIVE[name], log=name == "stages")
        figures.append((f"{name}-difference.png", relative))
    return Section(name, heading, note, figures, _mean_table(rows))


def _mean_table(rows: list[Row]) -> list[list[str]]:
    """Return the mean over the curve of every variant, ± its standard error, a column a dataset."""
    datasets = datasets_of(rows)
    variants = list(dict.fromkeys(row.variant for row in rows))
    table = [["mean accuracy over the curve", *datasets]]
    for variant in variants:
        table.append([variant, *(str(curve_mean(rows, "accuracy", d, variant)) for d in datasets)])
    if any(row.metric == "distance" for row in rows):
        for variant in variants:
            cells = [str(curve_mean(rows, "distance", d, variant)) for d in datasets]
            table.append([f"distance to retraining: {variant}", *cells])
    return table


def _speed_table(rows: list[Row]) -> list[list[str]]:
    table = [["update, over", "dataset", *(f"|D| = {x:g}" for x in sorted({row.x for row in rows}))]]
    for metric in sorted({row.metric for row in rows}):
        for dataset in datasets_of(rows):
            for variant, curve in curves(rows, metric, dataset).items():
                cells = [f"{e.mean:,.0f}x" if e.mean >= 10 else f"{e.mean:.1f}x" for e in curve.values()]
                table.append([f"{variant}, {metric.removeprefix('speed-up ')}", dataset, *cells])
    return table


Pictures = Sequence[tuple[str, str, Figure]]


def _html(
    facts: list[tuple[str, str]], verdicts: list[Verdict], sections: list[Section], pictures: Pictures
) -> str:
    parts = [f"<h1>everylabel: the paper, reproduced</h1>{_html_table([list(f) for f in facts], head=False)}"]
    claims = [["claim", "where", "verdict", "found"], *(list(v) for v in verdicts)]
    parts.append(f"<h2>The paper's claims</h2>{_html_table(claims)}")
    for section in sections:
        images = "".join(as_img(figure, section.heading) for _, figure in section.figures)
        parts.append(f"<h2>{html.escape(section.heading)}</h2><p>{html.escape(section.note)}</p>{images}")
        parts.append(_html_table(section.table))
    parts += [f"<h2>{html.escape(title)}</h2>{as_img(figure, title)}" for _, title, figure in pictures]
    return _PAGE.format(body="\n".join(parts))


def _html_table(rows: list[list[str]], head: bool = True) -> str:
    lines = []
    for i, row in enumerate(rows):
        tag = "th" if head and i == 0 else "td"
        cells = "".join(f'<{tag} class="{c.replace(" ", "-")}">{html.escape(c)}</{tag}>' if c in _VERDICTS
                        else f"<{tag}>{html.escape(c)}</{tag}>" for c in row)  # fmt: skip
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


_VERDICTS = ("holds", "does not hold", "mixed", "not tested")
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>everylabel: the paper, reproduced</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }}
th, td {{ text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #8884; vertical-align: top; }}
img {{ max-width: 100%; height: auto; background: white; }}
.holds {{ color: #0a7d32; font-weight: 600; }} .does-not-hold {{ color: #c02020; font-weight: 600; }}
.mixed {{ color: #b07000; font-weight: 600; }}
</style>
{body}
</html>
"""


def _markdown(
    facts: list[tuple[str, str]], verdicts: list[Verdict], sections: list[Section], pictures: Pictures
) -> str:
    lines = ["# The paper, reproduced", "", "Made by the command below; not edited by hand.", ""]
    lines += [f"- {name}: {f'`{text}`' if name == 'command' else text}" for name, text in facts]
    claims = [["claim", "where", "verdict", "found"], *(list(v) for v in verdicts)]
    lines += ["", "## The paper's claims", "", *_md_table(claims)]
    for section in sections:
        lines += ["", f"## {section.heading}", "", section.note, ""]
        lines += [f"![{section.heading}]({name})" for name, _ in section.figures]
        lines += ["", *_md_table(section.table)]
    for name, title, _ in pictures:
        lines += ["", f"## {title}", "", f"![{title}]({name})"]
    return "\n".join(lines) + "\n"


def _md_table(rows: list[list[str]]) -> list[str]:
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [body[0], "|" + "---|" * len(rows[0]), *body[1:]]
