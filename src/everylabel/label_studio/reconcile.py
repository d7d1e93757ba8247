"""Looking at Label Studio for all that was not told: tasks and annotations made, changed and deleted.

Webhooks are sent once, whether we are there or not. So we look at the API at the start, every minute, and
when a webhook tells of tasks; afterwards the state is that of a backend that has missed nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import Annotation, read_annotation
from everylabel.label_studio.api import Api, ApiError
from everylabel.label_studio.learning import Learning
from everylabel.label_studio.tasks import Tasks
from everylabel.labelling.state.types import Refused

logger = logging.getLogger(__name__)
EVERY = 60.0  # seconds between looks
REST = 10.0  # times as long as a look took, if that is longer: Label Studio has other work
ALL_TASKS_EVERY = 10  # looks between two at all tasks, if nothing tells that some are gone


class Reconciler:
    """A thread that looks, and calls `changed` afterwards; new tasks join from their table by themselves."""

    def __init__(
        self,
        api: Api,
        project: int,
        tasks: Tasks,
        learning: Learning,
        changed: Callable[[], Any],
    ) -> None:
        self.api, self.project, self.tasks, self.learning = api, project, tasks, learning
        self._changed = changed
        self._looks, self._answers = 0, True
        self._there: set[str] = set()  # tasks, at the last look at all of them
        self._all_due, self._due, self._stopped = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="reconcile", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, tasks: bool = False) -> None:
        """Look soon; at all tasks, since some are gone."""
        if tasks:
            self._all_due.set()
        self._due.set()

    def close(self) -> None:
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        wait = EVERY
        while True:
            self._due.wait(wait)
            self._due.clear()
            if self._stopped.is_set():
                return
            began = time.monotonic()
            self._try()
            wait = max(EVERY, REST * (time.monotonic() - began))

    def _try(self) -> None:
        try:
            self.look()
            self._answers = True
        except (ApiError, Refused) as error:
            if self._answers and not self._stopped.is_set():
                logger.warning("Label Studio cannot be looked at: %s; tried again until it can", error)
            self._answers = False
        except Exception:
            logger.exception("looking at Label Studio failed; tried again in a minute")

    def begin(self, there: set[str]) -> int:
        """Bring all up to date for the first time, with the tasks that are there; else like `look`."""
        self._there = there
        self._told_of(there)
        mark = self.learning.mark().result()
        return self.learning.compare(self._annotations(), mark)

    def look(self) -> int:
        """Bring all up to date with Label Studio; return how many changes of annotations were news."""
        mark = self.learning.mark().result()
        number = int(self.api.project(self.project).get("task_number") or 0)
        annotations = self._annotations()
        self._look_at_tasks(number)
        news = self.learning.compare(annotations, mark)
        self._changed()
        return news

    def _look_at_tasks(self, number: int) -> None:
        """Take in new tasks, whose numbers are higher than all before; list all if some must be gone."""
        last, before = max(map(int, self._there), default=0), self._there
        self._looks += 1
        everything = self._all_due.is_set() or self._looks % ALL_TASKS_EVERY == 0
        self._all_due.clear()
        if not everything:
            self._there = before | self.tasks.take(self.api.tasks(self.project, last))
        if everything or len(self._there) != number:
            self._there = self.tasks.take(self.api.tasks(self.project))
        self._told_of(self._there)

    def _told_of(self, there: set[str]) -> None:
        """Have deleted tasks leave the pool, and those that are there after all come back."""
        self.learning.tasks_gone(self.tasks.names - there).result()
        self.learning.tasks_there(there).result()

    def _annotations(self) -> list[Annotation]:
        found = []
        for task in self.api.annotated(self.project):
            for stored in task.get("annotations") or ():
                try:
                    found.append(read_annotation(stored, self.learning.configuration.control, task.get("id")))
                except EverylabelError as error:
                    logger.warning("an annotation of task %s is left alone: %s", task.get("id"), error)
        return found
