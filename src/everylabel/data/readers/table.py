"""A CSV, TSV, JSONL or Parquet file of texts or of paths of images."""

from dataclasses import replace
from pathlib import Path

from everylabel.core.errors import EverylabelError
from everylabel.data.items import label_numbers
from everylabel.data.options import Options
from everylabel.data.readers.columns import choose_column, read_columns
from everylabel.data.readers.rows import text_of
from everylabel.data.source import (
    Source,
    check_no_urls,
    ids_of,
    image_source,
    known_classes,
    raw_labels,
    text_source,
)


def read_file(path: Path, options: Options) -> Source:
    """Return the rows of a CSV, TSV, JSONL or Parquet file: texts, or paths of images."""
    text, image, notes = options.text_column, options.image_column, []
    chosen: dict[str, str] = {}
    if text is not None and image is not None:
        raise EverylabelError(f"--text-column is {text!r} and --image-column {image!r}; expected one only")
    if text is None and image is None:
        kind, name = choose_column(path, (options.label_column, options.id_column), options.encoding)
        text, image = (name, None) if kind == "text" else (None, name)
        chosen = {f"{kind}_column": name}
        notes.append(f"column {name!r} holds what is labelled (--{kind}-column chooses another)")
    wanted = (text or image, options.label_column, options.id_column)
    columns = read_columns(path, wanted, options.encoding)
    ids = ids_of(columns, options.id_column)
    labels, classes = label_numbers(raw_labels(columns, options.label_column), known_classes(options))
    others = {name: column for name, column in columns.items() if name not in wanted}
    if text is not None:
        texts = [text_of(value) for value in columns[text]]
        return replace(text_source(texts, ids, labels, classes, others, notes), chosen=chosen)
    values = [text_of(value).strip() for value in columns[str(image)]]
    check_no_urls(values)
    paths = [path.parent / value for value in values]
    return replace(image_source(paths, values, ids, labels, classes, others, notes), chosen=chosen)
