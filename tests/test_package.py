"""The package as a whole: the cost of an import, public names, documented facts."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

import everylabel as el
from tests import distribution, mutants

ROOT = Path(__file__).parents[1]


def test_import_brings_nothing_heavy() -> None:
    code = (
        "import sys, everylabel; "
        "heavy = ('torch', 'sklearn', 'scipy', 'matplotlib', 'typer', 'pandas', 'numba'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_brings_no_numpy() -> None:
    code = "import sys, everylabel.cli.commands; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_imports_are_declared_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    optional = {name for extra in extras.keys() - {"test", "bench"} for name in map(_name, extras[extra])}
    declared = set(map(_name, project["dependencies"]))
    imported = {
        (module, file)
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for module in _imported(node)
    }
    installed_as = {"PIL": "pillow", "markdown_it": "markdown-it-py", "sklearn": "scikit-learn"}
    undeclared = set()
    for module, file in imported:
        name = installed_as.get(module, module.replace("_", "-"))
        if module not in sys.stdlib_module_names and name not in declared | {"everylabel"}:
            undeclared.add(name)
            assert name in optional, f"{file} imports {module}; expected it among the dependencies"
    where_there = {"torch", "pillow-heif", "numba", "llvmlite", "matplotlib"}  # they are imported
    assert undeclared <= where_there


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=~ ]", requirement)[0]


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
        return {node.module.split(".")[0]}
    return set()


def test_the_version_is_written_once() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert re.fullmatch(r"\d+\.\d+\.\d+", el.__version__)
    assert el.__version__ not in text
    assert tomllib.loads(text)["tool"]["hatch"]["version"]["path"] == "src/everylabel/__init__.py"


def test_every_extra_is_tried_by_make_dist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) - set(distribution.OWN) == set(distribution.IMPORTS)


@pytest.mark.parametrize("name", el.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(el, name).__doc__


def test_unknown_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        el.nothing  # noqa: B018


def test_mutants_break_lines_that_are_there() -> None:
    stale = [m for m in mutants.CORE if m.right not in (ROOT / "src/everylabel" / m.file).read_text()]
    assert stale == []


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("everylabel.torch", "torch"),
        ("everylabel.integrations.skorch", "skorch"),
        ("everylabel.integrations.laplace", "laplace"),
    ],
)
def test_missing_torch_names_its_extra(module: str, extra: str) -> None:
    code = dedent(f"""
        import sys

        class WithoutTorch:
            def find_spec(self, name, *_):
                if name.partition(".")[0] == "torch":
                    raise ModuleNotFoundError("torch is not there")

        sys.meta_path.insert(0, WithoutTorch())
        try:
            import {module}
        except ImportError as error:
            print(error)
    """)
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert f"install it with: pip install 'everylabel[{extra}]'" in told
