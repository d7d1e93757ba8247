"""Many people who disagree label on one server, over HTTP on loopback: the cost of a label, and of a restart.

    python -m benchmarks.crowd [--people 1 16 64] [--annotators 3] [--wrong 0.3] [--seconds 60] [--labels 0]
                               [--features 384] [--out docs/results]

20,000 instances x 384 features in 20 classes (with 128 features labels are learned exactly, not by steps).
One person labels, then more people, each two labels a second. Several people answer each item, and some are
wrong, so that labels change. `--labels` are written to the log before the start. Each setting has its own
server; times are also ratios to those of one person in the same run. At the end the server starts again on
its log. Writes crowd.json and prints a table.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import write
from benchmarks.serving import Client, data, quantiles
from benchmarks.timing import report
from everylabel.log.events import Assessed, Event, Label
from everylabel.log.store import Store

N, K, RATE = 20_000, 20, 2.0


@contextlib.contextmanager
def server(source: Path, log: Path, annotators: int) -> Iterator[tuple[int, float, int]]:
    """Yield a server's port, the seconds until it first answered, and its process number."""
    classes = ",".join(f"class {i}" for i in range(K))
    command = [sys.executable, "-m", "everylabel.cli", "label", str(source), "--classes", classes]
    options = ["--store", str(log), "--annotators-per-item", str(annotators), "--no-browser", "--port", "0"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                port = int(found.group(1))
                Client(port).ask("POST", "/api/next", {"person": "nobody"})
                yield port, time.perf_counter() - began, process.pid
                return
        raise RuntimeError("the server did not start")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def labelling(port: int, labels: np.ndarray, people: int, wrong: float, duration: float) -> np.ndarray:
    """Let people label at a steady rate with some wrong answers; return seconds from label to next."""
    seconds: list[float] = []
    stop = time.perf_counter() + duration

    def person(number: int) -> None:
        client, name, rng = Client(port), f"person {number}", np.random.default_rng(number)
        due = time.perf_counter() + number / (people * RATE)
        with contextlib.suppress(OSError, http.client.HTTPException):
            task = client.ask("POST", "/api/next", {"person": name})["next"]
            while time.perf_counter() < stop:
                time.sleep(max(0.0, due - time.perf_counter()))
                due = max(due + 1.0 / RATE, time.perf_counter())  # who is late does not hurry
                item = task["item"]["id"]
                answer = int(rng.integers(K)) if rng.random() < wrong else int(labels[int(item)])
                began = time.perf_counter()
                body = {"person": name, "item": item, "class": answer}
                task = client.ask("POST", "/api/label", body)["next"]
                seconds.append(time.perf_counter() - began)

    threads = [threading.Thread(target=person, args=(i,)) for i in range(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(seconds)


def prefill(log: Path, labels: np.ndarray, count: int) -> None:
    """Append `count` labels of one person to a log."""
    with contextlib.closing(Store(log, "pool.npy")) as store:
        last, fresh = store.read()[-1].seq, []
        items = np.random.default_rng(1).permutation(N)[:count]
        for at, item in enumerate(items.tolist(), last + 1):
            body = Label(str(item), int(labels[item]))
            fresh.append(Event(at, time.time(), "before", body))
        store.append(fresh)


def trainings(events: list[Event], first: float, last: float) -> dict[str, Any]:
    """Return how many trainings changed the estimate while people labelled, and the longest interval."""
    times = [event.at for event in events if isinstance(event.body, Assessed) and first <= event.at <= last]
    waits = np.diff([first, *times, last])
    return {"trainings": len(times), "longest without one, s": round(float(waits.max()), 1)}


def memory(process: int) -> float:
    """Return the megabytes that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return 0.0 if found is None else int(found.group(1)) / 1024


def computed(process: int) -> float:
    """Return the processor seconds of all threads of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    features, labels = data(N, given.features, K)
    found: dict[str, Any] = {"pool": [*features.shape, K], "wrong": given.wrong}
    found["labels before"] = given.labels
    found["others' load at the start"] = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pool.npy"
        np.save(source, features)
        for people in given.people:
            log, annotators = Path(folder) / f"{people}.sqlite", min(people, given.annotators)
            with server(source, log, annotators):  # embeds, compiles
                pass
            if given.labels:
                prefill(log, labels, given.labels)
            with server(source, log, annotators) as (port, starting, process):
                before, began = memory(process), computed(process)
                first = time.time()
                seconds = labelling(port, labels, people, given.wrong, given.seconds)
                last = time.time()
                after, spent = memory(process), computed(process) - began
            print(people, quantiles(seconds), flush=True)
            with contextlib.closing(Store(log, "pool.npy", write=False)) as store:
                events = store.read()
            with server(source, log, annotators) as (port, again, _):
                pass
            found[f"{people} people"] = {
                "annotators": annotators,
                "ms": quantiles(seconds),
                "answers": len(seconds),
                "computed an answer, ms": round(1e3 * spent / max(1, len(seconds)), 1),
                **trainings(events, first, last),
                "events": len(events),
                "MB before and after": [round(before), round(after)],
                "first start, s": round(starting, 1),
                "start again, s": round(again, 1),
            }
            print(people, json.dumps(found[f"{people} people"]), flush=True)
    first = found[f"{given.people[0]} people"]["ms"]
    for people in given.people[1:]:
        ms = found[f"{people} people"]["ms"]
        found[f"{people} people"]["times one's"] = {name: round(ms[name] / first[name], 2) for name in ms}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--people", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--annotators", type=int, default=3, help="answers that an item wants")
    parser.add_argument("--wrong", type=float, default=0.3, help="share of answers that are drawn at random")
    parser.add_argument("--seconds", type=float, default=60.0, help="that people label in each setting")
    parser.add_argument("--labels", type=int, default=0, help="that are in the log before")
    parser.add_argument("--features", type=int, default=384, help="of each instance")
    parser.add_argument("--out", type=Path, help="folder for crowd.json")
    given = parser.parse_args()
    found = measure(given)
    report("many people", ["what", "figure"], [[name, json.dumps(value)] for name, value in found.items()])
    if given.out is not None:
        write(
            given.out / "crowd.json",
            found,
        )


if __name__ == "__main__":
    main()
