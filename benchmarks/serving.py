"""The labelling server: a real process, over HTTP on loopback, against the same work in this process.

    python -m benchmarks.serving [--seconds 60] [--out docs/results]
    python -m benchmarks.serving --browser     # only the time in a browser

100,000 instances x 384 features in 20 classes. One person labels; sixteen people give two labels a second
each; the server starts on the embedded pool; the page loads. Writes serving.json and prints a table.

The cost of HTTP is measured in parts: a minimal request, the commit of an event to a log, and labels during
which the server used more than one core, because it trained in the background.

With Chromium installed, 100 labels are also given on the page, with 10,000 instances and two labels a second:
the time from the key press until the next item is painted.
"""

import argparse
import contextlib
import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results import write
from benchmarks.timing import report
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import FeatureTable, TrainingSet
from everylabel.labelling.state.types import Place
from everylabel.log.events import Event, Label, Project
from everylabel.log.store import Store
from everylabel.selection.pool import Where

N, D, K = 100_000, 384, 20
WARM_UP, LABELS, PEOPLE, RATE = 60, 300, 16, 2.0
BESIDE = 1.25  # cores' work of a process from which it does something beside the desk


def data(n: int = N, d: int = D, k: int = K) -> tuple[np.ndarray, np.ndarray]:
    """Return features of overlapping clusters and their labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(k, size=n)
    centers = 0.25 * rng.standard_normal((k, d))
    return (centers[labels] + rng.standard_normal((n, d))).astype(np.float32), labels


def in_process(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return seconds of learning a label and picking the next, in this process."""
    rng, seconds = np.random.default_rng(0), []
    n, classes = len(features), tuple(range(K))
    rows = FeatureTable([str(i) for i in range(n)], features)
    with threadpool_limits(1):  # as the server has it
        learner = Learner(rows, rows.ids, TrainingSet(classes, {}, {}, n))
        (item,) = learner.pick("herding", 1, rng)
        for _ in range(WARM_UP + LABELS):
            began = time.perf_counter()
            learner.update({item: Place(Where.LABELLED, int(labels[item]))}, classes, n)
            (item,) = learner.pick("herding", 1, rng)
            seconds.append(time.perf_counter() - began)
    return np.array(seconds[WARM_UP:])


FELT, FELT_WARM_UP, FELT_OF = 100, 10, 10_000  # labels in the browser, and instances
PRESS = """
    const [key, done] = arguments;
    const item = document.getElementById("item");
    const began = performance.now();
    const seen = new MutationObserver(() => {
        seen.disconnect();
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));  // after the paint
    });
    seen.observe(item, {attributes: true, attributeFilter: ["data-item"]});
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
"""


class Client:
    """A client with one persistent connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"content-type": "application/json"})
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{path}: {reply.status} {content[:200]!r}")
        return json.loads(content)


def commits(folder: Path) -> np.ndarray:
    """Return the seconds to write one event to a log and to disk."""
    seconds = []
    with contextlib.closing(Store(str(folder / "commits.db"), "commits")) as log:
        log.append([Event(1, time.time(), "", Project([], {}, 0))])
        for seq in range(2, 2 + LABELS):
            event = Event(seq, time.time(), "first", Label(str(seq), 0))
            began = time.perf_counter()
            log.append([event])
            seconds.append(time.perf_counter() - began)
    return np.array(seconds)


def requests(client: Client) -> np.ndarray:
    """Return the seconds of a request that the server answers from memory."""
    seconds = []
    for _ in range(LABELS):
        began = time.perf_counter()
        client.ask("GET", "/api/health")
        seconds.append(time.perf_counter() - began)
    return np.array(seconds)


def worked(pid: int) -> float:
    """Return the processor seconds of all threads of a process."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            total += int((task / "schedstat").read_text().split()[0])
    return 1e-9 * total


@contextlib.contextmanager
def server(source: Path) -> Iterator[tuple[int, float, int]]:
    """Yield the port of a server process, the seconds from its start until it answers, and its number."""
    began = time.perf_counter()
    classes = ",".join(f"class {i}" for i in range(K))
    command = [sys.executable, "-m", "everylabel.cli", "label", str(source), "--classes", classes]
    process = subprocess.Popen([*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                port = int(found.group(1))
                Client(port).ask("POST", "/api/next", {"person": "first"})
                yield port, time.perf_counter() - began, process.pid
                return
        raise RuntimeError("the server did not start")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def label(client: Client, person: str, n: int, labels: np.ndarray) -> np.ndarray:
    """Label n instances as one person; return the seconds from label to next."""
    return _labelled(client, person, n, labels, lambda: 0.0)[0]


def label_alone_or_not(
    client: Client, person: str, n: int, labels: np.ndarray, pid: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of n labels, and whether the process used more than one core meanwhile."""
    seconds, work = _labelled(client, person, n, labels, lambda: worked(pid))
    return seconds, work > BESIDE * seconds


def _labelled(
    client: Client, person: str, n: int, labels: np.ndarray, work: Callable[[], float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of n labels, and the increase of a counter during each."""
    task, seconds, done = (
        client.ask("POST", "/api/next", {"person": person})["next"],
        np.empty(n),
        np.empty(n),
    )
    for i in range(n):
        item = task["item"]["id"]
        body = {"person": person, "item": item, "class": int(labels[int(item)])}
        before, began = work(), time.perf_counter()
        task = client.ask("POST", "/api/label", body)["next"]
        seconds[i] = time.perf_counter() - began
        done[i] = work() - before
    return seconds, done


def together(port: int, labels: np.ndarray, duration: float) -> tuple[np.ndarray, int, int]:
    """Let many people label at a steady rate; return seconds, errors, and instances leased twice."""
    seconds: list[float] = []
    handed: Counter[str] = Counter()
    errors = [0]
    stop = time.perf_counter() + duration

    def person(number: int) -> None:
        client, name = Client(port), f"person {number}"
        due = time.perf_counter() + number / (PEOPLE * RATE)
        try:
            task = client.ask("POST", "/api/next", {"person": name})["next"]
            while time.perf_counter() < stop:
                time.sleep(max(0.0, due - time.perf_counter()))
                due = max(due + 1.0 / RATE, time.perf_counter())  # who is late does not hurry
                item = task["item"]["id"]
                handed[item] += 1
                body = {"person": name, "item": item, "class": int(labels[int(item)])}
                began = time.perf_counter()
                task = client.ask("POST", "/api/label", body)["next"]
                seconds.append(time.perf_counter() - began)
        except (RuntimeError, OSError, http.client.HTTPException):
            errors[0] += 1

    threads = [threading.Thread(target=person, args=(i,)) for i in range(PEOPLE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(seconds), errors[0], sum(count > 1 for count in handed.values())


def felt(features: np.ndarray, labels: np.ndarray, folder: Path) -> dict[str, Any]:
    """Return milliseconds from a key press to the painted next item, in Chromium; nothing without it."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return {}
    from tests.web.browser.pages import Page, start_browser

    source = folder / "felt.npy"
    np.save(source, features)
    driver = start_browser()
    try:
        with server(source) as (port, _, pid):
            page = Page(driver, f"http://127.0.0.1:{port}").open("felt")
            seconds, work = [], []
            for _ in range(FELT_WARM_UP + FELT):
                time.sleep(1.0 / RATE)
                key = f"{labels[int(page.item)] % 9 + 1}"
                before = worked(pid)
                seconds.append(1e-3 * driver.execute_async_script(PRESS, key))
                work.append(worked(pid) - before)
    finally:
        driver.quit()
    taken, busy = np.array(seconds[FELT_WARM_UP:]), np.array(work[FELT_WARM_UP:])
    beside = busy > BESIDE * taken
    parts = {"all": taken, "alone": taken[~beside], "beside training": taken[beside]}
    return {name: {**quantiles(some), "labels": len(some)} for name, some in parts.items() if len(some)}


def first_load(port: int) -> tuple[int, list[str]]:
    """Return the bytes of the page with all its files, and addresses on other hosts."""
    seen: dict[str, int] = {}
    todo, elsewhere = ["/"], []
    while todo:
        path = todo.pop()
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("GET", path)
        content = client.getresponse().read()
        seen[path] = len(content)
        text = content.decode("utf-8", "replace")
        elsewhere += re.findall(
            r"(?:src=|href=|url\(|fetch\(|import\(|from )[\"'`]?(https?://[^\s\"'`)]+)", text
        )
        found = re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", text)
        found += ["/static/" + name for name in re.findall(r"from \"\./([^\"]+)\"", text)]
        todo += [path for path in dict.fromkeys(found) if path not in seen and path not in todo]
    return sum(seen.values()), elsewhere


def measure(duration: float) -> dict[str, Any]:
    """Return all figures."""
    features, labels = data()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pool.npy"
        np.save(source, features)
        began = time.perf_counter()
        np.load(source)
        reading = time.perf_counter() - began
        inside = in_process(features, labels)
        with server(source) as (port, _, _):  # compiles the loops once
            pass
        with server(source) as (port, starting, pid):
            size, elsewhere = first_load(port)
            client = Client(port)
            label(client, "first", WARM_UP, labels)
            bare = requests(client)
            one, busy = label_alone_or_not(client, "first", LABELS, labels, pid)
            many, errors, twice = together(port, labels, duration)
        written = commits(Path(folder))
        browser = felt(features[:FELT_OF], labels[:FELT_OF], Path(folder))
    ms = {name: quantiles(values) for name, values in (("inside", inside), ("one", one), ("many", many))}
    parts = {"alone": one[~busy], "beside training": one[busy], "bare request": bare, "commit": written}
    return {
        "pool": [N, D, K],
        "in process, ms": ms["inside"],
        "one person, ms": ms["one"],
        "one person, in parts, ms": {name: quantiles(some) for name, some in parts.items() if len(some)},
        "one person, labels beside training": int(busy.sum()),
        "one person, bound for p99, ms": 3 * ms["inside"]["p99"] + 10,
        "sixteen people, ms": ms["many"],
        "sixteen people, labels": len(many),
        "sixteen people, errors": errors,
        "sixteen people, handed out twice": twice,
        "reading the features, s": reading,
        "from start to first instance, s": starting,
        "key press to painted next item, ms": browser,
        "page, bytes": size,
        "page, requests elsewhere": elsewhere,
    }


def quantiles(seconds: np.ndarray) -> dict[str, float]:
    """Return median, p90 and p99 in milliseconds."""
    at = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    return {name: round(1e3 * float(np.quantile(seconds, q)), 1) for name, q in at.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="that sixteen people label")
    parser.add_argument("--out", type=Path, help="folder for serving.json, or serving_browser.json")
    parser.add_argument("--browser", action="store_true", help="only from key press to painted next item")
    given = parser.parse_args()
    if given.browser:
        with tempfile.TemporaryDirectory() as folder:
            felt_ms = {
                "instances": FELT_OF,
                "key press to painted next item, ms": felt(*data(FELT_OF), Path(folder)),
            }
        print(json.dumps(felt_ms, indent=1))
        if given.out is not None:
            write(given.out / "serving_browser.json", felt_ms)
        return
    found = measure(given.seconds)
    rows = [[name, json.dumps(value)] for name, value in found.items()]
    report("the labelling server", ["what", "figure"], rows)
    if given.out is not None:
        write(
            given.out / "serving.json",
            found,
        )


if __name__ == "__main__":
    main()
