"""`python -m website.pictures`: the pictures that a page's own code draws, by running it."""

import contextlib
import re
import tempfile
from pathlib import Path

from website.pages import HIDDEN, ROOT

DRAWN = {
    "tutorials/compare-strategies.md": ("curves.png", "compare-strategies.png")
}  # page -> its file, ours


def draw(page: str, file: str, ours: str) -> None:
    """Run the Python of a page as a reader would, and keep what it draws."""
    text = HIDDEN.sub("", (ROOT / "docs" / page).read_text())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)), {})
        (ROOT / "docs" / "images" / ours).write_bytes(Path(file).read_bytes())


if __name__ == "__main__":
    for page, files in DRAWN.items():
        draw(page, *files)
