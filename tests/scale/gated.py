"""Embed on a Ray cluster as `embed_shards` does, but stop before the fourth part.

`python -m tests.scale.gated SOURCE OUT FIT`: what a test kills in the middle, however fast it is.
"""

import sys
import time
from pathlib import Path
from typing import Any

from everylabel.scale import jobs
from everylabel.scale.cluster import connect
from everylabel.scale.jobs import embed_part, embed_shards
from tests.scale.shards import BODY

BEFORE = 3  # parts that are made
ROWS = 100  # of a part
PATIENCE = 120.0  # seconds


def gated(*given: Any) -> int:
    """Embed a part, behind a gate that stays shut."""
    if given[-1].number >= BEFORE:
        time.sleep(PATIENCE)
        raise TimeoutError
    return embed_part(*given)


if __name__ == "__main__":
    jobs.embed_part = gated  # type: ignore[assignment]
    connect("local", num_cpus=2)
    embed_shards(sys.argv[1], sys.argv[2], options=BODY, fit=Path(sys.argv[3]), ray="local", shard_rows=ROWS)
