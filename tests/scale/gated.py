"""Embed on a Ray cluster as `embed_shards` does, but stop before the fourth part.

`python -m tests.scale.gated SOURCE OUT FIT`: what a test kills in the middle, however fast it is.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from everylabel.scale import embedding
from everylabel.scale.cluster import connect
from everylabel.scale.embedding import Embedding, embed_shards
from everylabel.scale.manifest import Part
from tests.scale.shards import BODY

BEFORE = 3  # parts that are made
ROWS = 100  # of a part
PATIENCE = 120.0  # seconds


@dataclass(frozen=True)
class Gated(Embedding):
    """The job, with a gate that stays shut."""

    def make(self, part: Part) -> int:
        if part.number >= BEFORE:
            time.sleep(PATIENCE)
            raise TimeoutError
        return super().make(part)


if __name__ == "__main__":
    embedding.Embedding = Gated  # type: ignore[misc]
    connect("local", num_cpus=2)
    embed_shards(sys.argv[1], sys.argv[2], options=BODY, fit=Path(sys.argv[3]), ray="local", shard_rows=ROWS)
