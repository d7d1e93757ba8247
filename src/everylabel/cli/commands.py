"""All commands: `everylabel demo | ...`. Each is one small module beside this file."""

from typing import Annotated

import typer

from everylabel.cli import (
    compare,
    demo,
    doctor,
    embed,
    export,
    label,
    label_studio,
    predict,
    reproduce,
    simulate,
    suggest,
)
from everylabel.cli.console import Commands

app = typer.Typer(
    cls=Commands,
    help="Label a few items. Get a classifier that learns from every label, and an accuracy you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's table truncates option names at 80 columns
)


def _version(asked: bool) -> None:
    if asked:
        from everylabel import __version__

        print(f"everylabel {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Handle options that precede any command."""


app.command()(demo.demo)
app.command()(embed.embed)
app.command()(suggest.suggest)
app.command()(label.label)
app.command()(label_studio.label_studio)
app.command()(simulate.simulate)
app.command()(compare.compare)
app.command()(export.export)
app.command()(predict.predict)
app.command()(doctor.backup)
app.command()(doctor.doctor)
app.command()(reproduce.reproduce)
