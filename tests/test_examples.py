"""Every public name has an example in its docstring, and every example holds."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from website.reference.api import START, public

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize(("module", "name"), public(), ids=[".".join(each) for each in public()])
def test_the_example_of_a_public_name_holds(
    module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    what = getattr(import_module(module), name)
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(what) or "", {}, name, None, None)
    assert example.examples, f"{module}.{name} has no example in its docstring"
    exec(START, example.globs)
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=told.append)
    assert result.failed == 0, "".join(told)
