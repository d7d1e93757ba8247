"""Docstrings as Markdown: parameters become lists, examples become code blocks."""

import re

SECTION = re.compile(r"^(Parameters|Attributes|Returns|Raises|Examples)\n-+$", re.MULTILINE)
FIELD = re.compile(r"^(?=\S)", re.MULTILINE)


def rendered(text: str) -> str:
    """Return a docstring as Markdown."""
    first, *rest = SECTION.split(text)
    parts = [_prose(first)]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if title == "Examples":
            parts.append(_prose(body))
        else:
            fields, _, prose = body.strip("\n").partition("\n\n")
            parts += [f"**{title}**", "\n".join(_field(field) for field in FIELD.split(fields) if field)]
            parts.append(_prose(prose))
    return "\n\n".join(part for part in parts if part)


def _field(text: str) -> str:
    head, _, body = text.partition("\n")
    name, _, kind = (part.strip() for part in head.partition(" : "))
    about = " ".join(line.strip() for line in body.splitlines())
    names = ", ".join(f"`{each.strip()}`" for each in name.split(","))
    return f"- {names}" + (f" (*{kind}*)" if kind else "") + (f": {about}" if about else "")


def _prose(text: str) -> str:
    """Return paragraphs unchanged, and examples as code blocks with their output as comments."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\n+", text.strip("\n")):
        lines = paragraph.splitlines()
        starts = next((i for i, line in enumerate(lines) if line.startswith(">>> ")), len(lines))
        if starts:
            parts.append("\n".join(_entry(line) for line in lines[:starts]))
        if starts < len(lines):
            parts.append("```python\n" + "\n".join(_code(line) for line in lines[starts:]) + "\n```")
    return "\n\n".join(parts)


def _entry(line: str) -> str:
    """Return a line `name : meaning` of a short docstring as a list item."""
    return re.sub(r"^(\w+(?:, \w+)*) : ", r"\n- `\1`: ", line)


def _code(line: str) -> str:
    return line[4:] if line.startswith((">>> ", "... ")) else "" if line in (">>>", "...") else f"# {line}"
