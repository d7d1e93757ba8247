"""The package as a whole: what an import costs, what is public, what the docs say."""

import subprocess
import sys
from pathlib import Path

import pytest

import everylabel as el
from tests import mutants

ROOT = Path(__file__).parents[1]


def test_import_brings_nothing_heavy() -> None:
    code = (
        "import sys, everylabel; "
        "heavy = ('torch', 'sklearn', 'scipy', 'matplotlib', 'typer', 'pandas', 'numba'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", el.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(el, name).__doc__


def test_unknown_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        el.nothing  # noqa: B018


def test_mutants_break_lines_that_are_there() -> None:
    stale = [m for m in mutants.CORE if m.right not in (ROOT / "src/everylabel" / m.file).read_text()]
    assert stale == []
