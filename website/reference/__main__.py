"""`python -m website.reference`: rewrite docs/reference."""

from pathlib import Path

from website.reference.pages import pages

FOLDER = Path(__file__).parents[2] / "docs" / "reference"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    written = pages()
    for name, text in written.items():
        (FOLDER / name).write_text(text)
    for old in FOLDER.glob("*.md"):
        if old.name not in written:
            old.unlink()
    print(f"docs/reference: {len(written)} pages")
