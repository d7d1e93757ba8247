"""The thread that embeds what is not there yet, beside the server, and has it join the pool as it comes."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from everylabel.labelling.desk import Desk
from everylabel.labelling.joining import join
from everylabel.labelling.refused import Refused
from everylabel.projects.project import Project

log = logging.getLogger(__name__)
Told = Callable[[int, int], Any]  # rows done, rows in all
LeaveOut = Callable[[tuple[int, ...]], Any]  # the places of broken images


class Growth:
    """Embeds piece by piece until all are there or it is closed."""

    def __init__(self, desk: Desk, project: Project, told: Told | None, leave_out: LeaveOut) -> None:
        self.desk, self.project, self.told, self._leave_out = desk, project, told, leave_out
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="growth", daemon=True)

    def start(self) -> None:
        """Begin, if there is something to embed."""
        if self.project.coming is not None:
            self._thread.start()

    def close(self) -> None:
        """Stop after the piece that is being embedded."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        coming = self.project.coming
        assert coming is not None
        try:
            while not coming.complete and not self._stopped.is_set():
                self._join(coming.piece())
                if self.told is not None:
                    self.told(coming.done, len(coming.items))
            if coming.complete:
                if coming.broken:
                    self._leave_out(coming.broken)
                coming.finish()
        except Refused:  # the server is stopping: the rest joins at the next start
            pass
        except Exception:  # people go on with what is there
            log.exception("embedding in the background failed; start again to go on")

    def _join(self, places: list[int]) -> None:
        project, coming = self.project, self.project.coming
        assert coming is not None
        if places:
            ids = [project.ids[i] for i in places]
            labelled = [i for i in places if project.labels[i] >= 0]
            labels = {project.ids[i]: project.classes[int(project.labels[i])] for i in labelled}
            join(self.desk, ids, coming.rows[places], labels).result()
