"""Simulated people who label at the same time through the HTTP API by known labels, and the learning curve.

accuracy        share of unlabelled items that are predicted correctly; micro F1 if items have several classes
estimate        the page's own accuracy from random checks, with its 95 % interval
milliseconds    from sending a label to having the next item: the median since the last point, and the
                slowest of all
keys            key presses. Hands "one": one per label. Hands "bulk": open a list of near copies (one key),
                remove each item of another class (one key each), give the class (one key). Hands "yes-no":
                accept the proposed class (one key), or reject it (one key each); after NOES rejections, or
                without a proposal, look the class up (one key)
"""

import csv
import http.client
import io
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.core.files import write_atomically
from everylabel.data.classes import class_names_in, names_in

TIMEOUT = 60  # seconds
PAGE = 10_000  # predictions asked for at a time
POINTS = 20  # points of the curve
NOES = 2  # rejected proposals of an item before its class is looked up
HANDS = ("one", "bulk", "yes-no")
ENDINGS = (".png", ".svg", ".csv")


class Client:
    """A client of one server. If the connection breaks, a request is sent once more, with its key."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EverylabelError(f"url is {url!r}; expected http://address:port of a running server")
        query = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.url, self.base = url, parts.path.rstrip("/")
        self.token = token or query.get("token")
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT)

    def get(self, path: str, **query: Any) -> Any:
        """Return the reply to a GET."""
        text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        return self._sent("GET", f"{path}?{text}" if text else path, None)

    def post(self, path: str, **body: Any) -> Any:
        """Return the reply to a POST."""
        return self._sent("POST", path, body)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _sent(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"accept": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["content-type"] = "application/json"
        for last in (False, True):
            try:
                self._connection.request(method, self.base + path, data, headers)
                reply = self._connection.getresponse()
                text = reply.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if last:
                    raise EverylabelError(
                        f"the server at {self.url} does not answer ({error or type(error).__name__}); is it "
                        "running, and is the address right?"
                    ) from error
        return _checked(reply.status, text, path)


def new_key() -> str:
    """Return a key that makes a request count once."""
    return uuid.uuid4().hex


def _checked(status: int, text: bytes, path: str) -> Any:
    try:
        reply = json.loads(text)
    except ValueError as error:
        raise EverylabelError(
            f"{path} gave {status} and did not return JSON; expected a server of everylabel"
        ) from error
    if status >= 400:
        refusal = reply.get("error", {}) if isinstance(reply, dict) else {}
        raise EverylabelError(f"{path} gave {status} ({refusal.get('code')}): {refusal.get('message')}")
    return reply


class Point(NamedTuple):
    """The state after some labels."""

    labels: int
    accuracy: float | None
    estimate: float | None
    low: float | None
    high: float | None
    checks: int
    median_ms: float
    slowest_ms: float
    keys: int = 0  # key presses so far
    groups: int = 0  # opened lists of near copies
    wrong: int = 0  # items removed from them
    noes: int = 0  # rejected proposals
    looked_up: int = 0  # labels whose class was not proposed


class _Person:
    """A simulated person who knows the true labels, and errs with probability `noise`."""

    def __init__(
        self, client: Client, name: str, truth: dict[str, str], noise: float, seed: int, hands: str = "one"
    ) -> None:
        self.client, self.name, self.truth, self.noise, self.hands = client, name, truth, noise, hands
        self.counts = Counter[str]()  # the last fields of `Point`
        self.numbers = {each["name"]: each["id"] for each in client.get("/api/classes")["classes"]}
        self.rng = np.random.default_rng(seed)
        self.several = bool(client.get("/api/session", person=name)["multi_label"])
        self.names = sorted(class_names_in(truth.values()) if self.several else set(truth.values()))
        self.task: dict[str, Any] | None = client.post("/api/next", person=name)["next"]

    def label_while(self, budget: threading.Semaphore, done: Callable[[], Any]) -> list[float]:
        """Label until the budget is spent or no item is left; return the milliseconds of each label."""
        milliseconds = []
        while self.task is not None and self._skip_unknown() and budget.acquire(blocking=False):
            item = self.task["item"]["id"]
            answer = self._answer(item)
            self._reject_others(item, answer)
            copies = self._copies(item, budget)
            body = {"person": self.name, "class": answer, "key": new_key()}
            start = time.perf_counter()
            if self.several:
                reply = self.client.post("/api/label_set", item=item, **self._set(item))
            elif copies:
                reply = self.client.post("/api/label_many", items=[item, *copies], **body)
            else:
                reply = self.client.post("/api/label", item=item, **body)
            milliseconds += (1 + len(copies)) * [1e3 * (time.perf_counter() - start)]
            self.counts["keys"] += 1
            self.task = reply["next"]
            for _ in range(1 + len(copies)):
                done()
        return milliseconds

    def _set(self, item: str) -> dict[str, Any]:
        """Return an item's classes as the body of a request; an error changes one of them."""
        true = names_in(self.truth[item])
        present = {*true.present}
        if self.rng.random() < self.noise:
            present ^= {str(self.rng.choice(self.names))}
        absent = None if true.absent is None else [name for name in true.absent if name not in present]
        return {"person": self.name, "key": new_key(), "present": sorted(present), "absent": absent}

    def _reject_others(self, item: str, answer: str) -> None:
        """Reject proposed classes until the proposal is the answer, up to `NOES` times."""
        while self.hands == "yes-no" and self.task is not None:
            proposed = self._proposed()
            if proposed == self.numbers[answer]:
                return
            n_rejected = len(self.task["ruled_out"])
            if proposed is None or n_rejected >= min(NOES, len(self.numbers) - 1):
                self.counts["looked_up"] += 1
                return
            body = {"person": self.name, "item": item, "class": proposed, "key": new_key()}
            self.task = self.client.post("/api/not", **body)["next"]
            self.counts.update(["keys", "noes"])

    def _proposed(self) -> int | None:
        """Return the class that the page would propose."""
        assert self.task is not None
        probabilities = self.task["probabilities"]
        left = [number for number in self.numbers.values() if number not in self.task["ruled_out"]]
        return None if probabilities is None else max(left, key=lambda number: probabilities[number])

    def _copies(self, item: str, budget: threading.Semaphore) -> list[str]:
        """Return near copies of an item with its class, within the budget; count the keys."""
        if self.hands != "bulk" or self.task is None or self.task["reason"] != "chosen":
            return []
        copies = self.client.get("/api/queues/copies", item=item)["items"]
        ticked = [each["id"] for each in copies if each["sure"]]
        right = [each for each in ticked if self.truth.get(each) == self.truth[item]]
        wrong = len(ticked) - len(right)
        if len(right) <= 1 + wrong:  # a list this short does not pay
            return []
        self.counts.update(keys=1 + wrong, groups=1, wrong=wrong)
        return [each for each in right if budget.acquire(blocking=False)]

    def _skip_unknown(self) -> bool:
        """Answer 'cannot tell' for items without a true label; return whether an item is left."""
        while self.task is not None and self.task["item"]["id"] not in self.truth:
            item = self.task["item"]["id"]
            reply = self.client.post("/api/cannot_tell", person=self.name, item=item, key=new_key())
            self.task = reply["next"]
        return self.task is not None

    def _answer(self, item: str) -> str:
        right = self.truth[item]
        if self.rng.random() >= self.noise:
            return right
        others = [name for name in self.names if name != right]
        return str(self.rng.choice(others)) if others else right


def simulate(
    url: str,
    truth: dict[str, str],
    classes: Sequence[str],
    *,
    budget: int,
    people: int = 1,
    noise: float = 0.0,
    seed: int = 0,
    token: str | None = None,
    hands: str = "one",
    done: Callable[[], Any] = lambda: None,
) -> Iterator[Point]:
    """Yield points of the learning curve while `people` give `budget` labels in all.

    truth : id -> class name, or the JSON list of an item's classes
    hands : "one" key per item, "bulk" for near copies together, or "yes-no" to proposed classes
    done : called after each label
    """
    clients = [Client(url, token) for _ in range(people)]
    try:
        _check(clients[0], truth, classes, hands)
        crew = [
            _Person(client, f"simulated {i}", truth, noise, seed + i, hands)
            for i, client in enumerate(clients, 1)
        ]
        all_taken: list[float] = []
        with ThreadPoolExecutor(people) as pool:
            for stop in milestones(budget):
                share = threading.Semaphore(stop - len(all_taken))
                jobs = [pool.submit(person.label_while, share, done) for person in crew]
                taken = [ms for job in jobs for ms in job.result()]
                all_taken += taken
                if taken:
                    counts = sum((person.counts for person in crew), Counter[str]())
                    yield _point(clients[0], truth, taken, all_taken, counts)
                if all(person.task is None for person in crew):
                    return
    finally:
        for client in clients:
            client.close()


def milestones(budget: int) -> list[int]:
    """Return the numbers of labels after which to measure."""
    return np.unique(np.ceil(np.linspace(budget / POINTS, budget, POINTS)).astype(int)).tolist()


def _check(client: Client, truth: dict[str, str], classes: Sequence[str], hands: str) -> None:
    """Raise unless the server has all items and takes such hands; add missing classes."""
    about = client.get("/api/session", person="simulated 1")
    if hands != "one" and about["multi_label"]:
        raise EverylabelError(f"--hands is {hands!r} with --multi-label; expected 'one': all classes at once")
    there = {entry["name"] for entry in client.get("/api/classes")["classes"]}
    for name in classes:
        if name not in there:
            client.post("/api/classes", person="simulated 1", name=name)
    items = about["items"]
    if items < len(truth):
        raise EverylabelError(
            f"the server at {client.url} has {items:,} items and the source {len(truth):,} with a known "
            "label; expected a server of the same source"
        )


def _point(
    client: Client, truth: dict[str, str], taken: list[float], all_taken: list[float], counts: Counter[str]
) -> Point:
    progress = client.get("/api/progress", person="simulated 1")
    known = progress["accuracy"] or {}
    return Point(
        labels=progress["labelled"],
        accuracy=_accuracy(client, truth),
        estimate=known.get("estimate"),
        low=known.get("low"),
        high=known.get("high"),
        checks=known.get("checks", 0),
        median_ms=float(np.median(taken)),
        slowest_ms=float(np.max(all_taken)),
        **counts,
    )


def _accuracy(client: Client, truth: dict[str, str]) -> float | None:
    """Return the share of unlabelled items that are predicted correctly, or micro F1."""
    right = n = 0
    said = wanted = 0  # predicted and true classes of multi-label items
    query: dict[str, Any] = {"limit": PAGE}
    more = True
    while more:
        page = client.get("/api/predictions", **query)
        probs, limits = np.asarray(page["probabilities"]), page.get("thresholds")
        for name, row in zip(page["ids"], probs, strict=True):
            if name in truth:
                n += 1
                if limits is None:
                    right += truth[name] == page["classes"][int(row.argmax())]
                    continue
                guess = {c for c, p, limit in zip(page["classes"], row, limits, strict=True) if p >= limit}
                there = {*names_in(truth[name]).present}
                right, said, wanted = right + len(guess & there), said + len(guess), wanted + len(there)
        query["after"], more = page["after"], page["after"] is not None
    if said + wanted:
        return 2.0 * right / (said + wanted)
    return right / n if n else None


def check_ending(out: Path | None) -> None:
    """Raise if the file could not be written at the end."""
    if out is not None and (out.suffix.lower() not in ENDINGS or not out.absolute().parent.is_dir()):
        raise EverylabelError(
            f"--out is {str(out)!r}; expected an ending of {', '.join(ENDINGS)}, in an existing folder"
        )
    if out is not None and out.suffix.lower() != ".csv":
        need("matplotlib", "plot", f"a curve as {out.suffix.lower()}")


def write_curve(points: Sequence[Point], out: Path, name: str) -> None:
    """Write the curve in the format of the file's ending."""
    if out.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([Point._fields, *points])
        write_atomically(out, lambda file: file.write(text.getvalue().encode()), follow_links=True)
        return
    _plot(points, out, name)


def _plot(points: Sequence[Point], out: Path, name: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    true = [(p.labels, p.accuracy) for p in points if p.accuracy is not None]
    axes.plot(*zip(*true, strict=True), marker="o", label="true accuracy on the rest") if true else None
    known = np.array([(p.labels, p.estimate, p.low, p.high) for p in points if p.estimate is not None], float)
    if len(known):
        x, estimate, low, high = known.T
        axes.plot(x, estimate, linestyle="--", label="the page's estimate, 95 %")
        axes.fill_between(x, low, high, alpha=0.2)
    axes.set(xlabel="labels", ylabel="accuracy", title=name, ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(out, dpi=120)
