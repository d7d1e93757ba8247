"""The report: one self-contained HTML page, and the same as Markdown with plots for a code host.

Everything in it comes from the results file. Results of both trainings are shown where they exist.
"""

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.experiments.reporting.claims import UNMEASURED, judge
from everylabel.experiments.reporting.pages import VERDICTS, Section, Table, as_html, as_markdown, table_lines
from everylabel.experiments.reporting.plots import STYLES, monte_carlo_picture, panels, picture, step_panels
from everylabel.experiments.reporting.summary import (
    EXPERIMENTS,
    Runs,
    curve_mean,
    datasets_of,
    mean_curve,
    points,
    runs_of,
    times,
    title_of,
    variants_of,
)
from everylabel.experiments.results import Results, Row
from everylabel.experiments.updating import StepSize

TITLE = "everylabel: the paper, reproduced"
TRAININGS = {"recipe": "by the paper's recipe (RAdam, 200 epochs)", "fast": "to the optimum by fit_map"}
QUESTION = """\
This report answers: which claims of the paper hold when its experiments are repeated? The table counts the
claims by verdict and lists their numbers."""
WORDS = """\
*Recipe*: the last layer is trained by the paper's recipe. *Fast*: it is trained to the optimum by `fit_map`.
*Speed-up*: claims about time. Below, |D| is the number of labels before an update, and |D+| the number of new
ones."""
MADE = "Made by the command below; not edited by hand."
RULE = """\
Each claim is tested by a number that is positive if the claim is right, computed in every repetition.

- A dataset *supports* the claim if the 95% confidence interval of the mean over repetitions (Student's t)
  lies above zero, and *contradicts* it if the interval lies below zero. A difference of less than a tenth of
  a point of accuracy does neither.
- A claim *holds* if no dataset contradicts it and at least half support it. (If the claim is that something
  can happen, one is enough.)
- A claim *does not hold* if some dataset contradicts it and none supports it.
- A claim is *undecided* if no dataset contradicts or supports it. All other claims are *mixed*.
- Only the datasets that the paper's sentence or figure shows are counted; others are listed after the bar. A
  dataset with one repetition is not counted. A claim to beat all others is supported only if all were
  measured."""
BOTH = ""  # experiments that time both ways of training
SHORT = {"recipe": ", trained by the recipe", "fast": ", trained by fit_map", BOTH: ""}


def write_report(results: Results, command: str, folder: Path) -> Path:
    """Write report.html, README.md and the plots into `folder`; return the page's path."""
    rows = _stored(results)
    verdicts, claims = _claims(rows)
    sections = [
        claims,
        *(
            _section(name, training, rows[training][name])
            for name in EXPERIMENTS
            for training in rows
            if name in rows[training]
        ),
        *(_closeness(training, found["stages"]) for training, found in rows.items() if "stages" in found),
        _illustration(),
        _making(results, command, rows),
    ]
    head = ["# The paper, reproduced", "", QUESTION, "", *table_lines(verdicts), "", WORDS]
    text = as_markdown(head, sections)
    page, readme = folder / "report.html", folder / "README.md"
    check_folder(folder)
    try:
        pictures = {each.file: each.png for section in sections for each in section.pictures}
        before = readme.read_text(encoding="utf-8") if readme.is_file() else ""
        for old in set(re.findall(r"\]\(([\w-]+\.png)\)", before)) - pictures.keys():
            (folder / old).unlink(missing_ok=True)
        for file, png in pictures.items():
            (folder / file).write_bytes(png)
        readme.write_text(text, encoding="utf-8")
        page.write_text(as_html(TITLE, text, sections), encoding="utf-8")
    except OSError as error:
        raise EverylabelError(
            f"report folder {str(folder)!r}: {error}; the measurements are safe in {str(results.path)!r}: "
            "make room or name another folder with --report and run the command again"
        ) from error
    return page


def check_folder(folder: Path) -> None:
    """Create the report's folder; raise if it cannot be written or has a README that is no report."""
    advice = "name another folder with --report"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EverylabelError(
            f"report folder {str(folder)!r} cannot be written ({error}); {advice}"
        ) from error
    readme = folder / "README.md"
    if readme.is_file() and MADE not in readme.read_text(encoding="utf-8", errors="replace"):
        raise EverylabelError(
            f"report folder {str(folder)!r} has a README.md that is not a report and would be lost; {advice}"
        )


def _stored(results: Results) -> dict[str, dict[str, list[Row]]]:
    """Return all rows by training and experiment; speed-ups, which time all trainings, under BOTH."""
    rows = {training: _all_rows(results, training) for training in TRAININGS}
    timed = [
        row._replace(repetition=len(rows) * row.repetition + i)
        for i, found in enumerate(rows.values())
        for row in found.pop("speed-up", [])
    ]
    rows[BOTH] = {"speed-up": timed} if timed else {}
    return {training: found for training, found in rows.items() if found}


def _all_rows(results: Results, training: str) -> dict[str, list[Row]]:
    """Return the rows of all experiments that were run, variants in the order of the legend."""
    order = {variant: i for i, variant in enumerate(STYLES)}
    found = {}
    for name in EXPERIMENTS:
        experiment, own = EXPERIMENTS[name], _own(name)
        rows, shown = results.rows(experiment.grid, training), experiment.strategies
        rows = [row for row in rows if not shown or row.variant in shown]
        run_on = {row.dataset for row in rows if not own or row.variant in own}
        rows = [row for row in rows if row.dataset in run_on]
        found[name] = sorted(rows, key=lambda row: order.get(row.variant, 0))
    return {name: rows for name, rows in found.items() if rows}


def _own(name: str) -> set[str]:
    """Return the strategies that only this experiment shows: without them it was not run."""
    mine = EXPERIMENTS[name]
    others = [other for other in EXPERIMENTS.values() if other.grid == mine.grid and other is not mine]
    return set(mine.strategies).difference(*(other.strategies for other in others))


def _making(results: Results, command: str, rows: dict[str, dict[str, list[Row]]]) -> Section:
    """Return how the report was made: command, versions, repetitions, runs and data."""
    seconds, codes = results.seconds(), results.codes()
    note = [
        MADE,
        "",
        f"- command: `{command}`",
        f"- made: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by everylabel {version('everylabel')}",
        f"- cells: {len(seconds):,}, {_duration(sum(seconds.values()))} of one core's work",
        f"- measured by: {'; '.join(f'{code} ({n} cells)' for code, n in codes.items())}",
        *(f"- training, {name}: {text}" for name, text in TRAININGS.items()),
    ]
    runs = [["command", "began (UTC)", "machine"], *([c, s, m] for c, m, s in results.runs())]
    data = [["data", "digest"], *([title_of(name), digest] for name, digest in results.datasets().items())]
    tables = [_repetition_table(rows), runs, data]
    return Section("How this report was made", "\n".join(note), tables=tables)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _count(name: str, rows: list[Row], dataset: str) -> int:
    """Return the smallest number of repetitions over the variants on a dataset; 0 if a needed one lacks."""
    needed = set(EXPERIMENTS[name].strategies) - set(EXPERIMENTS[name].small_only)
    found: dict[str, set[int]] = defaultdict(set, {variant: set() for variant in needed})
    for row in rows:
        if row.dataset == dataset:
            found[row.variant].add(row.repetition)
    return min((len(some) for some in found.values()), default=0)


def _repetition_table(rows: dict[str, dict[str, list[Row]]]) -> Table:
    datasets = datasets_of(row for found in rows.values() for some in found.values() for row in some)
    table = [["repetitions", "training", *map(title_of, datasets)]]
    for name in EXPERIMENTS:
        for training, found in rows.items():
            if name in found:
                table.append([name, training, *(str(_count(name, found[name], d) or "") for d in datasets)])
    return table


def _claims(rows: dict[str, dict[str, list[Row]]]) -> tuple[Table, Section]:
    """Return the number of claims by verdict; the tested claims, a line per training, and the untested."""
    heading = ["", "claim", "where", "training", "verdict", "found (points of accuracy, ± standard error)"]
    tested, untested = list[list[str]](), list[list[str]]()
    judged = {training: judge(found) for training, found in rows.items()}
    for verdicts in zip(*judged.values(), strict=True):
        lines = [[*v[:3], t, *v[3:]] for t, v in zip(judged, verdicts, strict=True) if v.found != UNMEASURED]
        tested += lines
        untested += [] if lines else [[*verdicts[0][:3], "", *verdicts[0][3:]]]
    tables = [[heading, *tested]] if tested else []
    n = len(untested)
    what = f"{n} more {'claims are' if n > 1 else 'claim is'} not tested: nothing of it was measured here"
    folded = (what, [heading, *untested]) if untested else None
    section = Section("The paper's claims", RULE, tables=tables, folded=folded)
    return _verdicts([*tested, *untested]), section


def _verdicts(claims: Table) -> Table:
    """Return the claims of each verdict, a column per training."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for number, _, _, training, verdict, _ in claims:
        found[verdict][training].append(number)
    trainings = [training for training in (*TRAININGS, BOTH) if any(training in by for by in found.values())]
    table = [["claims", *(training or "speed-up, or not tested" for training in trainings)]]
    for verdict in VERDICTS:
        by = found[verdict]
        if by:
            cells = (f"{len(by[t])} ({', '.join(by[t])})" if t in by else "" for t in trainings)
            table.append([verdict, *cells])
    return table


def _section(name: str, training: str, rows: list[Row]) -> Section:
    experiment, file = EXPERIMENTS[name], f"{name}-{training}"
    short = ", trained fast" if experiment.on_items and training == "fast" else SHORT[training]
    heading = f"{experiment.title} ({experiment.figure}){short}"
    counts = {_count(name, rows, dataset) for dataset in datasets_of(rows)}
    repetitions = " to ".join(map(str, sorted({min(counts), max(counts)})))  # of datasets, fewest to most
    note = " ".join(filter(None, ((experiment.__doc__ or "").split("\n")[0], experiment.note)))
    by_training = training and not experiment.on_items
    note += f" {repetitions} repetitions" + (f", trained {TRAININGS[training]}." if by_training else ".")
    if name == "speed-up":
        ways = sorted({row.metric for row in rows})
        drawn = [
            picture(f"{name}-{i}", way, panels(rows, "|D|", way, metric=way, log="xy"))
            for i, way in enumerate(ways)
        ]
        return Section(heading, note, drawn, [_speed_table(rows)])
    means = _mean_table(rows, "accuracy", "mean accuracy over the curve")
    if name == "step-size":
        methods = {method.replace("_", " "): steps for method, steps in StepSize.steps.items()}
        drawn = [
            picture(
                f"{file}-{method.replace(' ', '-')}", f"{heading}: {method}", step_panels(rows, method, steps)
            )
            for method, steps in methods.items()
        ]
        return Section(heading, note, drawn, [means])
    xlabel, other = experiment.xlabel, experiment.relative_to
    log = "x" if name == "stages" else ""
    difference = panels(rows, xlabel, f"accuracy minus {other}", relative_to=other, log=log)
    pictures = [
        picture(f"{file}-difference", f"{heading}: difference to {other}", difference),
        picture(file, f"{heading}: accuracy", panels(rows, xlabel, "test accuracy", log=log)),
    ]

    def above(runs: Runs, variant: str) -> str:
        gap = curve_mean(runs, variant, other)
        return points(gap) if gap.n else ""

    def last(runs: Runs, variant: str) -> str:
        curve = mean_curve(runs, variant)
        return str(curve[max(curve)]) if curve else ""

    tables = [means, _table(rows, "accuracy", f"points above {other}, mean over the curve", above, other)]
    if xlabel == "labels":
        tables.append(_table(rows, "accuracy", "accuracy after the last cycle", last))
    if name == "network-updates":
        tables.append(_mean_table(rows, "seconds", "seconds of processor time, mean over the curve"))
    return Section(heading, note, pictures, tables)


def _closeness(training: str, rows: list[Row]) -> Section:
    """Return the distance of updates to retraining over the learning stages."""
    at_the_mean = [row for row in rows if row.variant != "Monte Carlo"]
    others = [row for row in at_the_mean if row.variant != "retraining"]
    apart = panels(others, "|D|", "mean total variation", metric="distance", log="x")
    heading = f"How close updates come to retraining (beyond the paper){SHORT[training]}"
    note = (
        f"Over the learning stages, |D+| = 10, trained {TRAININGS[training]}. Monte Carlo averages "
        "predictions where the others predict at the mean, so it has no distance."
    )
    table = _mean_table(at_the_mean, "distance", "distance to retraining (mean total variation)")
    return Section(heading, note, [picture(f"distance-{training}", "Distance to retraining", apart)], [table])


def _illustration() -> Section:
    caption = "Monte Carlo reweighting in one dimension (Fig. 1)"
    drawn = picture("monte-carlo", caption, monte_carlo_picture())
    return Section("Illustration", "The effect of an update.", [drawn])


def _table(
    rows: list[Row], metric: str, title: str, cell: Callable[[Runs, str], str], without: str = ""
) -> Table:
    """Return a table with a row per variant, except for one, and a column per dataset."""
    runs = {dataset: runs_of(rows, metric, dataset) for dataset in datasets_of(rows)}
    variants = [variant for variant in variants_of(rows) if variant != without]
    body = [[variant, *(cell(each, variant) for each in runs.values())] for variant in variants]
    return [[title, *map(title_of, runs)], *body]


def _mean_table(rows: list[Row], metric: str, title: str) -> Table:
    """Return the mean over the curve of every variant, ± its standard error."""
    return _table(rows, metric, title, lambda runs, variant: str(curve_mean(runs, variant)))


def _speed_table(rows: list[Row]) -> Table:
    sizes = sorted({row.x for row in rows})
    table = [["update, over", "dataset", *(f"|D| = {x:g}" for x in sizes)]]
    for metric in sorted({row.metric for row in rows}):
        way = metric.removeprefix("speed-up ")
        for dataset in datasets_of(rows):
            runs = runs_of(rows, metric, dataset)
            for variant in variants_of(rows):
                if curve := mean_curve(runs, variant):
                    cells = [times(curve[x]) if x in curve else "" for x in sizes]
                    table.append([f"{variant}, {way}", title_of(dataset), *cells])
    return table
