"""The docs are correct: examples run, named files exist, commands are documented, links work."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import everylabel as el
from benchmarks import results
from everylabel.cli import app
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Labelled
from everylabel.core.updates import DEFAULT_STEPS, METHODS
from everylabel.data.items import Options
from tests.notebook.people import answer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "everylabel"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
MAPS = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]  # of which every path must be there


def blocks(page: Path) -> list[str]:
    """Return the examples of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def there(path: str) -> Path | None:
    """Return the file or folder that a page names."""
    return next((place / path for place in (ROOT, PACKAGE) if (place / path).exists()), None)


def test_the_notebook_page_runs_with_somebody_who_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in blocks(ROOT / "docs" / "notebooks.md"):
        exec(block, scope)
        if scope["session"].running:
            answer(scope["session"], 6, lambda item: int("card" not in item["text"]))
    frame = scope["frame"]
    assert frame.label.notna().sum() == 6
    assert set(frame.guess) == {"card", "transfer"}


def test_the_version_to_cite_is_that_of_the_package() -> None:
    assert f"version: {el.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_core_file_is_in_the_maths() -> None:
    text = (ROOT / "docs" / "maths.md").read_text()
    package = PACKAGE / "core"
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


def test_the_page_of_results_lists_them() -> None:
    listed = (results.FOLDER / "README.md").read_text() == results.page()
    assert listed, "docs/results/README.md misses a result: run `python -m benchmarks.results` and commit it"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page != results.FOLDER / "README.md"],  # the list: compared as a whole above
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_figures_on_a_page_name_the_version_that_made_them(page: Path) -> None:
    folder = "" if page.parent == results.FOLDER else "results/"
    for paragraph in re.split(r"\n\s*\n", page.read_text()):
        for name in set(re.findall(rf"\]\([./]*{folder}([\w-]+)\.json", paragraph)):
            made = [results.version(one) for one in results.records(results.FOLDER / f"{name}.json").values()]
            assert any(one in paragraph for one in made), (
                f"{page.name} shows figures of {name}.json, which was made by {made}: bring them up to date "
                "and name that version beside the link"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#:]+)(?:#([^)]*))?\)", page.read_text()):
        assert (page.parent / target).exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)", (page.parent / target).read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_every_path_is_there(page: Path) -> None:
    text = re.sub(r"^│.*|https?:\S+", "", page.read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"(?<![\w./-])[\w-][\w./-]*(?:\.(?:py|md|js|toml)\b|/(?=[`\s:]))", text))
    assert len(named) > 30
    new = {path for path in named if Path(path).name.startswith("my_")}  # of skeletons
    assert [path for path in named - new if not (there(path) or (page.parent / path).exists())] == []


def test_the_page_on_proxies_shows_the_caddyfile() -> None:
    folder = ROOT / "docs" / "how-to"
    shown = re.findall(r"```caddyfile\n(.*?)```", (folder / "behind-a-proxy.md").read_text(), re.DOTALL)
    assert shown == [(folder / "Caddyfile").read_text()]


def test_promised_behaviour_is_tested() -> None:
    named = set(re.findall(r"`(tests/[\w./]+)`", (ROOT / "SECURITY.md").read_text()))
    assert len(named) > 12
    assert [path for path in named if not (ROOT / path).is_file()] == []


@cache
def modules() -> list[str]:
    """Return all Python files of the project, from its root."""
    homes = [ROOT / name for name in ("src", "tests", "benchmarks", "website")]
    return [f"/{path.relative_to(ROOT)}" for home in homes for path in home.rglob("*.py")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_is_there(page: Path) -> None:
    files = modules()
    text = re.sub(r"\bmy_\w+\.py|\S+/my_\w+\.py|(?:\.\./)+", "", page.read_text())
    named = set(re.findall(r"[\w./-]+\.py\b", text))
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_names_that_pages_place_in_a_file_are_in_it(page: Path) -> None:
    found = re.findall(r"`(\w+)`(?:, `(\w+)`)? (?:in|of)\s+`([\w./-]+\.(?:py|js))`", page.read_text())
    assert len(found) > 8
    for *names, path in found:
        file = there(path)
        assert file is not None
        assert [name for name in names if name not in file.read_text()] == [], path


def test_the_picture_has_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    picture = re.findall(r"^│(.*)│$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    drawn = [[cell.split()[0] for cell in line.split("│")] for line in picture]
    layers = [layer.replace("everylabel.", "").split(" | ") for layer in contracts[0]["layers"]]
    assert [sorted(rooms) for rooms in drawn] == [sorted(rooms) for rooms in layers]


def test_skeletons_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {}
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "adding-a-strategy.md"):
        for block in blocks(page):
            ast.parse(dedent(block))  # of a class or a table: a part only
            if block.startswith('"""'):
                exec(block, scope)
    monkeypatch.setitem(LIKELIHOODS, "mine", scope["my_likelihood"])
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    post = el.laplace(rng.normal(size=(4, 3)), x, "mine")
    learned = scope["my_update"](post, Labelled(np.c_[x, np.ones(6)], y, np.ones(6)), 0.1, False)
    np.testing.assert_allclose(learned.mean, el.update(post, x, y, "first_order", 0.1).mean)
    monkeypatch.setitem(METHODS, "my_update", scope["my_update"])  # what the page says to do with it
    monkeypatch.setitem(DEFAULT_STEPS, "my_update", scope["DEFAULT_STEP"])
    by_name, stepped = el.update(post, x, y, "my_update"), el.update(post, x, y, "first_order", 0.001)
    np.testing.assert_allclose(by_name.mean, stepped.mean)
    np.testing.assert_allclose(by_name.cov, stepped.cov)
    pool = el.Pool(x, post)
    assert scope["my_score"](pool, pool.free_idx, rng).shape == (6,)
    (tmp_path / "x.txt").write_text("one text\nanother\n")
    assert scope["read_lines"](tmp_path / "x.txt", Options()).items == ["one text", "another"]
    assert scope["MyTexts"]("a model", 8, None).key == "my a model"
