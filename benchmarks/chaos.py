"""Faults at random moments, alone and together, while people label: saved answers must stay.

    python -m benchmarks.chaos [--minutes 5] [--stores sqlite postgresql] [--seed 0] [--out docs/results]

Four people label digits through the HTTP API of a real server process. Each request has a key. If a reply
says that nothing was saved, the person sends the request again or gives up. If there is no reply, the person
sends it again until there is one. Meanwhile clients hold half-open connections, and these faults occur:

kill     SIGKILL and a new start
stop     SIGTERM, an end of its own, and a new start
pause    SIGSTOP for up to two seconds
clock    a jump of the server's wall clock by up to an hour (if libfaketime is installed)
full     a full disk (SQLite: a small tmpfs, as root)
cut      a proxy cuts connections to PostgreSQL before or after a COMMIT
swallow  the proxy accepts everything and returns nothing

At the end a checker reads the log. It fails if an acknowledged answer is missing, has another number or is
there twice; if an answer that was reported as not saved (and given up) is there; or if a state that the
server reported does not follow from the events of the log.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.kills import TRUTH, Killed
from benchmarks.results import write
from benchmarks.timing import report
from everylabel.log.store import Store
from tests.projects import postgres
from tests.projects.proxies import Proxy, proxied

ROOM = 60  # megabytes of the small disk
IDLE = 30  # connections that never ask
PATIENCE = 60.0  # seconds for a server to end by itself


class Chaos(Killed):
    """A server that suffers faults."""

    def __init__(self, folder: Path, store: str | None, seed: int) -> None:
        super().__init__(folder, store)
        self.rng, self.given_up, self.happened = random.Random(seed), set[str](), Counter[str]()
        self.said: Counter[str] = Counter()
        self.process: subprocess.Popen[bytes] | None = None
        self.clock = folder.parent / "clock"
        self.clock.write_text("+0")
        self.late = 0  # servers that had to be killed in the end

    def environment(self) -> dict[str, str]:
        """Return the server's environment; with libfaketime its clock can be moved."""
        library = faketime()
        if library is None:
            return dict(os.environ)
        moved = {"FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_CACHE_DURATION": "1"}  # s
        moved |= {"LD_PRELOAD": library, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        return os.environ | moved

    def person(self, name: str) -> None:
        """Label as fast as the server answers; send a refused label again, or give it up."""
        rng, reply = random.Random(name), self.insist("/api/next", {"person": name})
        while reply is not None and not self.done.is_set():
            task = reply.get("next")
            if not task:
                time.sleep(0.05)
                reply = self.insist("/api/next", {"person": name})
                continue
            key, item = uuid.uuid4().hex, task["item"]["id"]
            path = "/api/undo" if rng.random() < 0.3 else "/api/label"
            body: dict[str, Any] = {"person": name, "key": key}
            body |= {} if path == "/api/undo" else {"item": item, "class": int(TRUTH[int(item)])}
            reply = self.insist(path, body)
            while reply is not None and self._refused(reply):
                if rng.random() < 0.5:
                    self.given_up.add(key)
                    reply = self.insist("/api/next", {"person": name})
                    break
                time.sleep(0.05)
                reply = self.insist(path, body)
            if reply is not None and reply.get("saved") is not None and key not in self.given_up:
                self.acknowledged[key] = reply["saved"]

    def _refused(self, reply: dict[str, Any]) -> bool:
        """Return whether a reply says that nothing was saved."""
        code = reply.get("error", {}).get("code")
        if code is not None:
            self.said[code] += 1
        return code == "not_saved"

    def torment(self, minutes: float, faults: dict[str, Any], told: Any) -> None:
        """Cause random faults until the time is over; then leave the server running."""
        self.process = self.start()
        threads = [threading.Thread(target=self.person, args=(f"p{i}",)) for i in range(4)]
        threads += [threading.Thread(target=self.watch), threading.Thread(target=self.idle)]
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + 60 * minutes
            while time.monotonic() < end:
                time.sleep(self.rng.uniform(0.2, 2.0))
                for name in self.rng.sample(sorted(faults), self.rng.choice([1, 1, 2])):
                    faults[name]()
                    self.happened[name] += 1
                if self.process.poll() is not None:
                    raise RuntimeError(f"the server ended: {(self.folder.parent / 'server.log').read_text()}")
                told(completed=60 * minutes - (end - time.monotonic()))
            time.sleep(2.0)
        finally:
            self.done.set()
            for thread in threads:
                thread.join()
            self.process.kill()
            self.process.wait()

    def idle(self) -> None:
        """Hold connections open, some with incomplete headers."""
        held: list[socket.socket] = []
        while not self.done.is_set():
            with suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", self.port), timeout=5))
                held[-1].sendall(self.rng.choice([b"", b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n"]))
            while len(held) > IDLE:
                held.pop(0).close()
            time.sleep(0.1)
        for one in held:
            one.close()

    def kill(self) -> None:
        """Kill the server, and start it again."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = self.start()

    def stop(self) -> None:
        """Ask the server to end, and start it again."""
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.late += 1
            self.process.kill()
            self.process.wait()
        self.process = self.start()

    def pause(self) -> None:
        """Pause the server."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.0, 2.0))
        self.process.send_signal(signal.SIGCONT)

    def jump(self) -> None:
        """Move the server's wall clock."""
        self.clock.write_text(f"{self.rng.randint(-3600, 3600):+d}")

    def found(self) -> dict[str, Any]:
        """Compare the log with all replies; return the failures."""
        states = self.outcome(self.happened["kill"])
        store = Store(self.store or self.folder / "labels.sqlite", "digits", write=False)
        keys = {event.key for event in store.read()}
        store.close()
        return {
            "faults": dict(sorted(self.happened.items())),
            "refusals": dict(sorted(self.said.items())),
            "acknowledged": states.acknowledged,
            "lost": states.lost,
            "twice": states.twice,
            "said not to be saved": len(self.given_up),
            "yet saved": len(self.given_up & keys),
            "states": states.states,
            "other states": states.other_states,
            "did not end by themselves": self.late,
        }


def faketime() -> str | None:
    """Return libfaketime, if it is installed."""
    places = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    return str(places[0]) if places else None


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a small disk at a folder; yield whether that was possible."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}m", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None and not subprocess.run(command, capture_output=True).returncode
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, seconds: float) -> None:
    """Fill the disk for a while."""
    filler = disk / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        time.sleep(seconds)
    finally:
        filler.unlink(missing_ok=True)


def broken(proxy: Proxy, mode: str, rng: random.Random) -> None:
    """Break the network to the database for a while."""
    proxy.cuts, proxy.mode = 0, mode
    time.sleep(rng.uniform(0.2, 4.0))
    proxy.mode = "forward"


def tormented(kind: str, minutes: float, seed: int, told: Any) -> dict[str, Any]:
    """Run all faults on one kind of store; return the figures."""
    with ExitStack() as stack:
        more: dict[str, Any]
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if kind == "postgresql":
            proxy, url = stack.enter_context(proxied(stack.enter_context(postgres.server())))
            chaos = Chaos(base / "digits.everylabel", url, seed)
            modes = ("cut after commit", "cut before commit", "swallow")
            more = {mode: partial(broken, proxy, mode, chaos.rng) for mode in modes}
        else:
            small = stack.enter_context(small_disk(base / "disk"))
            chaos = Chaos(base / "disk" / "digits.everylabel", None, seed)
            full = {"full": lambda: fill(base / "disk", chaos.rng.uniform(0.2, 2.0))}
            more = full if small else {}
        faults: dict[str, Any] = {"kill": chaos.kill, "stop": chaos.stop, "pause": chaos.pause, **more}
        faults |= {"clock": chaos.jump} if faketime() else {}
        chaos.torment(minutes, faults, told)
        return chaos.found()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for chaos.json")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # by way of what ends servers and databases
    found = {}
    for kind in given.stores:
        with Progress() as bar:
            told = partial(bar.update, bar.add_task(kind, total=60 * given.minutes))
            found[kind] = tormented(kind, given.minutes, given.seed, told)
        if given.out is not None:
            whole = {"minutes": given.minutes, "seed": given.seed, **found}
            write(given.out / "chaos.json", whole)
    names = next(iter(found.values()))
    rows = [[name, *(str(outcome[name]) for outcome in found.values())] for name in names]
    report("faults of every kind", ["", *found], rows)
    wrong = ("lost", "twice", "yet saved", "other states", "did not end by themselves")
    if any(outcome[name] for outcome in found.values() for name in wrong):
        raise SystemExit("an answer was lost or saved twice, or a reply contradicts the log")


if __name__ == "__main__":
    main()
