"""Every public name has an example in its docstring, and every example runs."""

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from website.reference.api import START, public

ON_RAY = {"ShardedFeatures", "ShardPool"}  # those of tests/scale/test_pool.py, which has a Ray
EXAMPLES = [each for each in public() if each[1] not in ON_RAY]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def check_example(module: str, name: str) -> None:
    """Run the example of a public name in the current folder."""
    what = getattr(import_module(module), name)
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(what) or "", {}, name, None, None)
    assert example.examples, f"{module}.{name} has no example in its docstring"
    exec(START, example.globs)
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=told.append)
    assert result.failed == 0, "".join(told)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # by dependencies of laplace-torch
@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")  # of MLflow's own functions
@pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow")
@pytest.mark.filterwarnings("ignore::FutureWarning:mlflow")
@pytest.mark.filterwarnings("ignore:.*[Ff]ilesystem tracking backend:FutureWarning")
@pytest.mark.parametrize(("module", "name"), EXAMPLES, ids=[".".join(each) for each in EXAMPLES])
def test_the_example_of_a_public_name_holds(
    module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database wants the whole of MLflow
    check_example(module, name)
