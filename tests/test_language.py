"""Pages for users avoid words that have a plainer or a standard one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = {
    r"\banew\b": "again; retrain, refit, recompute",
    r"\bparted by\b": "separated by; comma-separated",
    r"\bun-?learn(s|ed)?\b": "forget",
    r"\bhad it not\b": "without",
    r"(?m)^(Who|Whoever) \w+s\b": "If you ..., you ...; name the person",
    r"\bso many \w+ are\b": "N ...; name the number",
    r"\bgive(s|n)? back\b": "return",
    r"\bcries? wolf\b": "false alarm",
    r"\bmade up\b": "generated",
    r"\bleft aside\b": "ignored",
    r"\bbears? (the|them|it) ?\w* out\b": "confirms",
    r"\bgoes on\b": "continues, resumes",
    r"\btells? (of|who)\b": "shows, names",
}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"reference", "results"} & {*page.parts}),
]


def _prose(page: Path) -> str:
    """Return a page without code and without the table of examples for writers."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"^\| not \| but \|\n(\|.*\n)*", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_uses_plain_and_standard_words(page: Path) -> None:
    text = _prose(page)
    found = [
        f"{match[0]!r}: better {better}"
        for word, better in WORDS.items()
        for match in re.finditer(word, text)
    ]
    assert not found, f"{page.name} says " + "; ".join(found)
