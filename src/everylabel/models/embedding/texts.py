"""What all text backends share: checking and cleaning strings."""

from collections.abc import Iterable
from typing import Any

from everylabel.core.errors import EverylabelError


def check_text(item: Any, at: int) -> str:
    """Return a string, or say which item is none."""
    if not isinstance(item, str):
        raise EverylabelError(
            f"items[{at}] is a {type(item).__name__} ({item!r}); expected a text: drop it or make it a str"
        )
    return item


def clean(texts: Iterable[str]) -> list[str]:
    """Return texts that every tokeniser takes: what is not valid Unicode becomes a question mark."""
    return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
