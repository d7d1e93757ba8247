"""The pages of the site: those of docs/, and those that lie where people look for them, beside docs/.

Links between them lead to where the site has them, and comments, which are there for the tests, are left out.
"""

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
BROUGHT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",  # whose place the home page takes
    "SECURITY.md": "security.md",
}  # where they lie -> where they are on the site
LINK = re.compile(r"(\[[^\[\]]*\])\(([^)#:\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)


def prepare(folder: Path) -> None:
    """Write all pages, and what they show, to a folder."""
    shutil.copytree(ROOT / "docs", folder)
    for path in folder.rglob("*.md"):
        here = path.relative_to(folder).as_posix()
        path.write_text(shown(path.read_text(), f"docs/{here}", here))
    for old, new in BROUGHT.items():
        if not (folder / new).exists():
            (folder / new).write_text(shown((ROOT / old).read_text(), old, new))


def shown(text: str, old: str, new: str) -> str:
    """Return a page's text as the site shows it.

    old : where the page lies, from the root of the repository
    new : where it is, from the root of the site
    """

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(old), match[2]))
        place = BROUGHT.get(target) or target.removeprefix("docs/")
        if place == target and not target.startswith("docs/"):
            return match[1][1:-1]  # a file of the source, which the site does not have
        return f"{match[1]}({posixpath.relpath(place, posixpath.dirname(new) or '.')}{match[3] or ''})"

    parts = [LINK.sub(lead, HIDDEN.sub("", part)) for part in FENCE.split(text)]
    fences = [*FENCE.findall(text), ""]
    return "".join(part + fence for part, fence in zip(parts, fences, strict=True))


def listed(nav: Any) -> list[str]:
    """Return the pages that a navigation leads to."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in listed(part)]


def astray(folder: Path, navigation: list[str]) -> list[str]:
    """Return what is wrong between pages and navigation."""
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    lost = [
        f"{page}: in no navigation; add it to website/mkdocs.yml" for page in sorted(pages - set(navigation))
    ]
    gone = [f"{page}: no such page" for page in navigation if page not in pages]
    return lost + gone + [f"{page}: twice" for page in set(navigation) if navigation.count(page) > 1]


class Loader(yaml.SafeLoader):
    """A reader that leaves alone what a configuration names of Python."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def configuration() -> dict[str, Any]:
    """Return the configuration of the site."""
    return yaml.load((ROOT / "website" / "mkdocs.yml").read_text(), Loader)
