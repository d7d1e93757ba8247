"""Read the results of a golden project, to compare them with its expected.json.

Results come from the HTTP API and from the files of `everylabel export`. Values that differ between starts
are left out: measured times, the length of the log, who has the page open. Floats are compared to TOLERANCE,
since the model computes most of them; everything else must be equal.
"""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

from tests.golden.opened import HERE, copied, export, opened

TOLERANCE = 1e-3
PATIENCE = 120.0  # seconds that the first training in the background may take
MEASURED = ("version", "update_ms", "select_ms")
EXACT = {"labels": ("csv", "jsonl"), "answers": ("csv", "jsonl", "json")}  # exports, equal to the letter
RENAMED = ("doubted", "suspect")  # queues that are compared no more
CLOSE = ("predictions", "test")  # exports that hold numbers of the model
IMPORTER = "import"


def results(name: str, place: Path) -> dict[str, Any]:
    """Return all results of a golden project."""
    source = copied(name, place)
    found: dict[str, Any] = {"exports": exports(source, place)}
    with opened(source) as client:
        found["state"] = state(client)
        people = _people(client)
    found["undone"] = {}
    for person in people:
        with opened(copied(name, place / person)) as client:
            found["undone"][person] = undone(client, person)
    with opened(copied(name, place / "repeated")) as client:
        found["repeated"] = repeated(client, requests(name))
    return found


def requests(name: str) -> list[dict[str, Any]]:
    """Return the requests that were sent with a key while the project was made."""
    found: list[dict[str, Any]] = json.loads((HERE / name / "requests.json").read_text())
    return found


def state(client: Any) -> dict[str, Any]:
    """Return everything visible over HTTP, once the model's accuracy is estimated."""
    figures = _assessed(client)
    session, classes = _get(client, "session"), _get(client, "classes")
    people, predictions = _people(client), _get(client, "predictions")
    history = _get(client, "history", limit=500)["events"]
    ids = list(dict.fromkeys([*predictions["ids"], *(one["item"] for one in reversed(history))]))
    gone = [item for item in ids if client.get(f"/api/items/{item}").status_code == 404]
    found = {
        "session": {key: session[key] for key in ("items", "settings", "project", "project_id", "kind")},
        "classes": classes,
        "progress": _progress(client),
        "per_minute": {person: _get(client, "progress", person=person)["per_minute"] for person in people},
        "curve": _get(client, "progress")["curve"],
        "figures": figures,
        "history": history,
        "own_history": {person: _saved(client, person) for person in people},
        "disputed": _get(client, "disputed")["items"],
        "items": {item: _get(client, f"items/{item}") for item in ids if item not in gone},
        "gone": gone,
        "queues": _queues(client, [one["id"] for one in classes["classes"]], ids[0]),
        "predictions": dict(zip(predictions["ids"], predictions["probabilities"], strict=True)),
        "predicted_classes": predictions["classes"],
    }
    return comparable(found)


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Return a state without values that later versions changed or added on purpose.

    Suspect labels replace doubted ones; the gain is that of the expected accuracy; predictions share out what
    is of no class; labels of several classes and review have fields of their own; all people are listed.
    """
    for settings in (found["session"]["settings"], found["progress"]["settings"]):
        settings.pop("multi_label", None)
    for name in ("per_item", "partial", "review", "more_people"):
        found["progress"].pop(name, None)
    (found["progress"].get("names") or {}).pop("sentence", None)  # its words have changed
    arriving = found["progress"].get("arriving")
    if arriving is not None and "told" in arriving:  # its name until version 0.2
        arriving["problem"] = arriving.pop("told")
    found["figures"].pop("agreement", None)
    found["progress"]["stop"].pop("gain", None)
    queues = {key: some for key, some in found["queues"].items() if key.split()[0] not in RENAMED}
    shared = {item: [p / sum(probs) for p in probs] for item, probs in found["predictions"].items()}
    return found | {"queues": queues, "predictions": shared}


def exports(source: Path, place: Path) -> dict[str, Any]:
    """Return the files that `everylabel export` writes: as text, or as rows if they hold probabilities."""
    texts: dict[str, Any] = {
        f"{what}.{ending}": export(source, what, place / f"{what}.{ending}")
        for what, endings in EXACT.items()
        for ending in endings
    }
    for what in CLOSE:
        rows = csv.DictReader(io.StringIO(export(source, what, place / f"{what}.csv")))
        texts[what] = [{key: _number(cell) for key, cell in row.items()} for row in rows]
    return texts


def undone(client: Any, person: str) -> list[dict[str, Any]]:
    """Undo all answers of a person; return the effect and the item of each undo.

    Another copy of the project for each person: items that the model has chosen for one would be in the way.
    """
    found: list[dict[str, Any]] = []
    while True:
        before = _saved(client, person)
        reply = client.post("/api/undo", json={"person": person})
        if reply.status_code != 200:
            return [*found, {"refused": reply.json()["error"]["code"]}]
        now = {one["saved"]: one for one in _get(client, "history", person=person, limit=500)["events"]}
        back = [int(saved) for saved, gone in before.items() if now[int(saved)]["undone"] and not gone]
        items = sorted({now[saved]["item"] for saved in back})
        task = reply.json()["next"]
        again = task is not None and task["item"]["id"] in items
        found.append(
            {
                "back": back,
                "kinds": [now[saved]["kind"] for saved in back],
                "items": {item: _said(client, item) for item in items},
                "shown_again": task["item"]["id"] if again else None,
                "reason": task["reason"] if again else None,
                "counts": _counts(client),
            }
        )


def repeated(client: Any, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Repeat earlier requests; return the replies. Nothing else may change."""
    before = answers(client)
    found = []
    for one in sent:
        item = one["body"].get("item")
        if item is not None and client.get(f"/api/items/{item}").status_code == 404:
            continue  # a row that is gone since: version 0.2 fails here, and nothing is promised
        reply = client.post(f"/api/{one['path']}", json=one["body"])
        said = reply.json()
        found.append({"status": reply.status_code, **{name: said.get(name) for name in one["reply"]}})
    assert answers(client) == before
    return found


def answers(client: Any) -> dict[str, Any]:
    """Return people's answers, without the model's results."""
    _assessed(client)
    return {
        "history": _get(client, "history", limit=500)["events"],
        "classes": _get(client, "classes"),
        "disputed": _get(client, "disputed"),
        "counts": _counts(client),
        "wishes": _get(client, "figures")["wishes"],
    }


def _assessed(client: Any) -> Any:
    """Return the figures of classes, once training in the background has found them."""
    end = time.monotonic() + PATIENCE
    while (figures := _get(client, "figures"))["checks"] is None:
        assert time.monotonic() < end, "the model was not trained in the background"
        time.sleep(0.05)
    return figures


def _get(client: Any, path: str, **query: Any) -> Any:
    reply = client.get(f"/api/{path}", params=query)
    assert reply.status_code == 200, (path, query, reply.text)
    return reply.json()


def _people(client: Any) -> list[str]:
    """Return the people who label; the name of imports is not allowed."""
    return [one["name"] for one in _get(client, "progress")["people"] if one["name"] != IMPORTER]


def _progress(client: Any) -> dict[str, Any]:
    found = {name: value for name, value in _get(client, "progress").items() if name != "curve"}
    for name in MEASURED:
        del found[name]
    for one in found["people"]:
        del one["here"]
    found["stop"].pop("sentence")  # the gain in words
    return found


def _counts(client: Any) -> dict[str, Any]:
    """Return the numbers of answers and labels by class and person."""
    found = _get(client, "progress")
    counts = {
        name: found[name] for name in ("items", "labelled", "answers", "cannot_tell", "skipped", "disputed")
    }
    counts["classes"] = {one["name"]: one["labels"] for one in found["classes"]}
    counts["people"] = {one["name"]: one["answers"] for one in found["people"] if one["answers"]}
    return counts


def _saved(client: Any, person: str) -> dict[str, bool]:
    """Return a person's answers by number, and whether each was taken back."""
    events = _get(client, "history", person=person, limit=500)["events"]
    return {str(one["saved"]): one["undone"] for one in events}


def _said(client: Any, item: str) -> Any:
    """Return people's answers to an item; None for a missing row."""
    reply = client.get(f"/api/items/{item}")
    return {name: reply.json()[name] for name in ("label", "answers")} if reply.status_code == 200 else None


def _queues(client: Any, classes: list[int], item: str) -> dict[str, Any]:
    """Return all queues: items with their scores, or in order if they have none."""
    found: dict[str, Any] = {}
    for about in _get(client, "queues")["queues"]:
        name, asked = about["name"], list[dict[str, Any]]()
        if about["needs"] in ("", "class if any"):
            asked = [{}]
        if about["needs"] == "item":
            asked = [{"item": item}]
        if "class" in about["needs"]:
            asked += [{"class": number} for number in classes]
        for query in asked:
            rows = _get(client, f"queues/{name}", limit=500, **query)["items"]
            key = " ".join([name, *(f"{what} {value}" for what, value in query.items())])
            ranked = rows and rows[0]["score"] is not None
            found[key] = {row["id"]: row["score"] for row in rows} if ranked else [row["id"] for row in rows]
    return found


def _number(cell: str) -> Any:
    try:
        return float(cell) if "." in cell or "e-" in cell else cell
    except ValueError:
        return cell


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Return the differences of two values; decimals may differ by TOLERANCE."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = {*found, *expected}
        missing = [f"{where}/{key}: {'missing' if key in expected else 'unexpected'}" for key in sorted(keys)
                   if key not in found or key not in expected]  # fmt: skip
        both = [key for key in expected if key in found]
        return missing + [
            text for key in both for text in differences(found[key], expected[key], f"{where}/{key}")
        ]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [text for i, (one, other) in pairs for text in differences(one, other, f"{where}/{i}")]
    if isinstance(found, float) and isinstance(expected, float | int) and abs(found - expected) <= TOLERANCE:
        return []
    return [] if found == expected else [f"{where}: {found!r:.200}; expected {expected!r:.200}"]
