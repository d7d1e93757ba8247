"""Fixtures shared with other rooms."""

from tests.cli.conftest import own_place

__all__ = ["own_place"]
