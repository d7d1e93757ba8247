"""Warming up changes nothing, and never stands in the way of stopping."""

import threading

import pytest

from everylabel.labelling import compile_ahead as warm
from everylabel.selection.threads import SMALL


@pytest.mark.parametrize("size", [1000, SMALL])
def test_it_runs_for_every_size(size: int) -> None:
    warm.warm_up(size, "margin")


def test_a_failure_is_logged_and_a_stop_before_the_start_is_quick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(warm, "warm_up", lambda *_: 1 / 0)
    with warm.warming(1000, "margin"):
        pass  # never begun
    assert caplog.text == ""
    with warm.warming(1000, "margin") as begin:
        begin.set()
        for thread in threading.enumerate():
            if thread.name == "warm":
                thread.join()
    assert "warming up failed" in caplog.text
