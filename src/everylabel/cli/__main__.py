"""`python -m everylabel.cli`."""

from everylabel.cli import app

app()
