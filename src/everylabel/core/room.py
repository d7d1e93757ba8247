"""How much a file may unpack to: told by what it says of itself, before it is read."""

import os
import zipfile

SHARE = 0.5  # of this machine's memory that one file's content may take


def memory() -> float:
    """Return this machine's memory in bytes, where it tells."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def unpacked_size(archive: zipfile.ZipFile) -> int:
    """Return the bytes of all that an archive holds; no more than it says is ever read of an entry."""
    return sum(entry.file_size for entry in archive.infolist())
