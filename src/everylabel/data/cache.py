"""Where downloads and embeddings are kept between runs."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from everylabel.core.errors import EverylabelError


def cache_folder() -> Path:
    """Return the folder of downloads and embeddings: $EVERYLABEL_CACHE or the platform's own."""
    return Path(os.environ.get("EVERYLABEL_CACHE") or user_cache_path("everylabel", appauthor=False))


def make_folder(path: Path) -> Path:
    """Return a folder that exists, or say why it cannot."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EverylabelError(
            f"folder {str(path)!r} cannot be made ({error.strerror}); set EVERYLABEL_CACHE to one that can"
        ) from error
    return path
