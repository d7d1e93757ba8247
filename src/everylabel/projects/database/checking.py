"""The older part of a log checked beside the work: opening a million events waits for the latest of them.

What is served does not come from there: it is from a kept ledger, which has a digest of its own, and from the
events since, which are checked first. If something is wrong it is told, and nothing is written any more.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from everylabel.projects.database.chain import Row
from everylabel.projects.database.log_errors import Damaged, StoreError

logger = logging.getLogger(__name__)
FROM = 20_000  # events: fewer are checked at once, which takes some tenths of a second
AT_A_TIME = 1000  # events between rests
REST = 1.0  # times as long as it has computed: half of one core at most
AGAIN = 10.0  # seconds until another try, where the database does not answer
Slowly = Callable[[Iterable[Row]], Iterator[Row]]


class Checking:
    """A thread that checks once, and tries again as long as that cannot be done: no log counts as checked.

    check : raises Damaged if something is wrong; the events go through the function that it gets
    tell : gets the error
    thread : ends when all is checked
    """

    def __init__(self, check: Callable[[Slowly], None], tell: Callable[[Damaged], None]) -> None:
        self._check, self._tell = check, tell
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._work, name="checking", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Leave the rest unchecked, unless it is done."""
        self._stopped.set()
        self.thread.join()

    def _slowly(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Return events with rests between them, until it is closed."""
        left, began = iter(rows), time.thread_time()
        while some := list(islice(left, AT_A_TIME)):
            yield from some
            if self._stopped.wait(REST * (time.thread_time() - began)):
                raise _Stopped
            began = time.thread_time()

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                return self._check(self._slowly)
            except _Stopped:
                return
            except Damaged as error:
                return self._tell(error)
            except Exception as error:  # the database does not answer, or what nobody has thought of
                unknown = None if isinstance(error, StoreError) else error
                logger.warning(
                    "the log could not be checked, which is tried again: %s", error, exc_info=unknown
                )
                self._stopped.wait(AGAIN)


class _Stopped(Exception):
    """It was closed."""
