"""Compiling ahead covers the code of any pool, and does not delay a stop."""

import os
import subprocess
import sys
import threading

import pytest

from everylabel.labelling.model import retrainer
from everylabel.labelling.model.learner import Learner
from everylabel.selection.threads import SMALL


@pytest.mark.parametrize("size", [1000, SMALL])
def test_compiling_ahead_runs_for_every_pool_size(size: int) -> None:
    retrainer.compile_loops(size, "margin")


def test_python_may_end_while_it_compiles() -> None:
    code = """
import threading, time
from everylabel.labelling.model import retrainer
from everylabel.selection.threads import share

def compile_loops(*given):
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print(share(lambda start, stop: (start, stop), 10))

retrainer.compile_loops = compile_loops
retrainer.start_compiling(1000, "margin")
"""
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert (done.stdout, done.stderr) in (("[(0, 5), (5, 10)]\n", ""), ("[(0, 10)]\n", ""))


def test_small_pools_do_not_load_the_compiler() -> None:
    code = """
import sys
from everylabel.labelling.model.retrainer import compile_loops
from everylabel.selection.threads import SMALL
compile_loops(10 * SMALL, "herding", False, SMALL // 2)
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_failure_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(retrainer, "compile_loops", fails)
    retrainer.start_compiling(1000, "margin")
    for thread in threading.enumerate():
        if thread.name == "compile":
            thread.join()
    assert "compiling ahead failed" in caplog.text


def test_nobody_waits_for_a_loop_that_is_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, compiled, went_on = threading.Event(), threading.Event(), []
    others = set(threading.enumerate())

    def step(learner: Learner) -> None:
        begun.set()
        compiled.wait()

    monkeypatch.setattr(Learner, "expected", step)
    monkeypatch.setattr(Learner, "pick", lambda *_: went_on.append("pick"))
    end = retrainer.start_compiling(1000, "margin")
    begun.wait()
    end()
    (thread,) = set(threading.enumerate()) - others  # the loop continues
    compiled.set()
    thread.join()
    assert went_on == []  # and nothing further is begun
