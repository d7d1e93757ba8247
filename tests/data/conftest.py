"""What tests of readers and datasets share."""

from tests.fixtures import cache, real_data

__all__ = ["cache", "real_data"]
