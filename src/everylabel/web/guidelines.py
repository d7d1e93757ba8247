"""What the labellers are told to do: a Markdown file beside the task, made safe to show.

A project keeps a copy, and shows it again when none is named: a path that it remembered could be of any file.

No markup of its own passes (html off), no pictures, and no link but to http, https and mailto: such a file
cannot make the page run or fetch anything.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt

from everylabel.core.errors import EverylabelError
from everylabel.core.files import write_atomically
from everylabel.log.engines import PRIVATE

LONGEST = 1_000_000  # bytes
COPY, NONE = "guidelines.md", "none"
SAFE = ("http", "https", "mailto")


def rendered(text: str) -> str:
    """Return Markdown as HTML that holds nothing but text, lists, tables, code and links elsewhere."""
    return str(_Maker("commonmark", {"html": False}).enable("table").disable("image").render(text))


class _Maker(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return urlsplit(url.strip().lower()).scheme in SAFE


@dataclass(frozen=True)
class Guidelines:
    """The file that is named now, "none" for none, or the project's copy of the last one."""

    folder: Path
    named: Path | None = None

    @property
    def _copy(self) -> Path:
        return self.folder / COPY

    @property
    def _none(self) -> bool:
        return self.named is not None and str(self.named) == NONE

    def html(self) -> str:
        """Return what the page shows; an error names the option."""
        ours = self._copy if self._copy.is_file() and not self._copy.is_symlink() else None
        path = ours if self.named is None else self.named
        return "" if path is None or self._none else rendered(read_guidelines(path))

    def keep(self) -> None:
        """Have the next start show the same."""
        if self._none:
            self._copy.unlink(missing_ok=True)
        elif self.named is not None:
            text = read_guidelines(self.named).encode()
            write_atomically(self._copy, lambda file: file.write(text), mode=PRIVATE)


def read_guidelines(path: Path) -> str:
    """Return a file's Markdown; an error names the option."""
    try:
        if path.stat().st_size > LONGEST:
            raise EverylabelError(
                f"--guidelines {str(path)!r} has more than {LONGEST:,} bytes; expected fewer"
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EverylabelError(
            f"--guidelines {str(path)!r} cannot be read ({reason}); expected a Markdown file in UTF-8"
        ) from error
