"""Readers of the official text files: Banking-77, Clinc-150, DBpedia."""

import csv
import json
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.data.datasets.archives import locate
from everylabel.data.datasets.dataset import Dataset, Split, numbered
from everylabel.data.readers.rows import read_rows


def read_banking77(folder: Path) -> Dataset:
    """train.csv and test.csv with the columns text and category."""
    root = locate(folder, "train.csv", "test.csv")
    rows = {part: list(read_rows(root / f"{part}.csv", ["text", "category"])) for part in ("train", "test")}
    classes = tuple(sorted({row["category"] for row in rows["train"]}))
    return Dataset("banking77", "text", classes, {part: _split(rows[part], classes) for part in rows})


def read_clinc150(folder: Path) -> Dataset:
    """data_full.json: six lists of [text, intent], three of them out of scope."""
    path = locate(folder, "data_full.json") / "data_full.json"
    try:
        stored: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8"))
        parts = {name: stored[name] for name in ("train", "val", "test", "oos_train", "oos_val", "oos_test")}
        rows = {
            name: [{"text": text, "category": intent} for text, intent in part]
            for name, part in parts.items()
        }
    except (ValueError, KeyError, TypeError) as error:
        raise EverylabelError(f"path {str(path)!r} is not Clinc-150's data_full.json ({error!r})") from error
    classes = tuple(sorted({row["category"] for row in rows["train"]}))
    return Dataset("clinc150", "text", classes, {name: _split(rows[name], classes) for name in rows})


def read_dbpedia(folder: Path) -> Dataset:
    """classes.txt, train.csv and test.csv of class (from 1), title, content; the content is the item."""
    root = locate(folder, "classes.txt", "train.csv", "test.csv")
    classes = tuple((root / "classes.txt").read_text(encoding="utf-8").split())
    splits = {}
    for part in ("train", "test"):
        path, rows = root / f"{part}.csv", []
        with path.open(encoding="utf-8", newline="") as file:
            for line, row in enumerate(csv.reader(file), 1):
                if len(row) != 3 or not row[0].isdigit() or not 1 <= int(row[0]) <= len(classes):
                    raise EverylabelError(
                        f"row {line} of {str(path)!r} is {row!r:.80}; expected class, title, content"
                    )
                rows.append({"text": row[2].strip(), "category": classes[int(row[0]) - 1]})
        splits[part] = _split(rows, classes)
    return Dataset("dbpedia", "text", classes, splits)


def _split(rows: list[dict[str, Any]], classes: tuple[str, ...]) -> Split:
    return Split(numbered([row["category"] for row in rows], classes), [row["text"] for row in rows])
