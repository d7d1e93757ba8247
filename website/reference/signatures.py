"""Signatures of functions and classes, with the types as written in the source."""

import ast
import inspect
from textwrap import dedent, fill
from typing import Any

WIDTH = 92
INDENT: Any = {"initial_indent": "    ", "subsequent_indent": "    ", "break_long_words": False}


def signature(what: Any, name: str) -> str:
    """Return `name(...) -> ...` on one line, or with the arguments on separate lines."""
    function = _function(what)
    if function is None:
        return f"{name}({', '.join(_fields(what))})"
    described = "Parameters\n---" in (inspect.getdoc(what) or "")  # then the types are there
    arguments = [part for part in _arguments(function.args, described) if part not in ("self", "cls")]
    comes = f" -> {ast.unparse(function.returns)}" if function.returns and not inspect.isclass(what) else ""
    line = f"{name}({', '.join(arguments)}){comes}".replace("'", '"')
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", fill(", ".join(arguments) + ",", WIDTH, **INDENT), f"){comes}"]).replace(
        "'", '"'
    )


def _function(what: Any) -> ast.FunctionDef | None:
    """Return the syntax tree of a function or of `__init__`; None for a class without `__init__`."""
    if inspect.isclass(what):
        what = vars(what).get("__init__")
    try:
        source = inspect.getsource(what)
    except (OSError, TypeError):
        return None
    found = next(ast.walk(ast.parse(dedent(source)).body[0]))
    return found if isinstance(found, ast.FunctionDef) else None


def _fields(what: Any) -> list[str]:
    return list(getattr(what, "_fields", None) or getattr(what, "__dataclass_fields__", {}))


def _arguments(args: ast.arguments, described: bool) -> list[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    parts = [_argument(a, default, described) for a, default in zip(plain, defaults, strict=True)]
    if args.vararg:
        parts.append(f"*{_argument(args.vararg, None, described)}")
    elif args.kwonlyargs:
        parts.append("*")
    parts += [_argument(a, d, described) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        parts.append(f"**{_argument(args.kwarg, None, described)}")
    return parts


def _argument(argument: ast.arg, default: ast.expr | None, described: bool) -> str:
    typed = argument.annotation is not None and not described
    text = f"{argument.arg}: {ast.unparse(argument.annotation)}" if typed else argument.arg  # type: ignore[arg-type]
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if typed else f"{text}={ast.unparse(default)}"
