"""The thread beside the server that embeds what is not there yet, and looks whether the source has more."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from everylabel.labelling.refused import Refused
from everylabel.projects.project import Project
from everylabel.projects.watching import Watched
from everylabel.web.arrivals import Arrivals

log = logging.getLogger(__name__)
Told = Callable[[int, int], Any]  # rows done, rows in all
EVERY = 1.0  # seconds between looks,
SHARE = 10  # and so many times as long as a look takes


class Growth:
    """Has items join piece by piece, until all are there and nothing is watched, or it is closed."""

    def __init__(
        self, arrivals: Arrivals, project: Project, watched: Watched | None, told: Told | None
    ) -> None:
        self.arrivals, self.project, self.watched, self.told = arrivals, project, watched, told
        self._coming, self._next_look = project.coming, 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="growth", daemon=True)

    def start(self) -> None:
        """Begin, if there is something to embed or to watch."""
        if self._coming is not None or self.watched is not None:
            self._thread.start()

    def close(self) -> None:
        """Stop after the piece that is being embedded."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._step():
                    if self.watched is None:
                        return
                    self._stopped.wait(max(0.0, self._next_look - time.monotonic()))
            except Refused:  # the server is stopping: the rest joins at the next start
                return
            except Exception:  # people go on with what is there
                log.exception("embedding in the background failed; start again to go on")
                self._coming = None
                self._stopped.wait(SHARE * EVERY)

    def _step(self) -> bool:
        """Look, or embed a piece; return whether anything was to be embedded."""
        if self.watched is not None and time.monotonic() >= self._next_look:
            began = time.monotonic()
            self.arrivals.look(self.watched)
            took = time.monotonic() - began
            self._next_look = time.monotonic() + max(EVERY, SHARE * took)
        if self._coming is not None:
            self.arrivals.grow(self._coming, self.project)
            if self._coming.complete:
                self._coming = None
        elif not self.arrivals.piece():
            return False
        if self.told is not None:
            state, there = self.arrivals.state, len(self.arrivals.desk.ids)
            self.told(there, there + state.coming)
        return True
