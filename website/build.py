"""Build the site from the repository with Zensical, and check it."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from website.pages import ROOT, configuration, listed, navigation_errors, prepare

FETCHED = {"src", "srcset", "poster", "data"}  # attributes that make a browser fetch something
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


class Failed(Exception):
    """The site cannot be built; the message lists the problems."""


def build(folder: Path) -> Path:
    """Build the site in a folder, which is emptied first; return the folder of its pages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    prepare(folder / "pages")
    problems = navigation_errors(folder / "pages", listed(configuration()["nav"]))
    if problems:
        raise Failed("\n".join(problems))
    shutil.copy(ROOT / "website" / "mkdocs.yml", folder)
    zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(zensical, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))
    foreign = {f"{page.name}: {what}" for page in (folder / "site").rglob("*.html") for what in fetched(page)}
    if foreign:
        raise Failed("fetched from elsewhere:\n" + "\n".join(sorted(foreign)))
    return folder / "site"


class Fetched(HTMLParser):
    """Finds resources that a page would fetch from other hosts; links do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = FETCHED | ({"href"} if tag == "link" else set())
        rel = dict(attrs).get("rel") or ""
        if rel not in ("canonical", "prev", "next"):
            self.found += [
                value for name, value in attrs if name in names and value and ELSEWHERE.match(value.strip())
            ]


def fetched(page: Path) -> list[str]:
    """Return the addresses on other hosts that a built page fetches by itself."""
    parser = Fetched()
    text = page.read_text(errors="replace")
    parser.feed(text)
    return parser.found + re.findall(r"url\(['\"]?((?:https?:)?//[^)]*)\)", text)
