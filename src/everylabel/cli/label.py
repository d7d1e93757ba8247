"""`everylabel label`."""

import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everylabel.cli import options
from everylabel.cli.console import command, embedding_bar, join, note, opened, print_ready

if TYPE_CHECKING:
    from everylabel.projects.log import Label
    from everylabel.projects.options import LabelOptions
    from everylabel.projects.project import Project

PORT = 8765  # default; the next free one if it is in use
ONCE = ("--accept-changes", "--confirm-labels")  # options for one change, not repeated later


def label(
    source: options.Source,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated class names, or a CSV file with the columns name, description, key."
        ),
    ] = None,
    multi_label: Annotated[
        bool | None,
        typer.Option("--multi-label/--single-label", help="Allow several classes per item, or only one."),
    ] = None,
    label_separator: options.LabelSeparator = None,
    fields: Annotated[
        str | None, typer.Option(help="Columns to show with each item, comma-separated; or all, or none.")
    ] = None,
    guidelines: Annotated[
        Path | None, typer.Option(help="A Markdown file to show beside the item; none removes it.")
    ] = None,
    images_in: Annotated[
        list[Path] | None,
        typer.Option(help="Further folder from which images may be shown; repeat for several."),
    ] = None,
    show: options.Show = None,
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    import_file: Annotated[
        Path | None,
        typer.Option("--import", help="Import labels from a table, or from a JSON export of Label Studio."),
    ] = None,
    import_label_column: Annotated[
        str | None,
        typer.Option(
            help="The label column of the imported table (with --multi-label also comma-separated columns of "
            "0 and 1), or the name of Label Studio's <Choices>."
        ),
    ] = None,
    import_id_column: Annotated[str | None, typer.Option(help="The id column of the imported table.")] = None,
    import_text_column: Annotated[
        str | None, typer.Option(help="The text column of the imported table.")
    ] = None,
    suggestions: Annotated[
        Path | None,
        typer.Option(
            help="Import labels of a language model or program that may be wrong, from a table or JSON."
        ),
    ] = None,
    suggestion_column: Annotated[
        str | None, typer.Option(help="The column of the source that holds suggestions.")
    ] = None,
    suggestion_score_column: Annotated[
        str | None, typer.Option(help="The column of the suggestions' scores, 0 to 1.")
    ] = None,
    suggestion_source_column: Annotated[
        str | None, typer.Option(help="The column that names the source of each suggestion.")
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Review the labels of --label-column, likely errors first.")
    ] = False,
    store: options.Store = None,
    host: Annotated[
        str, typer.Option(help="The address to serve at; any other than 127.0.0.1 requires a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="The port; default: 8765 or the next free one; 0: any free port."
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="EVERYLABEL_TOKEN", help="A secret that the page requires; 20 characters or more."
        ),
    ] = None,
    look_token: Annotated[
        str | None, typer.Option(envvar="EVERYLABEL_LOOK_TOKEN", help="A token that allows reading only.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token and, in line 2, the read-only token.")
    ] = None,
    proxy: Annotated[
        bool,
        typer.Option(
            "--proxy", help="Trust X-Forwarded-For of a proxy on this machine; each request needs a token."
        ),
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    annotators_per_item: Annotated[
        str | None,
        typer.Option(
            help="Number of people who answer each item; auto: more if in doubt; default in a new project: 1."
        ),
    ] = None,
    check_every: options.CheckEvery = None,
    test: Annotated[
        str | None, typer.Option(help="Hold out N items as a test set, or name a column that marks them.")
    ] = None,
    tester: Annotated[
        str | None, typer.Option(help="The person who labels the test set; default: everybody.")
    ] = None,
    lease_seconds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Seconds for which an item is reserved for one person; default in a new project: 600."
        ),
    ] = None,
    strategy: options.Strategy = None,
    names_prior: options.NamesPrior = None,
    network: options.Network = None,
    layout: Annotated[
        str, typer.Option(help="Method that draws the map of all items: pca, or umap if installed.")
    ] = "pca",
    folder: options.Folder = None,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Continue without the labels of missing or changed rows.")
    ] = False,
    confirm_labels: Annotated[
        bool,
        typer.Option(
            "--confirm-labels", help="Continue, and keep the labels of changed rows: they are still right."
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Add rows and images that appear while people label.")
    ] = False,
    encoding: options.Encoding = None,
    long_rows: options.LongRows = None,
    ray: options.Ray = None,
) -> None:
    """Label texts, images or features in the browser. The model learns from every answer."""
    given = {name: value for name, value in locals().items() if name != "source"}  # fields of `LabelOptions`
    from everylabel.data.classes import class_list
    from everylabel.projects.options import LabelOptions

    given |= {"classes": class_list(classes, encoding), "images_in": images_in or ()}
    given |= {"port": PORT if port is None else port, "names_prior": options.is_on(names_prior)}
    _label(source, LabelOptions(**given), may_move=port is None)


def _label(source: str, given: "LabelOptions", may_move: bool) -> None:
    """Serve the page of a source. `may_move`: take another port if the default one is in use."""
    from everylabel.formats.suggestions import read_suggestions
    from everylabel.projects.log import location_shown
    from everylabel.web.server import check_free, free_port, serve

    store = given.store
    check_free(given.host, free_port(given.host, PORT) if may_move else given.port)
    project = opened(source, **given.opening() | _sharded(source, given))
    proposed = read_suggestions(project, given, note)
    serving = replace(given, labels=_imported(project, given), proposed=proposed)
    if given.ray is not None:  # the features are at the actors of the cluster
        from everylabel.scale.project import ShardTable

        features: Any = project.features
        serving = replace(serving, rows=lambda _: ShardTable(features))
    if may_move:  # chosen last: another command may take a port while this one reads
        serving = replace(serving, port=free_port(given.host, PORT))
        if serving.port != PORT:
            note(f"port {PORT} is in use, so the page is at port {serving.port}")
    with embedding_bar() as progress:
        serve(project, serving, lambda address: _ready(address, given.host), note, progress)
    again = command(*_repeated(sys.argv[1:]))
    print(
        f"stopped; everything is stored in {location_shown(project, store)}; to continue: {again}", flush=True
    )


def _repeated(given: list[str]) -> list[str]:
    """Return the arguments to continue with: without those for one change, and without the stored classes."""
    classes = given.index("--classes") if "--classes" in given else len(given)
    kept = (one for i, one in enumerate(given) if i not in (classes, classes + 1))
    return [one for one in kept if one not in ONCE and not one.startswith("--classes=")]


def _sharded(source: str, given: "LabelOptions") -> dict[str, Any]:
    """Return the options that read shards, on a Ray cluster or into memory; {} for any other source."""
    from everylabel.core.errors import EverylabelError
    from everylabel.scale.manifest import shards_behind

    if shards_behind(source) is None:
        if given.ray is not None:
            raise EverylabelError(
                f"--ray needs shards, and {source!r} is not a folder of shards; expected a folder that "
                "everylabel embed wrote"
            )
        return {}
    refused = {"--watch": given.watch, "--suggestions": given.suggestions}
    refused |= {"--suggestion-column": given.suggestion_column, "--review": given.review}
    for name in (name for name, value in refused.items() if value):
        raise EverylabelError(f"{name} is not available for a folder of shards; leave it out")
    if given.label_column is not None:
        raise EverylabelError(
            f"--label-column is {given.label_column!r}, and labels of a folder of shards are not read; "
            "expected --import with a table that holds them"
        )
    if given.network == "on":
        raise EverylabelError(
            "--network on is not available for a folder of shards; leave it out. To fine-tune, "
            "label a sample and embed all items with its encoder: everylabel export SAMPLE --what model "
            "-o tuned, then everylabel embed ALL -o shards/ --model tuned"
        )
    from everylabel.scale.project import in_memory, on_ray

    join(given.ray)
    return {"reader": in_memory() if given.ray is None else on_ray(given.ray)}


def _ready(address: str, host: str) -> None:
    print_ready(address)
    number = _own_address() if host in ("0.0.0.0", "::", "") else None
    if number is not None:
        name = address.removeprefix("http://").split("/")[0].rpartition(":")[0]
        address = address.replace(name, number, 1)
        print(f"from other machines also: {address}", flush=True)
    if "?token=" in address:
        print(f"a link for each person: {address.replace('/?', '/as/NAME?')}", flush=True)


def _own_address() -> str | None:
    """Return this machine's IP address in its network, or None; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return None


def _imported(project: "Project", given: "LabelOptions") -> "Sequence[Label]":
    """Return the labels of the file to import, and print a note on its contents."""
    from everylabel.core.errors import counted, listed
    from everylabel.data.classes import class_names_in, meant
    from everylabel.formats.imports import read_labels
    from everylabel.projects.log import class_names

    path = given.import_file
    if path is None:
        return ()
    found = read_labels(
        path,
        project,
        label_column=given.import_label_column,
        id_column=given.import_id_column,
        text_column=given.import_text_column,
        encoding=given.encoding,
        long_rows=given.long_rows,
    )
    note(f"{path.name}: {found}")
    known = class_names(project, given.store)
    new = [name for name in class_names_in(found.classes) if name not in known]
    if known and new:
        what = counted(len(new), "new class", "new classes")
        note(f"{path.name} adds {what}: {listed(new, 12)}{meant(new, known)}")
    return found.labels
