"""The command line. `app` is imported on first use, so that `main` can handle Ctrl-C until then."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "app":
        from everylabel.cli.commands import app

        return app
    raise AttributeError(f"module 'everylabel.cli' has no attribute {name!r}")
