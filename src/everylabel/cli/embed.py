"""`everylabel embed`."""

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from everylabel.cli import options
from everylabel.cli.console import note, progress_bar


def embed(
    source: Annotated[
        Path, typer.Argument(help="A CSV, JSON, JSONL, Excel or Parquet file, or a folder of images.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npy file to write.")],
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    label_column: Annotated[str | None, typer.Option(help="A column of a table to leave out.")] = None,
    whole_table: Annotated[
        bool, typer.Option("--whole-table", help="All columns are features, also a text: as categories.")
    ] = False,
    long_rows: options.LongRows = None,
    encoding: options.Encoding = None,
    model: options.Model = None,
    trust_model_code: options.TrustModelCode = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Items through the model at once.")] = 32,
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    device: Annotated[str | None, typer.Option(help="Where the model runs: cpu, cuda ...")] = None,
    cache: Annotated[bool, typer.Option(help="Keep finished rows, so that a stopped run goes on.")] = True,
    fit: Annotated[
        Path | None, typer.Option(help="What tfidf or pixels learned before: a project's embedder.npz.")
    ] = None,
) -> None:
    """Turn texts, images or a table into features, one row each, with a progress bar and the rate."""
    from everylabel.data.options import Options
    from everylabel.data.read import read_rows
    from everylabel.models.embedding import embed as run
    from everylabel.models.embedding.embed import check_out

    check_out(out)
    reading = Options(text_column, image_column, label_column, encoding=encoding, long_rows=long_rows)
    console = Console(stderr=True)
    times: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        items = read_rows(source, reading, whole=whole_table)
        for text in items.notes:
            note(text)
        with progress_bar(console) as bar:
            task = bar.add_task("embedding", total=len(items))

            def show(done: int) -> None:
                times.append(time.perf_counter())
                rate = done / max(times[-1] - times[0], 1e-9)
                bar.update(task, completed=done, description=f"embedding, {rate:,.0f} rows a second")

            how: dict[str, Any] = {"batch_size": batch_size, "device": device, "cache": cache, "fit": fit}
            how["trust_model_code"] = trust_model_code
            features = run(items, model, out=out, dtype=dtype, progress=show, **how)
    for warning in caught:
        note(str(warning.message))
    n, d = features.shape
    rate = n / max(times[-1] - times[0], 1e-9)
    console.print(
        f"{n:,} rows of {d} features in {escape(str(out))}, {rate:,.0f} rows a second", highlight=False
    )
