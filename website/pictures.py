"""`python -m website.pictures`: draw the pictures of tutorials by running their code."""

import contextlib
import re
import tempfile
from pathlib import Path

from website.pages import HIDDEN, ROOT

DRAWN = {
    "tutorials/compare-strategies.md": ("curves.png", "compare-strategies.png")
}  # page -> the file that its code writes, and the picture in docs/images


def draw(page: str, file: str, ours: str) -> None:
    """Run the Python code of a page, and copy the file that it writes to docs/images."""
    text = HIDDEN.sub("", (ROOT / "docs" / page).read_text())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)), {})
        (ROOT / "docs" / "images" / ours).write_bytes(Path(file).read_bytes())


if __name__ == "__main__":
    for page, files in DRAWN.items():
        draw(page, *files)
