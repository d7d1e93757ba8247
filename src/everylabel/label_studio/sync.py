"""Background threads between a project's log and Label Studio.

`Outbox` sends the answers of everylabel's page. The log shows which to send: answers that stand and have no
annotation yet, and annotations whose answer was taken back or changed. An annotation carries the number of
its answer's event from the start (`Marks`), so one that was sent just before a crash is recognised, and its
webhook is not learned again.

`Reconciler` reads Label Studio's API at the start, every minute, and when a webhook names tasks. Webhooks are
sent once, whether we listen or not; after a reading the state is that of a backend that missed nothing.
Stored predictions of other models become suggestions at the start, and every ten minutes.

`Renewal` writes predictions. After each label the few tasks to ask next get predictions of a new version,
which then becomes the project's: the order changes at once. Some hundreds more follow after a few seconds
without annotations, and so does the removal of older versions, one prediction at a time: removing many at
once locks Label Studio's database for seconds.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import KEY, Annotation, answer_at, given, read_annotation
from everylabel.label_studio.api import Api, ApiError, Json
from everylabel.label_studio.learning import Learning
from everylabel.label_studio.predictions import Predictions
from everylabel.label_studio.tasks import Tasks
from everylabel.labelling.state.types import ClassSet, Entry, Refused
from everylabel.log import events

logger = logging.getLogger(__name__)
PAUSE, LONGEST = 0.5, 60.0  # seconds between two runs at least, and at most after failures
CONFLICT = 409  # an annotation with this id exists
NEVER = (400, 404, 422)  # refusals that will not change
LOOK_EVERY = 60.0  # seconds between two readings of the API,
REST = 10.0  # or this many times the duration of the last one, if that is longer
SUGGEST_EVERY = 10  # readings of the API between two of the stored predictions
MORE = 160  # tasks that get a prediction besides the ranked ones
QUIET = 3.0  # seconds without annotations
KEPT = 300.0  # seconds that an old version stays: a person may have one of its predictions on the screen
OURS = re.compile(r"\d+ labels? [0-9a-f]{8}")  # names of our versions


class Worker:
    """A thread that calls `run` when it is asked to, and again after the seconds that `run` returns.

    A run that fails is repeated, after twice as long each time.
    """

    def __init__(self, name: str) -> None:
        self._stopped, self._due = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def run(self) -> float:
        """Do the work; return the seconds until the next run."""
        raise NotImplementedError

    def start(self, wait: float = 0.0) -> None:
        """Run for the first time after `wait` seconds, or when asked."""
        self._wait = wait
        self._thread.start()

    def ask(self) -> None:
        """Run soon."""
        self._due.set()

    def close(self) -> None:
        """Stop after the request under way."""
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        wait, pause = self._wait, PAUSE
        while True:
            self._due.wait(wait)
            self._due.clear()
            if self._stopped.is_set():
                return
            try:
                wait, pause = self.run(), PAUSE
            except Exception as error:
                self._report(error, first=pause == PAUSE)
                wait, pause = 0.0, min(LONGEST, 2 * pause)
            self._stopped.wait(pause)

    def _report(self, error: Exception, first: bool) -> None:
        if not isinstance(error, ApiError | Refused):
            logger.exception("%s failed, and tries again", self._thread.name)
        elif first and not self._stopped.is_set():
            logger.warning("%s waits for Label Studio: %s", self._thread.name, error)


def read_annotations(api: Api, project: int, control: str) -> list[Annotation]:
    """Return all annotations of a project; malformed ones are logged and left out."""
    found = []
    for task in api.annotated(project):
        for stored in task.get("annotations") or ():
            try:
                found.append(read_annotation(stored, control, task.get("id")))
            except EverylabelError as error:
                logger.warning("an annotation of task %s is ignored: %s", task.get("id"), error)
    return found


class Waiting(NamedTuple):
    """Answers to send, and annotations to delete."""

    answers: list[Entry]
    annotations: list[int]


class Outbox(Worker):
    """Sends answers until each is acknowledged; the rest is sent after the next start."""

    def __init__(self, api: Api, project: int, learning: Learning) -> None:
        super().__init__("outbox")
        self.api, self.project, self.learning = api, project, learning
        self._seen = -1  # events, when nothing was left to send
        self._refused: set[int] = set()  # answers that Label Studio does not take

    def run(self) -> float:
        self.send()
        return PAUSE

    def send(self) -> int:
        """Send all waiting answers and deletions; return their number."""
        seq = self.learning.desk.read(lambda: self.learning.state.seq).result()
        if seq == self._seen:
            return 0
        waiting = self.waiting()
        for entry in waiting.answers:
            self._send(entry)
        for number in waiting.annotations:
            self._delete(number)
        self._seen = seq
        return len(waiting.answers) + len(waiting.annotations)

    def waiting(self) -> Waiting:
        """Return the answers to send and the annotations to delete."""
        found: Waiting = self.learning.desk.read(self._look).result()
        return found

    def _look(self) -> Waiting:
        state, known = self.learning.state, self.learning.known()
        theirs = {event.seq for key, event in state.requests.items() if KEY.fullmatch(key)}
        standing: dict[tuple[int, str], Entry] = {}
        for entry in state.history.values():
            is_answer = entry.body.sent_to_label_studio and entry.seq not in state.undone
            if is_answer and entry.seq not in theirs:
                standing[entry.item, entry.person] = entry
        ours = {number: one.seq for number, one in known.items() if one.own and not one.deleted}
        sent, stay = set(ours.values()), {entry.seq for entry in standing.values()}
        answers = [
            entry
            for entry in standing.values()
            if entry.seq not in sent and entry.item not in state.missing and entry.seq not in self._refused
            if self._is_whole(entry)
        ]
        return Waiting(answers, [number for number, seq in ours.items() if seq not in stay])

    def _send(self, entry: Entry) -> None:
        """Create the annotation of an answer."""
        mark, control = self.learning.marks.of(entry.seq), self.learning.configuration.control
        body = {"result": self._result(entry), "unique_id": mark, "lead_time": 0}
        if not body["result"] and not isinstance(entry.body, events.MultiLabel):
            body["was_cancelled"] = True  # a multiple choice of none is an answer
        try:
            stored = self.api.send("POST", f"/api/tasks/{entry.body.item}/annotations/", body)
        except ApiError as error:
            if error.status == CONFLICT:  # sent before, and the acknowledgement was lost
                for each in read_annotations(self.api, self.project, control):
                    if each.unique_id == mark:
                        self.learning.sent(each).result()
            elif error.status in NEVER:
                logger.warning("Label Studio does not take an answer of %s: %s", entry.person, error)
                self._refused.add(entry.seq)
            else:
                raise
            return
        self.learning.sent(read_annotation({**stored, "unique_id": mark}, control, entry.body.item)).result()

    def _delete(self, number: int) -> None:
        self.learning.removing(number).result()
        try:
            self.api.send("DELETE", f"/api/annotations/{number}/")
        except ApiError as error:
            if error.status != 404:
                raise
        self.learning.removed(number).result()

    def _is_whole(self, entry: Entry) -> bool:
        """Return whether an answer covers all classes: Label Studio has none about some of them."""
        state = self.learning.state
        if not state.multi_label or not isinstance(entry.body, events.Classified):
            return True
        value = answer_at(state, entry)
        return isinstance(value, ClassSet) and {*state.book.present} <= {*value.present, *value.absent}

    def _result(self, entry: Entry) -> list[Json]:
        """Return an answer as Label Studio stores it: choices, or nothing."""
        state = self.learning.state
        numbers = given(answer_at(state, entry)) if isinstance(entry.body, events.Classified) else ()
        return self.learning.configuration.result([state.book.names[number] for number in numbers])


class Reconciler(Worker):
    """Reads Label Studio's API, and calls `changed` afterwards; new tasks join by way of their table."""

    def __init__(
        self,
        api: Api,
        project: int,
        tasks: Tasks,
        there: set[str],
        learning: Learning,
        changed: Callable[[], Any],
    ) -> None:
        super().__init__("reconciler")
        self.api, self.project, self.tasks, self.learning = api, project, tasks, learning
        self._changed = changed
        self._looks = 0
        self._there = there  # tasks in the last listing

    def run(self) -> float:
        began = time.monotonic()
        self.look()
        return max(LOOK_EVERY, REST * (time.monotonic() - began))

    def look(self) -> int:
        """Bring the log up to date with Label Studio; return the number of changed annotations."""
        mark = self.learning.mark().result()
        number = int(self.api.project(self.project).get("task_number") or 0)
        annotations = read_annotations(self.api, self.project, self.learning.configuration.control)
        last = max(map(int, self._there), default=0)  # new tasks have higher numbers
        there = self._there | self.tasks.take(self.api.tasks(self.project, last))
        if len(there) != number:  # some are gone
            there = self.tasks.take(self.api.tasks(self.project))
        self._there = there
        self.learning.tasks_gone(self.tasks.names - there).result()
        self.learning.tasks_there(there).result()  # those that had left are there after all
        if self._looks % SUGGEST_EVERY == 0:
            self._suggest()
        self._looks += 1
        news = self.learning.compare(annotations, mark)
        self._changed()
        return news

    def _suggest(self) -> None:
        """Save the predictions that other models have stored as suggestions."""
        stored = self.api.predictions(self.project)
        self.learning.suggest(one for one in stored if not OURS.fullmatch(str(one.get("model_version"))))


class Renewal(Worker):
    """Writes predictions."""

    def __init__(self, api: Api, project: int, predictions: Predictions) -> None:
        super().__init__("predictions")
        self.api, self.project, self.predictions = api, project, predictions
        self._version = ""  # of the predictions that the ranked tasks have
        self._complete = ""  # of those that more tasks have
        self._replaced: dict[str, float] = {}  # versions of the last minutes -> when they were replaced

    def run(self) -> float:
        if self.renew():
            return QUIET
        self.tidy()
        return KEPT  # until the versions of the last minutes are old

    def renew(self) -> bool:
        """Write the predictions of the current model; return False if they are written already."""
        ranking = self.predictions.ranking().result()
        if ranking.version == self._version:
            return False
        if ranking.tasks:
            version = self._write(ranking.tasks)
            self.api.send("PATCH", f"/api/projects/{self.project}/", {"model_version": version})
            self._replaced[self._version] = time.monotonic()
        self._version = ranking.version
        return True

    def tidy(self) -> None:
        """Do the work that can wait, until something is learned."""
        if self._complete != self._version:
            self._write(self.predictions.unsure(MORE).result())
            self._complete = self._version
        for number in self._outdated():
            if self._due.is_set():
                return
            self.api.send("DELETE", f"/api/predictions/{number}/")

    def _write(self, tasks: Sequence[str]) -> str:
        """Write the predictions of tasks; return their version."""
        tasks = [task for task in tasks if task.isdigit()]  # items of everylabel's page are no tasks
        made = self.predictions.of(tasks).result()
        for task, one in zip(tasks, made, strict=True):
            one["task"] = int(task)
            del one["probabilities"]  # Label Studio would not take them
        if made:
            self.api.send("POST", f"/api/projects/{self.project}/import/predictions", made)
        return str(made[0]["model_version"]) if made else ""

    def _outdated(self) -> list[int]:
        """Return our predictions of old versions, which nobody sees any more."""
        latest = time.monotonic() - KEPT
        self._replaced = {version: at for version, at in self._replaced.items() if at > latest}
        stay = {*self._replaced, self._version}
        return [
            int(each["id"])
            for each in self.api.predictions(self.project)
            if OURS.fullmatch(str(each.get("model_version"))) and each["model_version"] not in stay
        ]
