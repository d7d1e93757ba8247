"""`everylabel label-studio`."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from everylabel.cli import interrupts, options
from everylabel.cli.console import embedding_bar, note


def label_studio(
    url: Annotated[str, typer.Option(envvar="LABEL_STUDIO_URL", help="Of Label Studio.")],
    token: Annotated[
        str, typer.Option(envvar="LABEL_STUDIO_TOKEN", help="Of your account there; either kind works.")
    ],
    project: Annotated[
        list[int], typer.Option(help="A project's number, as its address has it; several may be given.")
    ],
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    control: Annotated[
        str | None, typer.Option(help="The name of the Choices that are meant, if there are several.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Another address than this needs a password, which is registered.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 9090,
    address: Annotated[
        str | None, typer.Option(help="What Label Studio calls us by, if not by host and port.")
    ] = None,
    register: Annotated[
        bool,
        typer.Option(
            help="Connect model and webhook, write predictions, show tasks by them; or change nothing."
        ),
    ] = True,
    page: Annotated[
        bool,
        typer.Option("--page", help="Open our page on the project, too; its answers go to Label Studio."),
    ] = False,
    page_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page; further projects have the next ones.")
    ] = 8765,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", "--database", help="A file, or postgresql://...; else in the project's folder."
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Where label-studio-NUMBER.everylabel is kept, a folder for each project.")
    ] = Path(),
    names_prior: options.NamesPrior = None,
) -> None:
    """Run a model for Label Studio: it learns from every annotation and chooses the next task."""
    from everylabel.label_studio.connected import ConnectOptions
    from everylabel.label_studio.service import BackendOptions, serve_label_studio

    how = ConnectOptions(
        folder=folder.absolute(),
        control=control,
        model=model,
        trust_model_code=trust_model_code,
        store=store,
        names_prior=options.is_on(names_prior),
    )
    backend = BackendOptions(
        url,
        token,
        project,
        host=host,
        port=port,
        address=address,
        register=register,
        page=page_port if page else None,
        connect=how,
    )
    with embedding_bar() as progress:
        serve_label_studio(backend, _ready, note, progress)
    print(f"stopped; everything is kept in {folder.absolute()}", flush=True)


def _ready(address: str) -> None:
    if interrupts.swallowed():  # a library swallowed Ctrl-C: stop the server now
        signal.raise_signal(signal.SIGINT)
        return
    print(f"everylabel is ready: {address}", flush=True)
