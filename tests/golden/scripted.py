"""Texts, simulated people and a clock for golden projects; imports no version of everylabel."""

import json
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

START = 1_767_603_600.0  # 5 January 2026, 9:00 UTC
STEP = 4.0  # seconds between two events
FOREVER = 3 * 10**9  # seconds of a lease: none ends because a golden project is old
KNOWN_BY = "0123456789ab"  # a project's id, which would be random
WORDS = {
    "card": "card chip pin blocked stolen lost plastic contactless",
    "money": "money transfer send refund balance account fee salary",
    "travel": "flight hotel train ticket luggage abroad visa border",
    "hello": "hello morning thanks please help question friend bye",
}
FILLERS = ["the", "my", "a", "is", "was", "it", "today", "again", "why"]


def texts(n: int, seed: int) -> list[tuple[str, str]]:
    """Return n short texts with their classes."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        kind = list(WORDS)[i % len(WORDS)]
        own, other = WORDS[kind].split(), WORDS[str(rng.choice(list(WORDS)))].split()
        words = [*rng.choice(own, 3, replace=False), *rng.choice(FILLERS, 2), rng.choice(other)]
        found.append((" ".join(map(str, rng.permutation(words))), kind))
    return found


class Clock:
    """A stand-in for the module `time`: its time advances with every event."""

    def __init__(self) -> None:
        self.now = START

    def time(self) -> float:
        if sys._getframe(1).f_code.co_name == "emit":
            self.now += STEP
        return self.now

    def module(self) -> SimpleNamespace:
        return SimpleNamespace(
            time=self.time,
            perf_counter=time.perf_counter,
            monotonic=time.monotonic,
            thread_time=time.thread_time,
        )


class People:
    """People who label over HTTP, mostly correctly; records the requests with a key."""

    def __init__(
        self, client: Any, truth: Mapping[str, str], requests: list[dict[str, Any]], seed: int
    ) -> None:
        self.client, self.truth, self.requests = client, truth, requests
        self.rng = np.random.default_rng(seed)

    def send(self, method: str, path: str, **body: Any) -> Any:
        """Return the reply to a request, which must succeed."""
        if "class_" in body:
            body["class"] = body.pop("class_")
        reply = self.client.request(method, f"/api/{path}", json=body)
        assert reply.status_code == 200, (path, body, reply.text)
        found = reply.json()
        if body.get("key"):
            said = {name: found[name] for name in ("saved", "class", "bulk") if name in found}
            self.requests.append({"path": path, "body": body, "reply": said})
        return found

    def post(self, path: str, **body: Any) -> Any:
        return self.send("POST", path, **body)

    def next(self, person: str) -> str:
        """Return the id of a person's current item."""
        return str(self.post("next", person=person)["next"]["item"]["id"])

    def label(self, person: str, n: int = 1, wrong: float = 0.15, keys: str = "") -> None:
        """Let a person label the next n items, some wrongly. `keys` is the prefix of the requests' keys."""
        for i in range(n):
            item = self.next(person)
            known = self.classes()
            name = self.truth.get(item, "")
            if name not in known or self.rng.random() < wrong:
                name = str(self.rng.choice(sorted(known)))
            self.post(
                "label", person=person, item=item, class_=known[name], key=f"{keys}{i}" if keys else None
            )

    def until(self, person: str, reason: str) -> str:
        """Let a person label until they get an item for this reason; return it."""
        for _ in range(20):
            task = self.post("next", person=person)["next"]
            if task["reason"] == reason:
                return str(task["item"]["id"])
            self.label(person)
        raise AssertionError(f"{person} was given nothing for the reason {reason!r}")

    def classes(self) -> dict[str, int]:
        """Return the numbers of classes, by their names."""
        return {one["name"]: one["id"] for one in self.client.get("/api/classes").json()["classes"]}

    def free(self, n: int) -> list[str]:
        """Return the first items that are neither answered nor leased."""
        states = ((name, self.client.get(f"/api/items/{name}").json()["state"]) for name in self.truth)
        return [name for name, state in states if state == "free"][:n]


def dump(database: Path, to: Path) -> None:
    """Write a log as lines of JSON: the tables, then their rows, with the body of an event as an object."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        opened.execute("PRAGMA journal_mode=DELETE")
        opened.execute("VACUUM")
        lines = [
            {"sql": sql} for (sql,) in opened.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        ]
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            rows = opened.execute(f"SELECT * FROM {name} ORDER BY 1, 2")
            columns = [column[0] for column in rows.description]
            for row in rows:
                line = {"table": name, **dict(zip(columns, row, strict=True))}
                lines.append(line | {"body": json.loads(line["body"])} if "body" in line else line)
    to.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def restore(lines: Path, database: Path) -> None:
    """Write a log from its lines as it was, byte by byte of every cell."""
    with closing(sqlite3.connect(database)) as opened:
        for line in map(json.loads, lines.read_text().splitlines()):
            if "sql" in line:
                opened.execute(line["sql"])
                continue
            name = line.pop("table")
            if "body" in line:
                line["body"] = json.dumps(line["body"], ensure_ascii=False)
            columns, marks = ", ".join(f'"{column}"' for column in line), ", ".join("?" * len(line))
            opened.execute(f"INSERT INTO {name} ({columns}) VALUES ({marks})", list(line.values()))
        opened.commit()


def rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a database, by table."""
    with closing(sqlite3.connect(database)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: opened.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in names}
