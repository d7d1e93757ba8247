"""What tests of shards share."""

from tests.fixtures import cache, minilm

__all__ = ["cache", "minilm"]
