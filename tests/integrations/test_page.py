"""Every section of docs/ecosystem.md runs; those whose library is not installed by `make` run live."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"
NEEDS = {
    "scikit-activeml": "skactiveml",
    "modAL": "modAL",
    "skorch": "skorch",
    "River": "river",
    "laplace-torch": "laplace",
    "cleanlab": "cleanlab",
    "MLflow": "mlflow",
    "small-text": "small_text",
    "baal": "baal",
}


def sections() -> dict[str, str]:
    """Return the code of each section, preceded by the code at the head of the page."""
    head, *parts = re.split(r"^##+ (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    code = {
        title: "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)) for title, text in found.items()
    }
    first = "".join(re.findall(r"```python\n(.*?)```", head, re.DOTALL))
    return {title: first + text for title, text in code.items() if text}


def run(section: str) -> dict[str, Any]:
    """Run a section and return its variables."""
    scope: dict[str, Any] = {}
    exec(compile(sections()[section], f"{PAGE.name}: {section}", "exec"), scope)
    return scope


def test_every_section_with_code_is_run() -> None:
    assert set(sections()) == set(NEEDS)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # by dependencies of laplace-torch
@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")  # of MLflow's own functions
@pytest.mark.filterwarnings("ignore:.*has been deprecated in 1.1.0:DeprecationWarning")  # within small-text
@pytest.mark.parametrize("section", [name for name in NEEDS if name != "baal"])
def test_code_of_the_page_runs(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(NEEDS[section], reason=f"needs {NEEDS[section]} (make install)")
    monkeypatch.chdir(tmp_path)
    scope = run(section)
    if section == "cleanlab":
        assert len(set(scope["issues"]) & set(scope["wrong"])) >= 18  # of 25
