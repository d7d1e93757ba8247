"""The command line: `everylabel demo | ...`. Each command is one small module beside this file."""

import typer

from everylabel.cli import demo, embed, export, label, predict, reproduce, simulate

app = typer.Typer(
    help="A classifier that learns from every label, the moment it is given.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def main() -> None:
    """Keep commands as commands, even while there is only one."""


app.command()(demo.demo)
app.command()(embed.embed)
app.command()(label.label)
app.command()(simulate.simulate)
app.command()(export.export)
app.command()(predict.predict)
app.command()(reproduce.reproduce)
