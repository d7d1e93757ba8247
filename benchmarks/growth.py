"""The cost of an answer and the memory of the server after up to a hundred thousand answers.

    python -m benchmarks.growth [--answers 1000 10000 30000 100000] [--written 1000000] [--out docs/results]

20,000 instances x 384 features in 20 classes; sixteen people at a desk in this process, a log in SQLite,
training in the background. When all items are answered, people answer random items again, three in ten with
another class, so that labels change. At each number of answers: the processor time of the desk's thread per
answer (all that a person waits for except HTTP; answering an item again costs less, since no item is chosen);
memory without a training, and at its peak; and the seconds to open the log as the server does, with and
without the saved mean of the model. Writes growth.json.

--written : logs of this many events, written at once (`long_log.py`): the time to open them, and the cost of
an answer.
"""

import argparse
import gc
import json
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.crowd import K, N, memory
from benchmarks.long_log import write_events
from benchmarks.results import write
from benchmarks.serving import D, data
from benchmarks.timing import report
from everylabel.labelling.desk import Desk, Finish
from everylabel.labelling.model.retrainer import Retrainer, save_mean, saved_mean
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.service import Service
from everylabel.log.store import Store
from tests.projects.starts import start

PEOPLE, WRONG, LATEST = 16, 0.3, 500
MEAN = "model.mean.npz"


class Office:
    """People who answer together, round after round."""

    def __init__(self, desk: Desk, labels: np.ndarray) -> None:
        self.desk, self.labels, self.rng = desk, labels, np.random.default_rng(0)
        self.service = Service(desk, lambda item: {"id": item})
        self.has: dict[str, str | None] = {f"person {i}": None for i in range(PEOPLE)}
        for person in self.has:
            self._take(person, self.service.next(person).result())

    def round(self) -> None:
        """Let everybody answer at once."""
        go = self._hold()
        replies = {
            person: self.service.label(person, *self._answer(person), key=str(uuid4())) for person in self.has
        }
        go.set()
        for person, reply in replies.items():
            self._take(person, reply.result())

    def _answer(self, person: str) -> tuple[str, int]:
        item = self.has[person] or str(self._free())
        wrong = self.rng.random() < WRONG
        return item, int(self.rng.integers(K)) if wrong else int(self.labels[int(item)])

    def _free(self) -> int:
        """Return an item that is not leased."""
        held = set(self.has.values())
        return next(i for i in self.rng.permutation(N)[: PEOPLE + 1].tolist() if str(i) not in held)

    def _take(self, person: str, reply: dict[str, Any]) -> None:
        self.has[person] = reply["next"]["item"]["id"] if reply["next"] else None

    def _hold(self) -> threading.Event:
        """Block the desk until all requests have arrived."""
        begun, go = threading.Event(), threading.Event()

        def command() -> Finish:
            begun.set()
            go.wait()
            return lambda: None

        self.desk.submit(command)
        begun.wait()
        return go


@contextmanager
def opened(folder: Path, rows: FeatureTable, saved: bool = True) -> Iterator[tuple[Desk, float]]:
    """Yield a desk on the log in a folder, and the seconds until it was there.

    saved : use the saved mean, if it is there
    """
    began = time.perf_counter()
    store = Store(folder / "labels.sqlite", "pool")
    given: dict[str, Any] = {"classes": [f"class {i}" for i in range(K)], "features": rows.features}
    state = start(store, rows.ids, **given)
    desk = Desk(rows, store, state, mean=saved_mean(folder / MEAN) if saved else None)
    try:
        yield desk, time.perf_counter() - began
    finally:
        desk.close()
        store.close()


def of_long_log(events: int, rows: FeatureTable, labels: np.ndarray) -> dict[str, Any]:
    """Return the costs of a log that was written at once."""
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        folder = Path(name)
        with opened(folder, rows):
            pass
        with closing(Store(folder / "labels.sqlite", "pool")) as store:
            write_events(store, events, labels, PEOPLE, WRONG)
        with opened(folder, rows) as (desk, whole):
            save_mean(folder / MEAN, desk)
        del desk
        began = time.process_time()
        with opened(folder, rows) as (desk, again):
            spent = time.process_time() - began
            office, given = Office(desk, labels), 0
            began = desk.read(time.thread_time).result()
            while given < LATEST:
                office.round()
                given += PEOPLE
            cost = (desk.read(time.thread_time).result() - began) / given
            gc.collect()
            return {
                "open, s": round(again, 2),
                "open, s of computing": round(spent, 2),
                "open without the mean, s": round(whole, 1),
                "computed an answer, ms": round(1e3 * cost, 2),
                "MB": round(memory(os.getpid())),
            }


def measure(counts: list[int], rows: FeatureTable, labels: np.ndarray) -> dict[str, Any]:
    """Return all figures of a log that grows by answers."""
    found: dict[str, Any] = {"pool": [N, D, K], "people": PEOPLE, "wrong": WRONG}
    found["others' load at the start"] = round(os.getloadavg()[0], 1)
    given = 0
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):  # as the server has it
        for count in sorted(counts):
            with opened(Path(name), rows) as (desk, _):
                retrainer, office = Retrainer(desk, Path(name) / MEAN), Office(desk, labels)
                while given < count - LATEST:
                    office.round()
                    given += PEOPLE
                began, since = desk.read(time.thread_time).result(), given
                while given < count:
                    office.round()
                    given += PEOPLE
                spent = desk.read(time.thread_time).result() - began
                retrainer.close()  # what a training needs for itself is in the peak; saves the mean
                gc.collect()
                held = memory(os.getpid())
                told = {"items with a label": len(desk.state.labels), "events": desk.state.seq}
            with opened(Path(name), rows) as (_, again):
                pass
            with opened(Path(name), rows, saved=False) as (_, whole):
                pass
            found[f"{count} answers"] = {
                "computed an answer, ms": round(1e3 * spent / (given - since), 2),
                "MB": round(held),
                "MB at most so far": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                **told,
                "open, s": round(again, 2),
                "open without the mean, s": round(whole, 2),
            }
            print(count, json.dumps(found[f"{count} answers"]), flush=True)
    first, last = (found[f"{count} answers"] for count in (min(counts), max(counts)))
    cost = last["computed an answer, ms"] / first["computed an answer, ms"]
    found["last to first"] = {"cost": round(cost, 2), "MB": round(last["MB"] / first["MB"], 2)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--answers", type=int, nargs="*", default=[1000, 10_000, 30_000, 100_000])
    parser.add_argument("--written", type=int, nargs="*", default=[])
    parser.add_argument("--out", type=Path, help="folder for growth.json")
    given = parser.parse_args()
    features, labels = data(N, D, K)
    rows = FeatureTable([str(i) for i in range(N)], features)
    found = measure(given.answers, rows, labels) if given.answers else {}
    for events in given.written:
        found[f"{events} events written at once"] = of_long_log(events, rows, labels)
        print(events, json.dumps(found[f"{events} events written at once"]), flush=True)
    report("growth", ["what", "figure"], [[name, json.dumps(value)] for name, value in found.items()])
    if given.out is not None:
        write(given.out / "growth.json", found)


if __name__ == "__main__":
    main()
