"""Every test of this folder checks that its sessions leave nothing behind."""

import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def tidy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that a stopped session leaves no thread, folder or signal handler."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    threads, handlers = set(threading.enumerate()), signal.getsignal(signal.SIGINT)
    yield
    left = [each.name for each in set(threading.enumerate()) - threads if each.name in ("everylabel", "desk")]
    assert left == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is handlers
