"""Fixtures of tests of commands."""

from pathlib import Path

import pytest

from tests.fixtures import minilm

__all__ = ["minilm"]


@pytest.fixture
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of its own, with a cache of its own and room to print."""
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("EVERYLABEL_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
