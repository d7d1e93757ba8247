"""Whether there are shards behind a source: each command that opens a project asks, so little is imported."""

from pathlib import Path

from everylabel.projects.options import remembered
from everylabel.projects.project import ENDING, IN_MEMORY
from everylabel.projects.trust import check_source
from everylabel.scale.parted import is_shards


def shards_behind(source: str) -> str | None:
    """Return the folder of shards that is labelled: the source itself, or what a project's folder is of."""
    if is_shards(source):
        return source
    path = Path(source)
    before = remembered(path) if path.is_dir() and path.name.endswith(ENDING) else None
    if before is None or before.source == IN_MEMORY:
        return None
    check_source(path, before.source, private=True)  # opening it asks for more
    return before.source if is_shards(before.source) else None
