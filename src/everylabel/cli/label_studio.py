"""`everylabel label-studio`."""

from pathlib import Path
from typing import Annotated

import typer

from everylabel.cli import options
from everylabel.cli.console import embedding_bar, note, print_ready


def label_studio(
    url: Annotated[str, typer.Option(envvar="LABEL_STUDIO_URL", help="The address of Label Studio.")],
    token: Annotated[
        str, typer.Option(envvar="LABEL_STUDIO_TOKEN", help="Your Label Studio token, legacy or personal.")
    ],
    project: Annotated[
        list[int], typer.Option(help="Number of a project, as in its address; repeat for several.")
    ],
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    control: Annotated[
        str | None, typer.Option(help="Name of the <Choices> to learn, if there are several.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to serve at; any other than 127.0.0.1 requires a password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any free port.")] = 9090,
    address: Annotated[
        str | None,
        typer.Option(help="The address of the backend as Label Studio sees it; default: host and port."),
    ] = None,
    register: Annotated[
        bool,
        typer.Option(
            help="Connect the model, write predictions and order tasks; or change nothing in Label Studio."
        ),
    ] = True,
    page: Annotated[
        bool,
        typer.Option("--page", help="Also open the labelling page; its answers go to Label Studio."),
    ] = False,
    page_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Port of the labelling page; further projects use the next ones."
        ),
    ] = 8765,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "--database",
            help="Where answers are stored: a file or postgresql://...; default: in the project.",
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Folder in which projects are stored, as label-studio-NUMBER.everylabel.")
    ] = Path(),
    names_prior: options.NamesPrior = None,
) -> None:
    """Add a model to Label Studio. It learns from every annotation and chooses the next task."""
    given = dict(locals())  # fields of `BackendOptions`
    from everylabel.label_studio.connected import BackendOptions
    from everylabel.label_studio.service import serve_label_studio

    given |= {"folder": folder.absolute(), "names_prior": options.is_on(names_prior)}
    with embedding_bar() as progress:
        serve_label_studio(BackendOptions(**given), print_ready, note, progress)
    print(f"stopped; everything is stored in {folder.absolute()}", flush=True)
