"""All code in the documentation runs, and all its commands exist."""

import re
from pathlib import Path

import matplotlib
import pytest

from tests.pages import COMMANDS, blocks, commands, parse, run_page
from website.pages import ROOT

DOCS = ROOT / "docs"
ELSEWHERE = [
    ROOT / "CONTRIBUTING.md",
    DOCS / "adding-a-strategy.md",
    DOCS / "notebooks.md",
    DOCS / "ecosystem.md",
]  # tried by tests/test_docs.py and, where other libraries are needed, by tests/integrations/test_page.py
PAGES = [
    page
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted(DOCS.rglob("*.md")),
    ]
    if page.parent != DOCS / "reference"  # whose examples tests/test_examples.py runs
]
WITH_PYTHON = [
    page for page in PAGES if page not in ELSEWHERE and any(block.kind == "python" for block in blocks(page))
]
CHEAP = {"backup", "doctor", "embed", "export", "predict", "simulate"}  # commands that some page must run


def named(page: Path) -> str:
    """Return a page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_PYTHON, ids=named)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVERYLABEL_CACHE", str(cache))
    matplotlib.use("agg")
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_of_a_page_can_be_given(page: Path) -> None:
    for block in blocks(page):
        for words in commands(block.code) if block.kind != "python" else []:
            parse(words)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_within_sentences_have_the_options_they_name(page: Path) -> None:
    for name, rest in re.findall(r"`everylabel (?!is ready)([a-z-]+)([^`]*)`", page.read_text()):
        assert name in COMMANDS, name
        there = {one for option in COMMANDS[name].params for one in [*option.opts, *option.secondary_opts]}
        assert set(re.findall(r"(?<=\s)--[a-z-]+", rest)) <= there | {"--help"}, (name, rest)


def test_cheap_commands_are_run_on_some_page() -> None:
    ran = {
        words[0]
        for page in WITH_PYTHON
        for block in blocks(page)
        if block.mark == "run"
        for words in commands(block.code)
    }
    assert ran >= CHEAP


def test_a_block_that_is_left_out_has_a_reason() -> None:
    for page in PAGES:
        for mark in re.findall(r"^<!-- (.*)", page.read_text(), re.MULTILINE):
            assert re.match(r"python$|run -->$|not run: \w.{10,} -->$", mark), (page, mark)
