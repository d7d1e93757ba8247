"""The package's errors and warnings, and helpers that word their messages."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class EverylabelError(ValueError):
    """Bad input. The message names the argument, the value received, the value expected and the remedy.

    It is a `ValueError`, so code that does not import everylabel can catch it.

    Examples
    --------
    >>> try:
    ...     el.update(post, x[:1], [10])
    ... except el.EverylabelError as error:
    ...     print(error)
    labels runs from 10 to 10; expected class numbers 0 to 9 (add_class makes room for a new class)
    """


class EverylabelWarning(UserWarning):
    """Something was skipped, repaired or simplified; the message counts and lists the cases."""


class MissingExtra(EverylabelError, ImportError):
    """A library of an optional extra is not installed."""


def need(module: str, extra: str | None, purpose: str) -> Any:
    """Import and return an optional library; if it is missing, raise an error that says what to install.

    extra : the extra of everylabel that installs it; None: the package of the library's own name
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        package = name if extra is None else f"'everylabel[{extra}]'"
        raise MissingExtra(
            f"{purpose} needs {name} ({error}); install it with: pip install {package}"
        ) from error


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its singular or plural noun: `counted(1, "class is", "classes are")`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that a misspelt `name` probably means, or None."""
    by_case = {each.casefold(): each for each in names if each != name}
    found = get_close_matches(name.casefold(), by_case, 1, 0.8)
    return by_case[found[0]] if found else None


def listed(names: list[str], most: int = 5) -> str:
    """Return names in one line, at most the first `most`; names with a comma are quoted."""
    return and_more([f'"{name}"' if "," in name else name for name in names[:most]], len(names))


def and_more(shown: list[str], n: int) -> str:
    """Return texts in one line, with the number of those among n that are not shown."""
    return ", ".join(shown) + (f" and {n - len(shown)} more" if n > len(shown) else "")
