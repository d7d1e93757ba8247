"""kill -9 at random moments under load: no acknowledged label is lost or doubled; the log gives the state.

    python -m benchmarks.kills [--kills 200] [--stores sqlite postgresql growing learning] [--out FOLDER]
    python -m benchmarks.kills --kills 5 --stores learning --seed 1 --add --out FOLDER    # in pieces

Four people label digits through the HTTP API of a real server process. Each request has a key and is sent
until it is answered. The server is killed at random moments and started again on the same store. At the end
the log is read: every acknowledged label must be there once, under its number, and each hash of the state
that the server reported must be that of the events up to then.

`growing` is a watched table (SQLite): rows are appended in pieces that may end within a line, and texts are
sent to the server. Everything acknowledged must have joined once, and at the end all rows must be there.
`learning` is a table of texts whose (tiny) encoder is fine-tuned: the server is killed during the training,
and every generation must be complete.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.progress import Progress
from sklearn.datasets import load_digits

from benchmarks.results import write
from benchmarks.timing import report
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import digest, new_state
from everylabel.log.events import Event, Extended, Generation
from everylabel.log.store import Store
from everylabel.projects.arrivals import read_watched
from everylabel.projects.folder import LogUse
from everylabel.projects.generations import load_generation
from everylabel.projects.project import open_project
from tests.models.tiny import some_texts, tiny_bert
from tests.projects import postgres

PEOPLE = 4
FIRST, MOST = 30, 1500  # rows that a table that grows begins with, and ends with at most
LONGEST = 3.0  # seconds that a server lives at most
TRUTH = load_digits().target


class Outcome(NamedTuple):
    """Counts of a run."""

    kills: int
    acknowledged: int
    lost: int
    twice: int
    states: int
    other_states: int
    seconds_to_start: float

    @property
    def fine(self) -> bool:
        return not (self.lost or self.twice or self.other_states) and self.acknowledged > 0

    def plus(self, other: "Outcome") -> "Outcome":
        """Return the counts of both runs; the time to start is weighted by kills."""
        counts: list[Any] = [mine + others for mine, others in zip(self, other, strict=True)]
        seconds = sum(each.kills * each.seconds_to_start for each in (self, other))
        return Outcome(*counts)._replace(seconds_to_start=seconds / max(1, counts[0]))


class Killed:
    """A server that is killed and restarted, and people who send requests until they are answered."""

    name = "digits"  # of the project
    n_classes = 10

    def __init__(self, folder: Path, store: str | None) -> None:
        self.folder, self.store = folder, store
        self.port = postgres.free_port()
        self.done = threading.Event()
        self.acknowledged: dict[str, int] = {}
        self.sent: set[str] = set()  # ids that have to be there
        self.states: dict[int, str] = {}
        self.starts: list[float] = []

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server and wait until it answers."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "everylabel.cli", "label", *self.arguments(), "--no-browser"]
        command += ["--port", str(self.port), "--project", str(self.folder)]
        command += ["--store", self.store] if self.store else []
        with (self.folder.parent / "server.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment())
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/api/health")["ok"]:
                    self.starts.append(time.perf_counter() - began)
                    return process
            if process.poll() is not None:
                told = (self.folder.parent / "server.log").read_text()
                raise RuntimeError(f"the server did not start: {told}")
            time.sleep(0.05)

    def arguments(self) -> list[str]:
        """Return the arguments for the source."""
        return ["digits"]

    def class_of(self, item: str) -> int:
        """Return an item's class."""
        return int(TRUTH[int(item)])

    def ids(self) -> Sequence[str]:
        """Return the ids of all items of the source at the end."""
        return [str(i) for i in range(len(TRUTH))]

    def others(self) -> list[Callable[[], None]]:
        """Return the other jobs of a run; each runs in its own thread."""
        return []

    def wait(self, rng: random.Random) -> None:
        """Wait for the moment of the next kill."""
        time.sleep(rng.uniform(0.0, LONGEST))

    def settle(self) -> None:
        """Wait until everything expected has arrived."""

    def environment(self) -> dict[str, str]:
        """Return the server's environment."""
        return dict(os.environ)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send one request; network errors are raised."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def insist(self, path: str, body: dict[str, Any]) -> Any:
        """Send a request until it is answered or the run ends."""
        while not self.done.is_set():
            try:
                return self.ask("POST", path, body)
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)
        return None

    def person(self, name: str) -> None:
        """Label as fast as the server answers; rule a class out or take an answer back now and then."""
        rng = random.Random(name)
        reply = self.insist("/api/next", {"person": name})
        while reply is not None and not self.done.is_set():
            if "next" not in reply or reply["next"] is None:
                reply = self.insist("/api/next", {"person": name})
                continue
            item, key = reply["next"]["item"]["id"], uuid.uuid4().hex
            body = {"person": name, "item": item, "class": self.class_of(item), "key": key}
            path = "/api/label"
            chance = rng.random()
            if chance < 0.3:
                path, body = "/api/undo", {"person": name, "key": key}
            elif chance < 0.5:
                path, body["class"] = (
                    "/api/not",
                    rng.choice([c for c in range(self.n_classes) if c != body["class"]]),
                )
            reply = self.insist(path, body)
            if reply is not None and reply.get("saved") is not None:
                self.acknowledged[key] = reply["saved"]

    def watch(self) -> None:
        """Request the hash of the state continually."""
        while not self.done.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                state = self.ask("GET", "/api/fingerprint")
                if "hash" in state:  # and no error
                    self.states[state["version"]] = state["hash"]
            time.sleep(0.05)

    def run(self, kills: int, seed: int, told: Any = None, least: int = 0) -> Outcome:
        """Kill the server `kills` times; return the contents of the log at the end.

        It continues until `least` labels are acknowledged and as many states were seen, however long it
        takes.
        """
        rng, process = random.Random(seed), self.start()
        threads = [threading.Thread(target=self.person, args=(f"p{i}",)) for i in range(PEOPLE)]
        threads += [threading.Thread(target=target) for target in (self.watch, *self.others())]
        for thread in threads:
            thread.start()
        try:
            for number in range(kills):
                self.wait(rng)
                process.send_signal(signal.SIGKILL)
                process.wait()
                process = self.start()
                if told is not None:
                    told(number + 1)
            time.sleep(0.5)
            while min(len(self.acknowledged), len(self.states)) < least and process.poll() is None:
                time.sleep(0.05)
            self.settle()
        finally:
            self.done.set()
            for thread in threads:
                thread.join()
            process.kill()
            process.wait()
        return self.outcome(kills)

    def outcome(self, kills: int) -> Outcome:
        """Read the log and compare."""
        where = self.store or self.folder / "labels.sqlite"
        store = Store(where, self.name, write=False)
        events = store.read()
        store.close()
        written = {event.key: event.seq for event in events if event.key is not None}
        lost = sum(written.get(key) != seq for key, seq in self.acknowledged.items())
        keys = Counter(event.key for event in events if event.key is not None)
        joined = Counter(name for e in events if isinstance(e.body, Extended) for name in e.body.names)
        lost += sum(name not in joined for name in self.sent)
        twice = sum(count > 1 for count in (*keys.values(), *joined.values()))
        seconds, other = sorted(self.starts)[len(self.starts) // 2], self.other_states(events)
        return Outcome(kills, len(self.acknowledged), lost, twice, len(self.states), other, seconds)

    def other_states(self, events: Sequence[Event]) -> int:
        """Return the number of reported states that do not follow from the events up to then."""
        state, wrong = new_state(events, self.ids()), set(self.states)
        for event in events:
            apply(state, event)
            if event.seq in self.states and digest(state) == self.states[event.seq]:
                wrong.remove(event.seq)
        return len(wrong)


class Growing(Killed):
    """The same on a table that grows while it is labelled."""

    name = "inbox.csv"

    def __init__(self, folder: Path, store: str | None) -> None:
        super().__init__(folder, store)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.source, self.written, self.pending = folder.parent / self.name, FIRST, ""
        self.halted, self.appending, self.sending = threading.Event(), threading.Lock(), threading.Lock()
        self.source.write_text("id,text\n" + "".join(map(_line, range(self.written))))

    def arguments(self) -> list[str]:
        options = ["--watch", "--model", "tfidf", "--classes", ",".join("0123456789")]
        return [str(self.source), *options]

    def class_of(self, item: str) -> int:
        return int(item[1:]) % 10

    def others(self) -> list[Callable[[], None]]:
        return [self.append, self.send]

    def append(self) -> None:
        """Append rows in pieces, which may end within a line."""
        rng = random.Random(2)
        while not self.done.is_set():
            with self.appending:
                if self.halted.is_set() or self.written >= MOST:
                    return
                if len(self.pending) < 60:
                    self.pending += _line(self.written)
                    self.sent.add(f"r{self.written}")
                    self.written += 1
                self._write(rng.randrange(1, 60))
            time.sleep(rng.uniform(0.0, 0.3))

    def _write(self, size: int) -> None:
        with self.source.open("a") as file:
            file.write(self.pending[:size])
        self.pending = self.pending[size:]

    def send(self) -> None:
        """Send texts, each until it is acknowledged, and some of them twice."""
        rng, number = random.Random(3), 0
        while not self.done.is_set():
            with self.sending:
                if self.halted.is_set():
                    return
                items = [{"id": f"s{i}", "text": _text(100_000 + i)} for i in (number, number + 1)]
                reply = self.insist("/api/items", {"items": items})
                if reply is not None and "joined" in reply:
                    self.sent.update(str(item["id"]) for item in items)
            number += rng.choice((1, 2))
            time.sleep(rng.uniform(0.0, 0.5))

    def settle(self) -> None:
        self.halted.set()
        with self.appending, self.sending:
            self._write(len(self.pending))
        while self.ask("GET", "/api/progress")["items"] < FIRST + len(self.sent):
            time.sleep(0.1)

    def ids(self) -> Sequence[str]:
        project = open_project(self.source, folder=self.folder, keep=False, log=LogUse(), reader=read_watched)
        return project.ids


class Learning(Killed):
    """The same on texts whose encoder is fine-tuned; the server is killed while an attempt runs."""

    name = "texts.csv"
    n_classes = 2
    n_texts = 1000

    def __init__(self, folder: Path, store: str | None) -> None:
        super().__init__(folder, store)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.source, model = folder.parent / self.name, folder.parent / "bert"
        model.mkdir()
        self.model, self.during = tiny_bert(model), 0
        texts, truth = some_texts(self.n_texts)
        self.truth = [int(name == "down") for name in truth]
        self.source.write_text("id,text\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)))

    def arguments(self) -> list[str]:
        columns = ["--text-column", "text", "--id-column", "id", "--classes", "up,down"]
        return [str(self.source), "--model", self.model, *columns]

    def class_of(self, item: str) -> int:
        return self.truth[int(item)]

    def ids(self) -> Sequence[str]:
        return [str(i) for i in range(self.n_texts)]

    def wait(self, rng: random.Random) -> None:
        """Wait for an attempt, and then until a random share of its work is done."""
        share, patience = rng.uniform(0.0, 1.0), time.monotonic() + 600
        while time.monotonic() < patience:
            network = self.ask("GET", "/api/progress")["network"]
            if network["share"] is not None and network["share"] >= share:
                self.during += 1
                return
            time.sleep(0.02)

    def other_states(self, events: Sequence[Event]) -> int:
        """Count broken generations, too."""
        folder = self.folder / "generations"
        trusted = [e.body for e in events if isinstance(e.body, Generation) and e.body.trusted]
        numbers = {int(path.name) for path in folder.glob("*") if path.name.isdigit()}
        broken = sum(load_generation(self.folder, body) is None for body in trusted[-1:])
        unknown = numbers - {body.number for body in trusted}  # moved, and killed before the log had it
        newest = max((body.number for body in trusted), default=0)
        return super().other_states(events) + broken + sum(number <= newest for number in unknown)


def _text(number: int) -> str:
    rng = random.Random(number)
    return " ".join(f"word{rng.randrange(80)}" for _ in range(8))


def _line(number: int) -> str:
    return f'r{number},"{_text(number)}"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql", "growing"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for kills.json")
    parser.add_argument("--add", action="store_true", help="add to the stored counts of these stores")
    given = parser.parse_args()
    found = {}
    path = None if given.out is None else given.out / "kills.json"
    stored = json.loads(path.read_text()) if path is not None and path.exists() else {}
    for kind in given.stores:
        found[kind] = _killed(kind, given.kills, given.seed)
        if given.add and kind in stored:
            found[kind] = found[kind].plus(Outcome(**stored[kind]))
        if path is not None:
            stored[kind] = found[kind]._asdict()
            write(path, stored, parts=list(found))
    columns = ["store", *(name.replace("_", " ") for name in Outcome._fields)]
    rows = [[kind, *(f"{value:.3g}" for value in outcome)] for kind, outcome in found.items()]
    report("kill -9 under load", columns, rows)
    if not all(outcome.fine for outcome in found.values()):
        raise SystemExit("an answer was lost or written twice, or a reply contradicts the log")


def _killed(kind: str, kills: int, seed: int) -> Outcome:
    database = postgres.server() if kind == "postgresql" else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as folder, database as url, Progress() as progress:
        task = progress.add_task(f"killing, {kind}", total=kills)
        of = {"growing": Growing, "learning": Learning}.get(kind, Killed)
        killed = of(Path(folder) / f"{of.name}.everylabel", url)
        return killed.run(kills, seed, lambda n: progress.update(task, completed=n))


if __name__ == "__main__":
    main()
