"""Where things are kept between runs, how a missing extra is told, and warnings that count."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError


class EverylabelWarning(UserWarning):
    """Something was skipped, mended or done in a simpler way; the text counts and lists it."""


def cache_folder() -> Path:
    """Return the folder of downloads and embeddings: $EVERYLABEL_CACHE or the platform's own."""
    chosen = os.environ.get("EVERYLABEL_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "everylabel"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "everylabel"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "everylabel"


def make_folder(path: Path) -> Path:
    """Return a folder that exists, or say why it cannot."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EverylabelError(
            f"folder {str(path)!r} cannot be made ({error.strerror}); set EVERYLABEL_CACHE to one that can"
        ) from error
    return path


def need(module: str, extra: str, purpose: str) -> Any:
    """Import a library of an extra, or say what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise EverylabelError(
            f"{purpose} needs {name} ({error}); install it with: pip install 'everylabel[{extra}]'"
        ) from error


def listed(names: list[str], most: int = 5) -> str:
    """Return names in one line, the first few of many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
