"""The first label as fast as the others: compiled loops are loaded while the first item is being read."""

import atexit
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from everylabel.core import Posterior, forget, laplace, update
from everylabel.core.arrays import can_compile
from everylabel.core.labelled import DOUBLE_UP_TO
from everylabel.core.updates.exact import COMPILED_AFTER
from everylabel.labelling.learner import Change, Learner, local_pool
from everylabel.labelling.records import Place
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
    exact : whether it learns each label exactly, by loops of their own, which take a second to be loaded
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
    learner = Learner(noise, {0: 0, 1: 1, 2: 0}, 2, make_pool=as_asked)
    steps: list[Callable[[], object]] = [
        lambda: learner.follow([Change(1, 1, 3, Place(Where.LABELLED, 1), 2)]),
        learner.expected,
        lambda: learner.pick(strategy, 1, rng),
    ]
    if size >= SMALL * LARGE and can_compile():
        steps.append(compile_products)
    if exact:  # rows in double precision, and in single
        steps += [partial(_update_often, width) for width in (WIDTH, DOUBLE_UP_TO // 2 + 1)]
    for step in steps:
        if ended():
            return
        step()


def _update_often(width: int) -> None:
    """Update a posterior until that has taken all loops of exact updates."""
    x = np.random.default_rng(0).normal(size=(COMPILED_AFTER + 5, width))
    y, n = np.arange(len(x)) % 2, len(x) - COMPILED_AFTER - 1
    posterior = laplace(np.zeros((x.shape[1], 2)), x[:n], labels=y[:n])
    for i in range(n, len(x)):
        posterior = update(posterior, x[[i]], y[[i]], "exact")
    forget(posterior, x[:1], y[:1])
