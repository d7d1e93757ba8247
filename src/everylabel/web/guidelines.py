"""What the labellers are told to do: a Markdown file beside the task, made safe to show.

No markup of its own passes (html off), no pictures, and no link but to http, https and mailto: such a file
cannot make the page run or fetch anything.
"""

from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt

from everylabel.core.errors import EverylabelError

LONGEST = 1_000_000  # bytes
SAFE = ("http", "https", "mailto")


def rendered(text: str) -> str:
    """Return Markdown as HTML that holds nothing but text, lists, tables, code and links elsewhere."""
    return str(_Maker("commonmark", {"html": False}).enable("table").disable("image").render(text))


class _Maker(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return urlsplit(url.strip().lower()).scheme in SAFE


def read_guidelines(path: Path) -> str:
    """Return a file's HTML; an error names the option."""
    try:
        if path.stat().st_size > LONGEST:
            raise EverylabelError(
                f"--guidelines {str(path)!r} has more than {LONGEST:,} bytes; expected fewer"
            )
        return rendered(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EverylabelError(
            f"--guidelines {str(path)!r} cannot be read ({reason}); expected a Markdown file in UTF-8"
        ) from error
