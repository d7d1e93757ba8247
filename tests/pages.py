"""Run the code of documentation pages.

Python blocks of a page share one scope and a temporary folder. What a reader does not see stands in comments
before a block: `<!-- python ... -->` is run, too; `<!-- run -->` runs the commands of the next block, which
are otherwise only parsed; `<!-- not run: reason -->` leaves the next block out.
"""

import re
import shlex
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from typer.main import get_command
from typer.testing import CliRunner

from everylabel.cli import app
from tests.web.servers import label

PART = re.compile(
    r"^<!-- python\n(?P<hidden>.*?)^-->$"
    r"|^<!-- (?P<mark>run|not run: .+?) -->$"
    r"|^```(?P<kind>\w*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
COMMANDS: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


class Block(NamedTuple):
    """A block of code: its language (python, or empty for commands), and the comment before it."""

    kind: str
    code: str
    mark: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order, with hidden ones."""
    text, mark, found = page.read_text(), "", []
    for match in PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["mark"]:
            mark = match["mark"]
            continue
        kind, code = ("python", match["hidden"]) if match["hidden"] else (match["kind"], match["code"])
        found.append(Block(kind, code, mark, line))
        mark = ""
    return found


def commands(code: str) -> list[list[str]]:
    """Return the words of each `everylabel ...` command of a block."""
    lines = code.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("everylabel ")]
    return [list(takewhile(lambda word: word not in (">", "|", "&"), each)) for each in words]


def parse(words: list[str]) -> None:
    """Parse a command as the command line would, without running it."""
    name, *arguments = words
    COMMANDS[name].make_context(name, arguments).close()


def run_page(page: Path) -> list[str]:
    """Run a page in the current folder; return the names of the commands that were run."""
    scope: dict[str, Any] = {"__name__": "page"}
    ran = []
    for block in blocks(page):
        if block.kind == "python" and not block.mark.startswith("not run"):
            exec(compile("\n" * block.line + block.code, str(page), "exec"), scope)
        elif block.mark == "run":
            for words in commands(block.code):
                result = CliRunner().invoke(app, words)
                assert result.exit_code == 0, (words, result.output, result.exception)
                ran.append(words[0])
    return ran


def labelled(*arguments: str, truth: Mapping[str, str], n: int) -> None:
    """Label n items of a source on a real server with the true classes."""
    with label(Path.cwd(), *arguments) as server:
        reply = server.client.post("/api/next")
        for _ in range(n):
            item = reply["next"]["item"]
            reply = server.client.post("/api/label", item=item["id"], **{"class": truth[item["text"]]})
        server.stop()
