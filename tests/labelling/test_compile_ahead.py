"""Compiling ahead takes the paths of any pool, and never stands in the way of stopping."""

import threading

import pytest

from everylabel.labelling import compile_ahead
from everylabel.selection.threads import SMALL


@pytest.mark.parametrize("size", [1000, SMALL])
def test_it_runs_for_every_size(size: int) -> None:
    compile_ahead.compile_loops(size, "margin")


def test_a_failure_is_logged_and_a_stop_before_the_start_is_quick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compile_ahead, "compile_loops", lambda *_: 1 / 0)
    with compile_ahead.compiling(1000, "margin"):
        pass  # never begun
    assert caplog.text == ""
    with compile_ahead.compiling(1000, "margin") as begin:
        begin.set()
        for thread in threading.enumerate():
            if thread.name == "compile":
                thread.join()
    assert "compiling ahead failed" in caplog.text
