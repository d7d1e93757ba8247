"""Cells of a table, a data frame or a dataset as text."""

import json
from typing import Any

import numpy as np


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(value != value)


def text_of(value: Any) -> str:
    """Return a cell as text; "" for a missing value."""
    if is_missing(value):
        return ""
    return valid(value if isinstance(value, str) else str(value))


def written(value: Any) -> str:
    """Return a cell as text, nested values as JSON."""
    if not isinstance(value, dict | list):
        return text_of(value)
    return valid(json.dumps(value, ensure_ascii=False, default=text_of))  # times, bytes


def cell_text(value: Any) -> str | None:
    """Return a cell as text, nested values as JSON; None for a missing value."""
    return None if is_missing(value) else written(value)


def valid(text: str) -> str:
    """Return a text that can be encoded: each lone surrogate (half a character) becomes a question mark."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def label_of(value: Any) -> str:
    """Return a label as text; 1.0 becomes "1", since a column with gaps turns 1 into 1.0."""
    whole = isinstance(value, (float, np.floating)) and value.is_integer()
    return str(int(value)) if whole else text_of(value)
