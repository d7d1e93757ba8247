"""`everylabel`, and `python -m everylabel.cli`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, also while the command is still being imported."""
    try:
        from everylabel.cli.commands import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)  # the shells' exit code for Ctrl-C


if __name__ == "__main__":
    main()
