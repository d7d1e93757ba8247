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

from matplotlib.figure import Figure

from everylabel.core.errors import EverylabelError
from everylabel.experiments.network import STEPS
from everylabel.experiments.reporting import pages
from everylabel.experiments.reporting.claims import UNMEASURED, judge
from everylabel.experiments.reporting.pages import TRAININGS, VERDICTS, Picture, Section, Table
from everylabel.experiments.reporting.plots import (
    STYLES,
    as_png,
    monte_carlo_picture,
    panels,
    step_panels,
)
from everylabel.experiments.reporting.summary import (
    EXPERIMENTS,
    TITLES,
    curve_mean,
    curves,
    datasets_of,
    over_repetitions,
    points,
    rows_of,
    times,
)
from everylabel.experiments.results import Results, Row
from everylabel.experiments.selecting import BATCHES, LARGE
from everylabel.experiments.updating import MOST_NUMBERS, SAMPLES, StepSize

TITLE = "everylabel: the paper, reproduced"
BOTH = ""  # experiments that time both ways of training
SHORT = {"recipe": ", trained by the recipe", "fast": ", trained by fit_map", BOTH: ""}
_MOST = f"{MOST_NUMBERS // 10**6} million"
_SAMPLES = f"Monte Carlo: {SAMPLES:,} samples, fewer where they would have more than {_MOST} weights."
NOTES = {
    "step-size": _SAMPLES,
    "stages": _SAMPLES,
    "new-sizes": _SAMPLES,
    "speed-up": "Processor time of one thread for everything; first order updates the covariance, too.",
    "look-ahead": f"With b of {LARGE} and more the optimal look-ahead tries {BATCHES // 4} batches, each "
    f"learned jointly, instead of {BATCHES:,}, mixed batches are left out, and ours tries 60 candidates on "
    "300 instances before each pick instead of 300 on 1,000.",
}
NOTES |= dict.fromkeys(
    ("network-updates", "network-batches", "network-intervals"),
    "The network is trained by RAdam on a cosine schedule from its first weights: for 200 epochs, or fast, "
    f"for {STEPS} steps at most; a text encoder by its own recipe.",
)
XLABELS = {"stages": "|D|", "new-sizes": "|D+|", "speed-up": "|D|", "network-updates": "|D+|"}
RELATIVE = {"stages": "baseline", "new-sizes": "baseline", "whole-pool": "margin with updates"}
RELATIVE |= dict.fromkeys(("batch-selection", "look-ahead", "label-noise", "imbalance"), "random")
RELATIVE |= {"network-updates": "no update", "network-batches": "random"}
RELATIVE |= {"network-intervals": "every 10, no update"}


def write_report(results: Results, command: str, folder: Path) -> Path:
    """Write report.html, README.md and the plots into `folder`; return the page's path."""
    rows = _stored(results)
    sections = [
        _section(name, training, rows[training][name])
        for name in EXPERIMENTS
        for training in rows
        if name in rows[training]
    ]
    sections += [
        _closeness(training, rows[training]["stages"]) for training in rows if "stages" in rows[training]
    ]
    runs = [["command", "began (UTC)", "machine"], *([c, s, m] for c, m, s in results.runs())]
    data = [["data", "digest"], *([TITLES.get(name, name), d] for name, d in results.datasets().items())]
    claims, untested = _claims(rows)
    sections.append(_illustration())
    verdicts = _verdicts([*claims[1:], *untested[1:]])
    facts, run = _facts(results, command), _repetition_table(rows)
    report = pages.Report(facts, run, sections, verdicts, claims, untested, runs, data)
    page, readme = folder / "report.html", folder / "README.md"
    check_folder(folder)
    try:
        pictures = {p.file: p.png for section in report.sections for p in section.pictures}
        before = readme.read_text(encoding="utf-8") if readme.is_file() else ""
        for old in set(re.findall(r"\]\(([\w-]+\.png)\)", before)) - pictures.keys():
            (folder / old).unlink(missing_ok=True)
        for file, png in pictures.items():
            (folder / file).write_bytes(png)
        text = pages.as_markdown(report)
        readme.write_text(text, encoding="utf-8")
        page.write_text(pages.as_html(TITLE, text, report.sections), encoding="utf-8")
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
    if readme.is_file() and pages.MADE not in readme.read_text(encoding="utf-8", errors="replace"):
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
        rows, own = rows_of(results, name, training), _own(name)
        run_on = {row.dataset for row in rows if not own or row.variant in own}
        rows = [row for row in rows if row.dataset in run_on]
        found[name] = sorted(rows, key=lambda row: order.get(row.variant, 0))
    return {name: rows for name, rows in found.items() if rows}


def _own(name: str) -> set[str]:
    """Return the strategies that only this experiment shows: without them it was not run."""
    mine = EXPERIMENTS[name]
    others = [other for other in EXPERIMENTS.values() if other.grid == mine.grid and other is not mine]
    return set(mine.strategies).difference(*(other.strategies for other in others))


def _facts(results: Results, command: str) -> list[tuple[str, str]]:
    seconds, codes = results.seconds(), results.codes()
    return [
        ("command", command),
        ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by everylabel {version('everylabel')}"),
        ("cells", f"{len(seconds):,}, {_duration(sum(seconds.values()))} of one core's work"),
        ("measured by", "; ".join(f"{code} ({n} cells)" for code, n in codes.items())),
        *((f"training, {name}", text) for name, text in TRAININGS.items()),
    ]


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
    table = [["repetitions", "training", *(TITLES.get(d, d) for d in datasets)]]
    for name in EXPERIMENTS:
        for training, found in rows.items():
            if name in found:
                table.append([name, training, *(str(_count(name, found[name], d) or "") for d in datasets)])
    return table


def _claims(rows: dict[str, dict[str, list[Row]]]) -> tuple[Table, Table]:
    """Return the tested claims, a line per training, and the untested claims."""
    table = [["", "claim", "where", "training", "verdict", "found (points of accuracy, ± standard error)"]]
    untested = table[:1]
    judged = {training: judge(found) for training, found in rows.items()}
    for verdicts in zip(*judged.values(), strict=True):
        tested = {t: v for t, v in zip(judged, verdicts, strict=True) if v.found != UNMEASURED}
        for training, v in tested.items():
            table.append([v.number, v.claim, v.where, training, v.verdict, v.found])
        if not tested:
            v = verdicts[0]
            untested.append([v.number, v.claim, v.where, "", v.verdict, v.found])
    return table, untested


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
    note = " ".join(filter(None, ((experiment.__doc__ or "").split("\n")[0], NOTES.get(name))))
    by_training = training and not experiment.on_items
    note += f" {repetitions} repetitions" + (f", trained {TRAININGS[training]}." if by_training else ".")
    if name == "speed-up":
        ways = sorted({row.metric for row in rows})
        drawn = [
            _picture(f"{name}-{i}", way, panels(rows, "|D|", way, metric=way, log="xy"))
            for i, way in enumerate(ways)
        ]
        return Section(heading, note, drawn, [_speed_table(rows)])
    means = _mean_table(rows, "accuracy", "mean accuracy over the curve")
    if name == "step-size":
        methods = {method.replace("_", " "): steps for method, steps in StepSize.steps.items()}
        drawn = [
            _picture(
                f"{file}-{method.replace(' ', '-')}", f"{heading}: {method}", step_panels(rows, method, steps)
            )
            for method, steps in methods.items()
        ]
        return Section(heading, note, drawn, [means])
    xlabel, other = XLABELS.get(name, "labels"), RELATIVE[name]
    log = "x" if name == "stages" else ""
    difference = panels(rows, xlabel, f"accuracy minus {other}", relative_to=other, log=log)
    pictures = [
        _picture(f"{file}-difference", f"{heading}: difference to {other}", difference),
        _picture(file, f"{heading}: accuracy", panels(rows, xlabel, "test accuracy", log=log)),
    ]

    def above(dataset: str, variant: str) -> str:
        gap = curve_mean(rows, "accuracy", dataset, variant, other)
        return points(gap) if gap.n else ""

    def last(dataset: str, variant: str) -> str:
        found = over_repetitions(
            rows, "accuracy", dataset, lambda curves: curves[variant][max(curves[variant])]
        )
        return str(found)

    others = [row for row in rows if row.variant != other]
    tables = [means, _table(others, f"points above {other}, mean over the curve", above)]
    if xlabel == "labels":
        tables.append(_table(rows, "accuracy after the last cycle", last))
    if name == "network-updates":
        tables.append(_mean_table(rows, "seconds", "seconds of processor time, mean over the curve"))
    return Section(heading, note, pictures, tables)


def _closeness(training: str, rows: list[Row]) -> Section:
    """Return the distance of updates to retraining over the learning stages."""
    apart = panels(
        rows, "|D|", "mean total variation", metric="distance", without=("retraining", "Monte Carlo"), log="x"
    )
    heading = f"How close updates come to retraining (beyond the paper){SHORT[training]}"
    note = (
        f"Over the learning stages, |D+| = 10, trained {TRAININGS[training]}. Monte Carlo averages "
        "predictions where the others predict at the mean, so it has no distance."
    )
    at_the_mean = [row for row in rows if row.variant != "Monte Carlo"]
    table = _mean_table(at_the_mean, "distance", "distance to retraining (mean total variation)")
    picture = _picture(f"distance-{training}", "Distance to retraining", apart)
    return Section(heading, note, [picture], [table])


def _illustration() -> Section:
    caption = "Monte Carlo reweighting in one dimension (Fig. 1)"
    picture = _picture("monte-carlo", caption, monte_carlo_picture())
    return Section("Illustration", "The effect of an update.", [picture], [])


def _picture(file: str, caption: str, figure: Figure) -> Picture:
    return Picture(f"{file}.png", caption, as_png(figure))


def _table(rows: list[Row], title: str, cell: Callable[[str, str], str]) -> Table:
    """Return a table with a row per variant and a column per dataset."""
    datasets = datasets_of(rows)
    table = [[title, *(TITLES.get(d, d) for d in datasets)]]
    for variant in dict.fromkeys(row.variant for row in rows):
        table.append([variant, *(cell(dataset, variant) for dataset in datasets)])
    return table


def _mean_table(rows: list[Row], metric: str, title: str) -> Table:
    """Return the mean over the curve of every variant, ± its standard error."""
    return _table(rows, title, lambda dataset, variant: str(curve_mean(rows, metric, dataset, variant)))


def _speed_table(rows: list[Row]) -> Table:
    sizes = sorted({row.x for row in rows})
    table = [["update, over", "dataset", *(f"|D| = {x:g}" for x in sizes)]]
    for metric in sorted({row.metric for row in rows}):
        for dataset in datasets_of(rows):
            for variant, curve in curves(rows, metric, dataset).items():
                name = f"{variant}, {metric.removeprefix('speed-up ')}"
                cells = [times(e) if (e := curve.get(x)) else "" for x in sizes]
                table.append([name, TITLES.get(dataset, dataset), *cells])
    return table
