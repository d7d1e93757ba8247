"""`everylabel`, and `python -m everylabel.cli`."""

from everylabel.cli import interrupts


def main() -> None:
    """Run the command that is asked for; Ctrl-C is heeded while it is still being loaded."""
    interrupts.end_at_once()
    from everylabel.cli.commands import app

    app()


if __name__ == "__main__":
    main()
