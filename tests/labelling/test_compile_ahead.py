"""Compiling ahead takes the paths of any pool, and never stands in the way of stopping."""

import subprocess
import sys
import threading

import pytest

from everylabel.labelling import compile_ahead
from everylabel.selection.threads import SMALL


@pytest.mark.parametrize("size", [1000, SMALL])
def test_it_runs_for_every_size(size: int) -> None:
    compile_ahead.compile_loops(size, "margin")


def test_no_loop_of_exact_updates_is_left_to_a_label() -> None:
    pytest.importorskip("numba")
    code = """
from everylabel.core import seen_loops
from everylabel.labelling.compile_ahead import compile_loops
compile_loops(1000, "margin")
loops = {name: each for name, each in vars(seen_loops).items() if hasattr(each, "signatures")}
assert len(loops) > 4, loops
print([name for name, each in loops.items() if name[0] != "_" and len(each.signatures) < 2])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_loops_of_exact_updates_are_left_alone_where_none_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_ahead, "_update_often", lambda _: pytest.fail("it was compiled"))
    compile_ahead.compile_loops(1000, "margin", exact=False)


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
