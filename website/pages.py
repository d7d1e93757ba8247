"""The pages of the site: docs/, and the pages at the root of the repository (changelog, security ...).

Links between pages are rewritten for the site. HTML comments, which only the tests use, are removed.
"""

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
AT_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",  # links to it lead to the home page
    "SECURITY.md": "security.md",
}  # path in the repository -> path on the site
LINK = re.compile(r"(\[[^\[\]]*\])\(([^)#:\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)


def prepare(folder: Path) -> None:
    """Write all pages and their pictures to a folder."""
    shutil.copytree(ROOT / "docs", folder)
    for path in folder.rglob("*.md"):
        here = path.relative_to(folder).as_posix()
        path.write_text(shown(path.read_text(), f"docs/{here}", here))
    for old, new in AT_ROOT.items():
        if not (folder / new).exists():
            (folder / new).write_text(shown((ROOT / old).read_text(), old, new))


def shown(text: str, old: str, new: str) -> str:
    """Return a page's text with links for the site and without comments.

    old, new : path of the page in the repository and on the site
    """

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(old), match[2]))
        place = AT_ROOT.get(target) or target.removeprefix("docs/")
        if place == target and not target.startswith("docs/"):
            return match[1][1:-1]  # a source file, which is not on the site
        return f"{match[1]}({posixpath.relpath(place, posixpath.dirname(new) or '.')}{match[3] or ''})"

    parts = [LINK.sub(lead, HIDDEN.sub("", part)) for part in FENCE.split(text)]
    fences = [*FENCE.findall(text), ""]
    return "".join(part + fence for part, fence in zip(parts, fences, strict=True))


def listed(nav: Any) -> list[str]:
    """Return the pages in a navigation."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in listed(part)]


def navigation_errors(folder: Path, navigation: list[str]) -> list[str]:
    """Return the differences between pages and navigation, as sentences."""
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    lost = [
        f"{page}: in no navigation; add it to website/mkdocs.yml" for page in sorted(pages - set(navigation))
    ]
    gone = [f"{page}: no such page" for page in navigation if page not in pages]
    return lost + gone + [f"{page}: twice" for page in set(navigation) if navigation.count(page) > 1]


class Loader(yaml.SafeLoader):
    """A YAML loader that ignores references to Python objects."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def configuration() -> dict[str, Any]:
    """Return the configuration of the site."""
    return yaml.load((ROOT / "website" / "mkdocs.yml").read_text(), Loader)
