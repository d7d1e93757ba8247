"""`everylabel`, and `python -m everylabel.cli`."""

from everylabel.cli import interrupts


def main() -> None:
    """Run the command line; Ctrl-C works while the command is still being imported."""
    interrupts.end_at_once()
    from everylabel.cli.commands import app

    app()


if __name__ == "__main__":
    main()
