"""`everylabel simulate`."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from everylabel.cli import options
from everylabel.cli.console import opened, progress_bar

if TYPE_CHECKING:
    from everylabel.projects.project import Project
    from everylabel.simulation import Point

WIDTH = 10  # characters of a bar in the table
ROWS = 12  # maximum rows of the table, including the last point


def simulate(
    source: options.Source,
    label_column: options.LabelColumn = None,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    multi_label: Annotated[
        bool, typer.Option("--multi-label", help="The labels are lists of classes.")
    ] = False,
    label_separator: options.LabelSeparator = None,
    id_column: options.IdColumn = None,
    show: options.Show = None,
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    encoding: options.Encoding = None,
    budget: Annotated[int, typer.Option(min=1, help="Labels to give.")] = 200,
    people: Annotated[
        int, typer.Option(min=1, max=64, help="Number of people who label at the same time.")
    ] = 1,
    strategy: options.Strategy = None,
    check_every: options.CheckEvery = None,
    names_prior: options.NamesPrior = None,
    network: options.Network = None,
    noise: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of wrong answers.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Random seed of the wrong answers.")] = 0,
    hands: Annotated[
        str,
        typer.Option(
            help="How people answer. one: a key per item; bulk: near copies together; yes-no: yes or no."
        ),
    ] = "one",
    url: Annotated[str | None, typer.Option(help="Address of a running server; default: start one.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="EVERYLABEL_TOKEN", help="Token of that server.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the curve: .png, .svg or .csv.")
    ] = None,
) -> None:
    """Simulate labelling on labelled data. Print the accuracy as the number of labels grows."""
    console = Console()
    with tempfile.TemporaryDirectory() as place:
        from everylabel.core.checks import check_choice
        from everylabel.core.errors import EverylabelError
        from everylabel.data.classes import SEPARATOR, class_names_in
        from everylabel.projects.project import check_true_labels
        from everylabel.simulation import server_process
        from everylabel.simulation import simulate as label_by_truth
        from everylabel.simulation.people import HANDS, check_ending, write_curve

        check_ending(out)
        check_choice(hands, "--hands", HANDS)
        project = opened(
            source,
            text_column=text_column,
            image_column=image_column,
            label_column=label_column,
            id_column=id_column,
            show=show,
            model=model,
            trust_model_code=trust_model_code,
            encoding=encoding,
            label_separator=(label_separator or SEPARATOR) if multi_label else None,
            folder=Path(place) / "simulated.everylabel",
            check=check_true_labels,
        ).blind()
        truth = _truth(project)
        settings = {"--strategy": strategy, "--check-every": check_every, "--names-prior": names_prior}
        unset = "frozen" if url is None else None  # a running server keeps its own setting
        settings["--network"] = unset if network is None else network.value
        arguments = [str(part) for pair in settings.items() if pair[1] is not None for part in pair]
        arguments += ["--multi-label"] if multi_label else []
        if url is not None and arguments:
            raise EverylabelError(
                f"{arguments[0]} is a setting of the running server; leave it out with --url"
            )
        server = server_process(project, arguments) if url is None else nullcontext(url)
        with server as address, progress_bar(Console(stderr=True)) as bar:
            task = bar.add_task("labelling", total=budget)
            points = list(
                label_by_truth(
                    address,
                    truth,
                    class_names_in(project.classes) if multi_label else project.classes,
                    budget=budget,
                    people=people,
                    noise=noise,
                    seed=seed,
                    token=token,
                    hands=hands,
                    done=lambda: bar.advance(task),
                )
            )
        console.print(_table(points, project.name, "F1" if multi_label else "accuracy"))
        if points and hands != "one":
            console.print(_keys(points[-1], hands), highlight=False)
        if out is not None:
            write_curve(points, out, project.name)
            console.print(f"curve saved as {escape(str(out))}", highlight=False)


def _keys(last: "Point", hands: str) -> str:
    """Return a sentence on the key presses and their effect."""
    keys = f"{last.labels:,} labels by {last.keys:,} keys; "
    if hands == "bulk":
        more = f"{last.wrong:,} items of another class unticked"
        return f"{keys}{last.groups:,} lists of near copies, {more}"
    taken = last.labels - last.looked_up
    return f"{keys}{taken:,} proposals taken, {last.noes:,} refused, {last.looked_up:,} classes selected"


def _truth(project: "Project") -> dict[str, str]:
    assert project.truth is not None
    pairs = zip(project.ids, project.truth.tolist(), strict=True)
    return {name: project.classes[number] for name, number in pairs if number >= 0}


def _table(points: "list[Point]", name: str, figure: str = "accuracy") -> Table:
    table = Table(title=f"{name}: {figure} by number of labels")
    for heading in (
        "labels",
        f"{figure}\nunlabelled",
        "estimate\nby checks",
        "label to\nnext, ms",
        "slowest so\nfar, ms",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    step = -(-len(points) // ROWS)
    for point in points[::-1][::step][::-1] if points else []:
        known = point.accuracy is not None
        table.add_row(
            f"{point.labels:,}",
            f"{point.accuracy:.3f}" if known else "",
            "" if point.estimate is None else f"{point.estimate:.2f} [{point.low:.2f}, {point.high:.2f}]",
            f"{point.median_ms:.1f}",
            f"{point.slowest_ms:.1f}",
            "█" * round(WIDTH * (point.accuracy or 0.0)),
        )
    return table
