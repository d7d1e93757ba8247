"""Fixtures of tests of commands."""

from pathlib import Path

import pytest

from tests.fixtures import minilm

__all__ = ["minilm"]


@pytest.fixture
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a new folder with its own cache and a wide terminal."""
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("EVERYLABEL_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
