"""Both directions between a project's log and Label Studio: answers of our own page, and changes made there.

Outbox: the log tells which answers are to be sent, those that stand and are no annotation yet, and
annotations whose answer was taken back or given anew. An annotation has from its first moment an id that
tells which answer it is, so that one that was sent just before we were killed is recognised, and none is
learned again when Label Studio tells of it.

Reconciler: webhooks are sent once, whether we are there or not. So we look at the API at the start, every
minute, and when a webhook tells of tasks; afterwards the state is that of a backend that has missed
nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import START, Annotation, read_annotation
from everylabel.label_studio.api import Api, ApiError, Json
from everylabel.label_studio.learning import Learning
from everylabel.label_studio.tasks import Tasks
from everylabel.labelling.state.types import Entry, Refused
from everylabel.log import events

logger = logging.getLogger(__name__)
SEND_EVERY, LONGEST = 0.5, 60.0  # seconds between looks at the log, at most while Label Studio is away
CONFLICT = 409  # an annotation with this id is there
NEVER = (400, 404, 422)  # it will not be taken tomorrow, either
LOOK_EVERY = 60.0  # seconds between looks at Label Studio
REST = 10.0  # times as long as a look took, if that is longer: Label Studio has other work
ALL_TASKS_EVERY = 10  # looks between two at all tasks, if nothing tells that some are gone


class Waiting(NamedTuple):
    """Answers to send, and annotations to delete."""

    answers: list[Entry]
    annotations: list[int]


class Outbox:
    """A thread that sends until all is acknowledged."""

    def __init__(self, api: Api, project: int, learning: Learning) -> None:
        self.api, self.project, self.learning = api, project, learning
        self._seen = -1  # events, when nothing was left to send
        self._refused: set[int] = set()  # answers that Label Studio does not take
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="outbox", daemon=True)

    def start(self) -> None:
        """Begin with what is left from last time."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the request that is under way; what is left is sent at the next start."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        pause = SEND_EVERY
        while not self._stopped.wait(pause):
            try:
                self.send()
                pause = SEND_EVERY
            except Refused:  # the server is stopping
                return
            except ApiError as error:
                logger.warning("answers wait for Label Studio: %s", error)
                pause = min(LONGEST, 2 * pause)
            except Exception:
                logger.exception("answers could not be sent to Label Studio")
                pause = LONGEST

    def send(self) -> int:
        """Send all that waits; return how much that was."""
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
        """Return what has to be sent."""
        found: Waiting = self.learning.desk.read(self._look).result()
        return found

    def _look(self) -> Waiting:
        state, known = self.learning.state, self.learning.known()
        theirs = {seq for key, seq in state.requests.items() if key.startswith(f"{START} ")}
        standing: dict[tuple[int, str], Entry] = {}
        for entry in state.history.values():
            is_answer = entry.body.sent_to_label_studio and entry.seq not in state.undone
            if is_answer and entry.seq not in theirs:
                standing[entry.item, entry.person] = entry
        ours = {one.seq for one in known.values() if one.own and not one.deleted}
        stay = {entry.seq for entry in standing.values()}
        answers = [
            entry
            for entry in standing.values()
            if entry.seq not in ours and entry.item not in state.left and entry.seq not in self._refused
        ]
        over = [
            number for number, one in known.items() if one.own and not one.deleted and one.seq not in stay
        ]
        return Waiting(answers, over)

    def _send(self, entry: Entry) -> None:
        """Make an answer an annotation."""
        mark = self.learning.marks.of(entry.seq)
        body = {"result": self._result(entry.body), "unique_id": mark, "lead_time": 0}
        if not body["result"]:
            body["was_cancelled"] = True
        try:
            stored = self.api.send("POST", f"/api/tasks/{entry.body.item}/annotations/", body)
        except ApiError as error:
            if error.status == CONFLICT:
                self._find(mark)
            elif error.status in NEVER:
                logger.warning("Label Studio does not take an answer of %s: %s", entry.person, error)
                self._refused.add(entry.seq)
            else:
                raise
            return
        control = self.learning.configuration.control
        self.learning.sent(read_annotation({**stored, "unique_id": mark}, control, entry.body.item)).result()

    def _find(self, mark: str) -> None:
        """Note an annotation that was sent before, and whose acknowledgement we have missed."""
        for task in self.api.annotated(self.project):
            for stored in task.get("annotations") or ():
                if str(stored.get("unique_id")) == mark:
                    self.learning.sent(self._read(stored, task)).result()

    def _read(self, stored: Json, task: Json) -> Annotation:
        return read_annotation(stored, self.learning.configuration.control, task.get("id"))

    def _delete(self, number: int) -> None:
        self.learning.removing(number).result()
        try:
            self.api.send("DELETE", f"/api/annotations/{number}/")
        except ApiError as error:
            if error.status != 404:
                raise
        self.learning.removed(number).result()

    def _result(self, body: events.Answered) -> list[Json]:
        """Return an answer as Label Studio has it: a choice, or nothing."""
        if not isinstance(body, events.Label):
            return []
        state, configuration = self.learning.state, self.learning.configuration
        number = state.book.now(body.class_)
        if number is None:  # the class was removed
            return []
        name = state.book.names[number]
        return [
            {
                "from_name": configuration.control,
                "to_name": configuration.target,
                "type": "choices",
                "value": {"choices": [configuration.choices.get(name, name)]},
            }
        ]


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
        wait = LOOK_EVERY
        while True:
            self._due.wait(wait)
            self._due.clear()
            if self._stopped.is_set():
                return
            began = time.monotonic()
            self._try()
            wait = max(LOOK_EVERY, REST * (time.monotonic() - began))

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
