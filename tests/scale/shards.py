"""Helpers: a source with a cheap encoder, and the content of a folder of shards."""

from pathlib import Path
from typing import Any

import numpy as np

import everylabel as el
from everylabel.data.items import Options

WORDS = ("soap", "beans", "trains", "lamps", "rivers")
TEXTS = [f'a review of "{WORDS[i % 5]}", number {i}\nand {WORDS[i % 3]}' for i in range(1100)]
BODY = Options("body")


def source(folder: Path, texts: list[str] = TEXTS) -> tuple[str, Path]:
    """Write texts as JSONL, and what TF-IDF learns from some of them; return both places."""
    import json

    path, fit = folder / "big.jsonl", folder / "fit.npz"
    path.write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    el.embed(TEXTS[:50], "tfidf", fit_out=fit, cache=False)
    return str(path), fit


def content(folder: Path | str) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, but for those whose names begin with a dot."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.name[0] != "."}


def rows(folder: Path | str) -> Any:
    """Return all rows, one shard after the other."""
    return np.concatenate([np.load(path) for path in sorted(Path(folder).glob("*.npy"))])
