"""The docs are true: examples run, files and commands that exist are documented, links lead somewhere."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from everylabel.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_readme_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(block, scope)
    assert scope["probs"].shape == (5, 10)


def test_every_core_file_is_in_the_maths() -> None:
    text = (ROOT / "docs" / "maths.md").read_text()
    package = ROOT / "src" / "everylabel" / "core"
    missing = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "__init__.py" and path.name not in text
    ]
    assert missing == []


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if f"everylabel {name}" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
