"""The options that several commands share, each defined once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[
    str,
    typer.Argument(help="A CSV, JSON, Excel or Parquet file, a folder of images, a .npy file, or digits."),
]
TextColumn = Annotated[str | None, typer.Option("--text-column", help="The column that holds the texts.")]
ImageColumn = Annotated[
    str | None, typer.Option("--image-column", help="The column that holds paths of images.")
]
LabelSeparator = Annotated[
    str | None, typer.Option(help="Text between the classes of a label, with --multi-label; default: ';'.")
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        help="The column of existing labels; folder: names of sub-folders; y: the array of an .npz file.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", help="The column of ids; default: found by its name; none: use row numbers."),
]
Columns = Annotated[
    str | None, typer.Option(help="Comma-separated source columns to write, or none; default: all.")
]
Show = Annotated[
    str | None,
    typer.Option(
        help="For embeddings: a table with the text or image of each row. For shards: their source."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="The encoder that turns items into features: a name or folder, tfidf, pixels ..."),
]
TrustModelCode = Annotated[
    bool, typer.Option("--trust-model-code", help="Run Python code that comes with the model.")
]
Folder = Annotated[
    Path | None, typer.Option("--project", help="The folder of the project; default: SOURCE.everylabel.")
]
LongRows = Annotated[
    str | None, typer.Option(help="For rows with more cells than the header: join or cut the extra cells.")
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a text file that is not UTF-8.")]
Store = Annotated[
    str | None,
    typer.Option(
        "--store", help="Where answers are stored: a file or postgresql://...; default: in the project."
    ),
]
Ray = Annotated[
    str | None, typer.Option(help="Work on a Ray cluster: auto, local or its address (extra ray).")
]
WorkerCpus = Annotated[int | None, typer.Option(min=1, help="Cores of each Ray worker; default: 1.")]


class OnOff(StrEnum):
    """The value of a switch; a switch that is not given keeps its earlier value."""

    ON = "on"
    OFF = "off"


def is_on(switch: OnOff | None) -> bool | None:
    """Return a switch as a bool; None if it is not given."""
    return None if switch is None else switch is OnOff.ON


NamesPrior = Annotated[
    OnOff | None,
    typer.Option(
        "--names-prior", help="Learn from class names before the first label; default in a new project: on."
    ),
]


class NetworkChoice(StrEnum):
    """Whether the encoder is fine-tuned."""

    AUTO = "auto"
    ON = "on"
    FROZEN = "frozen"


Network = Annotated[
    NetworkChoice | None,
    typer.Option(
        "--network",
        help="Fine-tune the encoder while people label: on, frozen (never), or auto (up to 20,000 items). "
        "Default in a new project: auto; in a simulation: frozen.",
    ),
]
STRATEGIES = "herding, lookahead, margin, entropy, least_confident, badge, typiclust or random"
Strategy = Annotated[
    str | None,
    typer.Option(help=f"Rule that chooses the next item: {STRATEGIES}; default in a new project: herding."),
]
CheckEvery = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=1000,
        help="Make one item in N a random check, which measures the accuracy; 0: none; default in a new "
        "project: 10.",
    ),
]
