"""Which code made a result: the version, and a digest of the source that was measured.

The digest is of what the source says to Python: comments, docstrings and layout do not count. It is the same
with every version of Python, so that a result can be checked on another machine.
"""

import ast
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import everylabel

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "everylabel"
WHOLE = "all"  # the name of the one part of a result that is measured at once
LOAD = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None  # of others: nothing has run yet

Record = dict[str, Any]


def record(measures: Sequence[str]) -> Record:
    """Return who made a result just now; `measures` are folders or files below src/everylabel."""
    return {
        "version": everylabel.__version__,
        "date": date.today().isoformat(),
        "command": command(sys.orig_argv),
        "load": LOAD,
        "code": {part: digest(SOURCE / part) for part in measures},
    }


def records(path: Path) -> dict[str, Record]:
    """Return the record of each part of a result that has been written before."""
    found = json.loads(path.read_text()) if path.exists() else {}
    return found.get("made_by", {}) if isinstance(found, dict) else {}


def kept(folder: Path, measures: Sequence[str]) -> Record:
    """Return who began to fill a cache: what is in it may be as old as that."""
    path = folder / "made_by.json"
    if not path.exists():
        new = {**record(measures)}
        if folder.is_dir() and any(folder.iterdir()):
            new["code"] = dict.fromkeys(measures, "not noted")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(new, indent=1) + "\n")
    return json.loads(path.read_text())


def changed(made: Record) -> list[str]:
    """Return which parts of the source have changed since a record was made."""
    return [part for part, was in made["code"].items() if was != digest(SOURCE / part)]


def version(made: Record) -> str:
    """Return the release and, after a +, what tells apart the code that was measured."""
    return f"{made['version']}+{hashlib.sha256(str(sorted(made['code'].items())).encode()).hexdigest()[:6]}"


def sentence(made: dict[str, Record]) -> str:
    """Return what a page of tables says of who made it."""
    by: dict[str, list[str]] = {}
    for part, one in made.items():
        by.setdefault(f"everylabel {version(one)} on {one['date']}", []).append(part)
    who = [maker if len(by) == 1 else f"{maker} ({', '.join(parts)})" for maker, parts in by.items()]
    return f"Made by {', '.join(who)}; [the index](README.md) shows whether the code has changed since."


def command(argv: Sequence[str]) -> str:
    """Return the command of this process as one would type it in a checkout."""
    words = [os.path.relpath(word, ROOT) if Path(word).is_absolute() else word for word in argv[1:]]
    return shlex.join(["python", *words])


@cache
def digest(path: Path) -> str:
    """Return the digest of a file's code, or of all below a folder; "gone" if there is none."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(path).as_posix()}\n{code_digest(file.read_text())}\n".encode())
    return total.hexdigest()[:12] if files else "gone"


def code_digest(text: str) -> str:
    """Return the digest of what some source says to Python."""
    return hashlib.sha256("\n".join(_said(ast.parse(text))).encode()).hexdigest()


def _said(node: Any) -> Iterator[str]:
    """Yield a syntax tree as lines, without docstrings, places and empty fields (which differ by version)."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name in node._fields:
            value = getattr(node, name, None)
            if name == "body" and isinstance(value, list):
                value = [part for part in value if not _is_text(part)]
            if value is not None and value != [] and name != "kind":
                yield name
                yield from _said(value)
        yield ")"
    elif isinstance(node, list):
        yield f"[{len(node)}"
        for part in node:
            yield from _said(part)
    else:
        yield repr(node)


def _is_text(node: ast.AST) -> bool:
    """Tell whether a statement is a string only: a docstring, or one that does nothing."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
