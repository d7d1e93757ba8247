"""Fixtures of tests of readers and datasets."""

from tests.fixtures import cache, real_data

__all__ = ["cache", "real_data"]
