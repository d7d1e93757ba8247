"""Pages, messages, docstrings and test names avoid words that have a plainer or a standard one."""

import ast
import re
from collections.abc import Callable
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
    r"\b(left|put|set) aside\b": "ignored, excluded",
    r"\b(is|are|was|were) to be\b": "must be, will be",
    r"\bwhere (that|it) is possible\b": "if possible",
    r"\bour (own )?page\b": "everylabel's page",
    r"\bbears? (the|them|it) ?\w* ?out\b": "confirms",
    r"\bgoes on\b": "continues, resumes",
    r"\btells? (of|who)\b": "shows, names",
}
IN_CODE = {
    r"\banew\b": WORDS[r"\banew\b"],
    r"\bparted\b": "separated",
    r"\bgoes on\b": WORDS[r"\bgoes on\b"],
    r"\bbears? (the|them|it) ?\w* ?out\b": "confirms",
    r"\bso many\b": "N; name the number",
    r"\bhad it not\b": "without",
    r"\b(left|put|set) aside\b": "excluded, withdrawn, ignored",
    r"\bour (own )?page\b": WORDS[r"\bour (own )?page\b"],
    r"\blikewise\b": "also; repeat the noun",
    r"\b(is|are|was|were) to be\b": WORDS[r"\b(is|are|was|were) to be\b"],
    r"\btold\b": "reported, said; name the report, the note or the message",
    r"\A(What|Who|Whoever|Those|That of)\b(?!.*\?)": "name the thing first: 'Return the ...', 'The ...'",
}
IN_NAMES = {
    r"_(anew|told|tells?)(_|$)(?<!cannot_tell_)(?<!cannot_tell)": "again, reported, shown",
    r"^test_(it|they|others|what|who|whom|those|one_who)_": (
        "name the thing: test_class_without_predictions_does_not_block_others"
    ),
    r"_goes_on(_|$)": "continues, resumes",
    r"_so_many(_|$)": "name the number: every_nth, size_is_limited",
}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "CHANGELOG.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not {"reference", "reproduction"} & {*page.parts}
    ),
]
MODULES = [path for name in ("src", "website", "benchmarks") for path in sorted((ROOT / name).rglob("*.py"))]


def _prose(page: Path) -> str:
    """Return a page without code and without the table of examples for writers."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"^\| not \| but \|\n(\|.*\n)*", "", text, flags=re.MULTILINE)


def _found(words: dict[str, str], text: str) -> list[str]:
    """Return a suggestion for each word of the list in a text."""
    return [
        f"{match[0]!r}: better {better}"
        for word, better in words.items()
        for match in re.finditer(word, text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_uses_plain_and_standard_words(page: Path) -> None:
    found = _found(WORDS, _prose(page))
    assert not found, f"{page.name} says " + "; ".join(found)


def _strings(tree: ast.Module) -> list[tuple[int, str]]:
    """Return all strings of a module with their lines."""
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _docstrings(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the docstrings of a module with their lines."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    owners = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(node.body[0].lineno, text) for node in owners if (text := ast.get_docstring(node))]


def _comments(text: str) -> list[tuple[int, str]]:
    """Return the comments behind code with their lines."""
    lines = enumerate(text.splitlines(), 1)
    return [(number, line.rpartition("  # ")[2]) for number, line in lines if "  # " in line]


def _badly_said(module: Path, strings: Callable[[ast.Module], list[tuple[int, str]]]) -> list[str]:
    """Return suggestions for the strings and comments of a module."""
    text = module.read_text()
    return [
        f"{module.relative_to(ROOT)}:{line}: {word}"
        for line, part in strings(ast.parse(text)) + _comments(text)
        for word in _found(IN_CODE, part.strip())
    ]


def test_docstrings_messages_and_comments_use_plain_words() -> None:
    found = [word for module in MODULES for word in _badly_said(module, _strings)]
    assert not found, "write plainly:\n" + "\n".join(found)


def test_docstrings_and_comments_of_tests_use_plain_words() -> None:
    modules = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
    found = [word for module in modules for word in _badly_said(module, _docstrings)]
    assert not found, "write plainly:\n" + "\n".join(found)


def test_names_of_tests_say_the_behaviour() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}: {word}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        for word in _found(IN_NAMES, name)
    ]
    assert not found, "name the behaviour:\n" + "\n".join(found)
