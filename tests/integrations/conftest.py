"""What tests of other rooms set up, too."""

from tests.cli.conftest import own_place

__all__ = ["own_place"]
