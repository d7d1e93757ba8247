"""The documentation site builds, loads nothing from other hosts, and its reference matches the code."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import pages as browser
from website.build import Failed, build, fetched
from website.pages import ROOT, navigation_errors, shown
from website.reference import api
from website.reference.pages import pages

SEARCH = """
    const [word, done] = arguments;
    document.querySelector(".md-search__button").click();
    const parts = [...document.querySelectorAll("body > div")];
    const inside = () => parts.map((one) => one.shadowRoot).find(Boolean);
    const look = () => {
        const box = inside()?.querySelector("input");
        const found = [...(inside()?.querySelectorAll("a") ?? [])].map((link) => link.href);
        if (found.length) return done(found);
        if (box && box.value !== word) {
            box.value = word;
            box.dispatchEvent(new Event("input", { bubbles: true }));
        }
        setTimeout(look, 50);
    };
    look();
"""  # types a word, and tells where the first results lead


def console(driver: Any) -> list[Any]:
    """Return the browser's console messages."""
    return driver.get_log("browser")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("docs") / "built")


def test_the_site_builds_with_every_page(site: Path) -> None:
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    written = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    readmes = {page for page in written if page.endswith("/README")}
    assert written - readmes <= built
    assert {page.replace("README", "index") for page in readmes} <= built
    assert {"contributing", "security", "changelog"} <= built
    text = (site / "tutorials" / "label-a-csv.html").read_text()
    assert "tests.pages" not in text  # what is there for the tests is not shown


def test_requests_of_a_page_to_other_hosts_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><script src="//cdn.example/a.js"></script>'
        '<a href="https://example.org">read</a><img src="here.png">'
        "<style>a { background: url(https://b.example/c) }</style>"
    )
    assert fetched(page) == ["https://fonts.example/a.css", "//cdn.example/a.js", "https://b.example/c"]


def test_pages_in_no_navigation_are_reported(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).touch()
    assert navigation_errors(tmp_path, ["a.md", "b.md"]) == []
    assert navigation_errors(tmp_path, ["a.md", "c.md", "a.md"]) == [
        "b.md: in no navigation; add it to website/mkdocs.yml",
        "c.md: no such page",
        "a.md: twice",
    ]


def test_a_broken_link_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_broken_links(folder: Path) -> None:
        folder.mkdir()
        (folder / "index.md").write_text("# Home\n\n[gone](gone.md) and [nowhere](index.md#nowhere)\n")

    monkeypatch.setattr("website.build.prepare", with_broken_links)
    monkeypatch.setattr("website.build.configuration", lambda: {"nav": ["index.md"]})
    with pytest.raises(Failed, match=r"(?s)page does not exist.*anchor does not exist"):
        build(tmp_path / "docs")


def test_links_and_comments_of_a_page_that_is_moved() -> None:
    code = "```\n[f](docs/g.md)\n<!-- h -->\n```\n"
    text = f"<!-- run -->\n[a](docs/maths.md#x) [b](SECURITY.md) [c](https://d.e)\n{code}"
    there = f"[a](maths.md#x) [b](security.md) [c](https://d.e)\n{code}"
    assert shown(text, "CONTRIBUTING.md", "contributing.md") == there
    assert shown("[a](../../SECURITY.md)", "docs/how-to/b.md", "how-to/b.md") == "[a](../security.md)"
    assert shown("see [`b.py`](../src/b.py)", "docs/a.md", "a.md") == "see `b.py`"


def test_the_reference_is_that_of_the_code() -> None:
    folder = ROOT / "docs" / "reference"
    should_be = pages()
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(should_be)
    changed = [name for name, text in should_be.items() if (folder / name).read_text() != text]
    assert changed == [], "run `make reference`"


def test_every_public_name_is_on_a_page() -> None:
    listed = api.public()
    modules = {module for module, _ in listed}
    assert sorted(listed) == sorted((each, name) for each in modules for name in import_module(each).__all__)
    others = (ROOT / "src" / "everylabel" / "integrations").glob("[a-z]*.py")
    behind_suggest = {"chat", "language_model"}  # `everylabel suggest` uses them; nothing else should
    assert {
        f"everylabel.integrations.{path.stem}" for path in others if path.stem not in behind_suggest
    } <= modules


@pytest.mark.skipif(browser.CHROMEDRIVER is None, reason="chromium and chromedriver are not installed")
def test_the_site_is_searched_from_the_disk(site: Path) -> None:
    driver = browser.start_browser()
    try:
        driver.get((site / "tutorials" / "index.html").as_uri())
        found = driver.execute_async_script(SEARCH, "lookahead")
        assert any("selection.html" in address for address in found)
        assert [line for line in console(driver) if line["level"] == "SEVERE"] == []
    finally:
        driver.quit()
