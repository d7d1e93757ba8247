"""A person who labels a session over HTTP, as the page does."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any

from everylabel.notebook.session import Session

CARDS = ["card", "visa card", "debit card", "mastercard", "credit card"]
MOVES = ["transfer", "wire transfer", "standing order", "money", "payment"]
TEXTS = [
    f"{begin} my {what}" for what in (*CARDS, *MOVES) for begin in ("where is", "I miss", "stop", "show")
]
CLASSES = ["card", "transfer"]


def truth(text: str) -> int:
    return int(not text.endswith("card"))


def get(session: Session, path: str) -> bytes:
    with urllib.request.urlopen(session.address + path, timeout=60) as reply:
        return bytes(reply.read())


def headers(session: Session, path: str = "") -> Any:
    with urllib.request.urlopen(session.address + path, timeout=60) as reply:
        return reply.headers


def post(session: Session, path: str, **body: Any) -> Any:
    data, kind = json.dumps(body).encode(), {"content-type": "application/json"}
    request = urllib.request.Request(f"{session.address}api/{path}", data, kind)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def answer(session: Session, n: int, know: Callable[[dict[str, Any]], int]) -> None:
    """Label n items by `know`, a function from a displayed item to its class."""
    task = post(session, "next", person="ann")["next"]
    for _ in range(n):
        body = {"person": "ann", "item": task["item"]["id"], "class": know(task["item"])}
        task = post(session, "label", **body)["next"]


def answer_texts(session: Session, n: int) -> None:
    answer(session, n, lambda item: truth(item["text"]))
