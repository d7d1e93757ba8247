"""The command line. `app` is imported on first use, so that Ctrl-C ends a command at once until then."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "app":
        from everylabel.cli.commands import app

        return app
    raise AttributeError(f"module 'everylabel.cli' has no attribute {name!r}")
