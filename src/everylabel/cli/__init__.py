"""The command line. `app` is loaded when it is asked for: until then a command can be stopped at once."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "app":
        from everylabel.cli.commands import app

        return app
    raise AttributeError(f"module 'everylabel.cli' has no attribute {name!r}")
