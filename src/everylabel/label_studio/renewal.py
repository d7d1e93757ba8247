"""Keeping the predictions in Label Studio up to date, in nobody's way.

After each label the few tasks to ask next get predictions of a new version, which then becomes the
project's: the order changes at once. Some hundreds more follow when nobody has annotated for some seconds;
and so does the removal of older versions, one prediction at a time, since removing many at once locks Label
Studio's database for seconds.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from everylabel.label_studio.api import Api, ApiError
from everylabel.label_studio.predictions import Predictions
from everylabel.labelling.state.types import Refused

logger = logging.getLogger(__name__)
MORE = 160  # tasks that get a prediction besides the ranked ones, when it is quiet
PAUSE, LONGEST = (
    0.5,
    60.0,
)  # seconds between two versions, at least, and at most if Label Studio does not answer
QUIET = 3.0  # seconds without news
KEPT = 300.0  # seconds that an old version stays: a person may have one of its predictions on the screen
OURS = re.compile(r"\d+ labels? [0-9a-f]{8}")  # versions


class Renewal:
    """A thread that writes predictions; `quiet` is called when nobody has annotated for some seconds."""

    def __init__(self, api: Api, project: int, predictions: Predictions, quiet: Callable[[], Any]) -> None:
        self.api, self.project, self.predictions, self._quiet = api, project, predictions, quiet
        self._stopped, self._due = threading.Event(), threading.Event()
        self._now, self._tidied = "", ""
        self._kept: dict[str, float] = {}  # versions of the last minutes -> when they were replaced
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)

    def start(self) -> None:
        """Begin with the model as it is."""
        self._due.set()
        self._thread.start()

    def ask(self) -> None:
        """Something was learned: renew soon."""
        self._due.set()

    def close(self) -> None:
        """Stop after the request that is under way."""
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def renew(self) -> bool:
        """Write the predictions of the model as it is now, if it is another one; return whether it was."""
        ranking = self.predictions.ranking().result()
        if ranking.version == self._now:
            return False
        if ranking.tasks:
            version = self._write(ranking.tasks)
            self.api.change_project(self.project, model_version=version)
            self._kept[self._now] = time.monotonic()
        self._now = ranking.version
        return True

    def tidy(self) -> None:
        """Do what can wait, until something is learned."""
        if self._tidied != self._now:
            self._quiet()
            if not self._due.is_set():
                self._write(self.predictions.unsure(MORE).result())
            self._tidied = self._now
        for number in self._outdated():
            if self._due.is_set():
                return
            self.api.send("DELETE", f"/api/predictions/{number}/")

    def _work(self) -> None:
        pause, wait = PAUSE, QUIET
        while not self._stopped.is_set():
            if not self._due.wait(wait):
                self._try(self.tidy)
                wait = KEPT  # those of the last minutes are old then
                continue
            self._due.clear()
            if self._stopped.is_set():
                return
            wait = QUIET
            if self._try(self.renew):
                pause = PAUSE
            else:
                pause = min(LONGEST, 2 * pause)
                self._due.set()
            self._stopped.wait(pause)

    def _try(self, step: Callable[[], Any]) -> bool:
        """Take a step; return whether Label Studio did not fail us."""
        try:
            step()
        except (ApiError, Refused) as error:
            logger.info("predictions could not be renewed: %s", error)
            return False
        except Exception:
            logger.exception("predictions could not be renewed")
            return False
        return True

    def _write(self, tasks: Sequence[str]) -> str:
        """Write the predictions of tasks; return their version."""
        tasks = [task for task in tasks if task.isdigit()]  # our page takes others, too
        made = self.predictions.of(tasks).result()
        bare = [{name: one[name] for name in ("result", "score", "model_version")} for one in made]
        both = zip(tasks, bare, strict=True)
        if bare:
            self.api.add_predictions(self.project, [{"task": int(task), **one} for task, one in both])
        return str(bare[0]["model_version"]) if bare else ""

    def _outdated(self) -> list[int]:
        """Return the predictions of our versions that nobody looks at any more."""
        latest = time.monotonic() - KEPT
        self._kept = {version: at for version, at in self._kept.items() if at > latest}
        stay = {*self._kept, self._now}
        return [
            int(each["id"])
            for each in self.api.predictions(self.project)
            if OURS.fullmatch(str(each.get("model_version"))) and each["model_version"] not in stay
        ]
