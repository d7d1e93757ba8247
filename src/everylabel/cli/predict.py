"""`everylabel predict`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from everylabel.cli import options
from everylabel.cli.console import done, embedding_bar, join, note, opened
from everylabel.cli.export import format_of


def predict(
    new: Annotated[
        str, typer.Argument(help="New items: a table, a folder of images, features, or a folder of shards.")
    ],
    project: Annotated[str, typer.Option(help="The project's folder, or the source that was labelled.")],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="The file to write, for shards a folder; default: print CSV."),
    ] = None,
    form: Annotated[str | None, typer.Option("--format", help="csv, jsonl or parquet.")] = None,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    id_column: options.IdColumn = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    long_rows: options.LongRows = None,
    store: options.Store = None,
    show: Annotated[
        str | None, typer.Option(help="The table given to `label --show`, if it has moved.")
    ] = None,
    names_prior: options.NamesPrior = None,
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    ray: options.Ray = None,
) -> None:
    """Predict the classes of new items. Works while people label.

    New items are embedded with the project's encoder. For a folder of shards, as embed writes them, each
    shard becomes a table in the folder --out; a repeated run makes only the missing ones.
    """
    from everylabel.core.checks import check_choice
    from everylabel.core.errors import EverylabelError, counted
    from everylabel.core.files import write_atomically
    from everylabel.data.classes import column_list
    from everylabel.data.datasets.catalog import dataset_key
    from everylabel.data.items import Options
    from everylabel.formats.exports import predicted_records
    from everylabel.formats.known import TABLES
    from everylabel.formats.tables import write_table
    from everylabel.projects.folder import LogUse
    from everylabel.projects.generations import with_generation
    from everylabel.projects.log import class_names_of
    from everylabel.projects.predictions import predict as predict_new
    from everylabel.projects.predictions import read_labels
    from everylabel.scale.manifest import is_shards

    sharded = is_shards(new)
    if sharded and (out is None or columns is not None):
        what = (
            "--out is missing" if out is None else f"--columns is {columns!r}, and shards hold features only"
        )
        raise EverylabelError(f"{new!r} is a folder of shards and {what}; expected --out with a folder alone")
    endings = {known.ending for known in TABLES.values()}
    if sharded and (Path(str(out)).is_file() or Path(str(out)).suffix.lower() in endings):
        raise EverylabelError(
            f"{new!r} is a folder of shards and --out is {out!r}; expected a folder: each shard becomes a "
            "table in it, of the kind that --format says"
        )
    if not sharded and ray is not None:
        raise EverylabelError(
            f"--ray needs shards, and {new!r} is not a folder of shards; expected a folder that embed wrote"
        )
    usual = "parquet" if sharded else "csv" if out is None else format_of(Path(out), TABLES)
    chosen = form or usual
    check_choice(chosen, "--format", list(TABLES))
    beside = column_list(columns)
    if not Path(project).exists() and dataset_key(project) is None:
        raise EverylabelError(
            f"--project {project!r} does not exist; expected a project's folder (SOURCE.everylabel), or the "
            "source that was labelled"
        )
    named: dict[str, Any] = {"model": model, "trust_model_code": trust_model_code, "show": show}
    about = opened(project, keep=False, reading=True, log=LogUse(store, needed=True), **named)
    names = options.is_on(names_prior)
    labels = read_labels(about, store, names, names=class_names_of(about))
    about = with_generation(about, labels.generation)
    if sharded and out is not None:
        from everylabel.scale.jobs import predict_shards

        join(ray)
        with embedding_bar("predicting") as progress:
            predictions, kept, broken = predict_shards(
                new, out, about, labels, chosen, ray=ray, progress=progress
            )
        if kept:
            note(f"{kept:,} rows were predicted before")
        done(f"predictions of {counted(predictions.rows - broken, 'item')} in {out}")
        return
    embedder = None
    if is_shards(about.source):
        from everylabel.scale.jobs import embedder_of

        embedder = embedder_of(about.source, about.trust_code)
    reading = Options(text_column, image_column, id_column=id_column, encoding=encoding, long_rows=long_rows)
    with embedding_bar() as progress:
        predicted = predict_new(about, labels, new, reading, progress, embedder)
    for text in predicted.notes:
        note(text)
    pieces = write_table(predicted_records(predicted, beside), chosen)
    if out is None:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
        return
    write_atomically(Path(out), lambda file: file.writelines(pieces), follow_links=True)
    done(f"predictions of {counted(len(predicted.items.ids), 'item')} in {out}")
