"""`everylabel embed`."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everylabel.cli import options
from everylabel.cli.console import done, embedding_bar, join, note

if TYPE_CHECKING:
    from everylabel.data.items import Options


def embed(
    source: Annotated[
        str,
        typer.Argument(
            help="A CSV, JSON, JSONL, Excel or Parquet file, a folder of images, or of Parquet files."
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", help="The .npy file to write, or a folder of several (shards).")
    ],
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    label_column: Annotated[
        str | None, typer.Option(help="The column of labels; --whole-table leaves it out.")
    ] = None,
    whole_table: Annotated[
        bool, typer.Option("--whole-table", help="Embed all columns; texts count as categories.")
    ] = False,
    long_rows: options.LongRows = None,
    encoding: options.Encoding = None,
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Items per batch of the model.")] = 32,
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    device: Annotated[str | None, typer.Option(help="The device of the model: cpu, cuda ...")] = None,
    cache: Annotated[bool, typer.Option(help="Cache finished rows, so that a stopped run resumes.")] = True,
    fit: Annotated[
        Path | None, typer.Option(help="A fitted tfidf or pixel encoder: a project's embedder.npz.")
    ] = None,
    shard_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows per shard, if the target is a folder; default: 65,536.")
    ] = None,
    ray: options.Ray = None,
    worker_cpus: options.WorkerCpus = None,
) -> None:
    """Turn texts, images or a table into features. Write one row of numbers for each item.

    In a folder, features are split into files (shards). A repeated run writes only the missing ones.
    """
    from everylabel.core.errors import EverylabelError
    from everylabel.data.items import Options

    reading = Options(text_column, image_column, label_column, encoding=encoding, long_rows=long_rows)
    how: dict[str, Any] = {"batch_size": batch_size, "device": device, "fit": fit, "dtype": dtype}
    how["trust_model_code"] = trust_model_code
    if is_folder(out):
        if whole_table:
            raise EverylabelError(
                "--whole-table needs all rows at once, and a shard has only some; expected a .npy file as -o"
            )
        sizes = {"shard_rows": shard_rows, "worker_cpus": worker_cpus}
        how |= {name: given for name, given in sizes.items() if given is not None}
        _into_shards(source, out, model, reading, ray, how)
        return
    for name, given in (("--ray", ray), ("--shard-rows", shard_rows), ("--worker-cpus", worker_cpus)):
        if given is not None:
            raise EverylabelError(f"{name} is for shards, and -o is {out!r}; expected a folder: -o shards/")
    _into_file(Path(source), Path(out), model, reading, whole_table, {**how, "cache": cache})


def is_folder(out: str) -> bool:
    """Return whether a target is a folder, which need not exist yet."""
    is_file = out.endswith(".npy") and not Path(out).is_dir()
    return not is_file and (
        "://" in out or out.endswith(("/", os.sep)) or Path(out).is_dir() or not Path(out).suffix
    )


def _into_file(
    source: Path, out: Path, model: str | None, reading: "Options", whole: bool, how: dict[str, Any]
) -> None:
    from everylabel.data.read import read_rows
    from everylabel.models.embedding import embed as run
    from everylabel.models.embedding.embed import check_out

    check_out(out)
    with _noted_warnings(), embedding_bar() as show:
        items = read_rows(source, reading, whole=whole)
        for text in items.notes:
            note(text)
        features = run(items, model, out=out, progress=lambda done: show(done, len(items)), **how)
    n, d = features.shape
    done(f"{n:,} rows of {d} features in {out}")


def _into_shards(
    source: str, out: str, model: str | None, reading: "Options", ray: str | None, how: dict[str, Any]
) -> None:
    from everylabel.scale.jobs import embed_shards

    join(ray)
    with _noted_warnings(), embedding_bar() as show:
        made = embed_shards(source, out, model, options=reading, ray=ray, progress=show, **how)
    if reading.text_column is None and reading.image_column is None:
        note(f"column {made.column!r} is embedded (--text-column chooses another)")
    if made.kept:
        note(f"{made.kept:,} rows were there already")
    if made.broken:
        note(f"{made.broken:,} images cannot be read and are rows of NaN")
    done(f"{made.shards.rows:,} rows of {made.width} features in {len(made.shards.parts):,} shards in {out}")


@contextmanager
def _noted_warnings() -> Iterator[None]:
    """Print warnings as notes at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            note(str(warning.message))
