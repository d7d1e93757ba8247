"""The cache folder of downloads and embeddings."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from everylabel.core.errors import EverylabelError


def cache_folder() -> Path:
    """Return the cache folder: $EVERYLABEL_CACHE or the platform's default."""
    return Path(os.environ.get("EVERYLABEL_CACHE") or user_cache_path("everylabel", appauthor=False))


def make_folder(path: Path) -> Path:
    """Create a folder if needed and return it; an error says why it cannot be created."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EverylabelError(
            f"folder {str(path)!r} cannot be made ({error.strerror}); set EVERYLABEL_CACHE to one that can"
        ) from error
    return path
