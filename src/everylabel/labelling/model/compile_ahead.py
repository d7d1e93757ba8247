"""The first label as fast as the others: compiled loops are loaded while the first item is being read."""

import atexit
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from everylabel.core import Posterior
from everylabel.core.arrays import can_compile
from everylabel.labelling.model.learner import Learner, local_pool
from everylabel.labelling.model.scaling import Rows
from everylabel.labelling.model.training import TrainingSet
from everylabel.labelling.state.types import Place
from everylabel.selection.pool import Pool, Where
from everylabel.selection.pool.features import LARGE, compile_products
from everylabel.selection.threads import SMALL

log = logging.getLogger(__name__)
WIDTH = 8  # features of the small pool


@contextmanager
def compiling(size: int, strategy: str, exact: bool = True, n_logits: int = 0) -> Iterator[threading.Event]:
    """Compile in a thread of its own once the event is set, until the block is left.

    Nobody waits for the loop that is being compiled then: the thread ends after it, and Python after that.

    size, n_logits : of the real pool's features and logits: few of them take other paths
    exact : whether it learns each label exactly
    """
    begin, left = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        try:
            compile_loops(size, strategy, exact, n_logits, left.is_set)
        except Exception:  # the first label takes longer, then
            if not left.is_set():
                log.exception("compiling ahead failed")
        finally:
            atexit.unregister(thread.join)

    thread = threading.Thread(target=work, name="compile", daemon=True)
    atexit.register(thread.join)  # the compiler does not survive the end of Python
    thread.start()
    try:
        yield begin
    finally:
        left.set()
        begin.set()


def compile_loops(
    size: int,
    strategy: str,
    exact: bool = True,
    n_logits: int = 0,
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Learn a label and pick an instance in a pool of noise that takes the paths of the real one."""
    n = SMALL // 2 + 1 if n_logits >= SMALL else SMALL // WIDTH + 1 if size >= SMALL else 200
    rng = np.random.default_rng(0)

    def as_asked(features: Any, posterior: Posterior, known: Mapping[str, Any], _: bool) -> Pool:
        return local_pool(features, posterior, known, exact)

    noise = rng.standard_normal((n, WIDTH), np.float32)
    rows = Rows([str(i) for i in range(n)], noise, ready=True)
    rows.make_pool = as_asked
    places = {i: Place(Where.LABELLED, label) for i, label in enumerate([0, 1, 0])}
    learner = Learner(rows, rows.ids, TrainingSet((0, 1), places, {}, n))
    steps: list[Callable[[], object]] = [
        lambda: learner.update({3: Place(Where.LABELLED, 1)}, (0, 1), n),
        learner.expected,
        lambda: learner.pick(strategy, 1, rng),
    ]
    if size >= SMALL * LARGE and can_compile():
        steps.append(compile_products)
    for step in steps:
        if ended():
            return
        step()
