"""The first label as fast as the others: compiled loops are loaded while the first item is being read."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from everylabel.core import forget, laplace, update
from everylabel.core.arrays import can_compile
from everylabel.core.labelled import DOUBLE_UP_TO
from everylabel.core.updates.exact import COMPILED_AFTER
from everylabel.labelling.learner import Change, Learner
from everylabel.labelling.records import Place
from everylabel.selection.pool import Where
from everylabel.selection.pool.features import LARGE, compile_products
from everylabel.selection.threads import SMALL

log = logging.getLogger(__name__)
WIDTH = 8  # features of the small pool


@contextmanager
def compiling(size: int, strategy: str, exact: bool = True) -> Iterator[threading.Event]:
    """Compile in a thread of its own once the event is set; it has ended when the block is left.

    size : numbers in the real pool: a small one takes other paths
    exact : whether it learns each label exactly, by loops of their own, which take a second to be loaded
    """
    begin, left = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        if not left.is_set():
            try:
                compile_loops(size, strategy, exact)
            except Exception:  # the first label takes longer, then
                log.exception("compiling ahead failed")

    thread = threading.Thread(target=work, name="compile", daemon=True)
    thread.start()
    try:
        yield begin
    finally:
        left.set()
        begin.set()
        thread.join()


def compile_loops(size: int, strategy: str, exact: bool = True) -> None:
    """Learn a label and pick an instance in a pool of noise that takes the paths of the real one."""
    n = SMALL // WIDTH + 1 if size >= SMALL else 200
    rng = np.random.default_rng(0)
    learner = Learner(rng.normal(size=(n, WIDTH)).astype(np.float32), {0: 0, 1: 1, 2: 0}, 2)
    learner.follow([Change(1, 1, 3, Place(Where.LABELLED, 1), 2)])
    learner.expected()
    learner.pick(strategy, 1, rng)
    if size >= SMALL * LARGE and can_compile():
        compile_products()
    for width in (WIDTH, DOUBLE_UP_TO // 2 + 1) if exact else ():  # rows in double precision, and in single
        _update_often(rng.normal(size=(COMPILED_AFTER + 5, width)))


def _update_often(x: np.ndarray) -> None:
    """Update a posterior until that has taken all loops of exact updates."""
    y, n = np.arange(len(x)) % 2, len(x) - COMPILED_AFTER - 1
    posterior = laplace(np.zeros((x.shape[1], 2)), x[:n], labels=y[:n])
    for i in range(n, len(x)):
        posterior = update(posterior, x[[i]], y[[i]], "exact")
    forget(posterior, x[:1], y[:1])
