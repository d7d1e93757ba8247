"""`everylabel label --watch`: real servers, whose source grows, changes, and is half-written."""

import csv
import io
import shutil
import signal
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from tests.labelling.desks import until
from tests.web.servers import Running, RunningHere, label, label_here

pytestmark = pytest.mark.usefixtures("own_place")
WORDS = ["card", "refund", "lost", "paid", "wrong", "money", "late", "order", "parcel", "broken", "phone"]


def sentence(i: int) -> str:
    rng = np.random.default_rng(i)
    return " ".join(rng.choice(WORDS, 6)) + f" {i}"


def rows(start: int, stop: int) -> str:
    return "".join(f'{sentence(i)},"{i % 3}, or so"\n' for i in range(start, stop))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "inbox.csv"
    path.write_text("message,stars\n" + rows(0, 30))
    return path


OPTIONS = (
    "inbox.csv",
    "--model",
    "tfidf",
    "--text-column",
    "message",
    "--classes",
    "a,b",
    "--check-every",
    "0",
)


def append(path: Path, text: str) -> None:
    with path.open("a", newline="") as file:
        file.write(text)


def items(server: Running | RunningHere) -> int:
    return int(server.client.get("/api/progress")["items"])


def told(server: Running | RunningHere) -> str:
    return str(server.client.get("/api/progress")["arriving"]["problem"])


def give(server: Running | RunningHere, item: str, number: int) -> None:
    server.client.post("/api/jump", item=item)
    server.client.post("/api/label", item=item, **{"class": number})


def exported(server: Running | RunningHere, what: str = "labels") -> list[dict[str, str]]:
    with urllib.request.urlopen(f"{server.address}api/export?what={what}") as reply:
        return list(csv.DictReader(io.StringIO(reply.read().decode())))


def state(server: Running | RunningHere) -> dict[str, Any]:
    return dict(server.client.get("/api/fingerprint"))


def test_rows_that_are_appended_join_and_stay(inbox: Path, tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text("*late* is not lost")
    with label(tmp_path, *OPTIONS, "--watch", "--fields", "none", "--guidelines", "guide.md") as server:
        give(server, "3", 0)
        append(inbox, rows(30, 40))
        until(lambda: items(server) == 40)
        give(server, "35", 1)
        append(inbox, f"half a row {sentence(40)[:9]}")
        append(inbox, "")  # nobody writes for now
        found = server.client.get("/api/search?q=half")["items"]
        append(inbox, f' and its end,"2\nlines"\n{rows(41, 42)}"open quotes ')
        until(lambda: items(server) == 42)
        assert found == []
        assert server.client.get("/api/items/40")["item"]["text"].endswith("and its end")
        assert server.client.get("/api/search?q=open")["items"] == []
        assert told(server) == ""
        append(inbox, 'end",1\n')
        until(lambda: items(server) == 43)
        assert {row["row"]: row["label"] for row in exported(server)} == {"3": "a", "35": "b"}
        named = {"text": sentence(50), "id": "t50", "fields": {"stars": 4}}
        for joined in (2, 0):  # sent twice counts once
            reply = server.client.post("/api/items", items=[named, {"text": sentence(51)}])
            assert (reply["joined"], reply["items"], reply["ids"][0]) == (joined, 45, "t50")
        for wrong, code in (("other", "409 .id_taken"), (" ", "422 .bad_request")):
            with pytest.raises(EverylabelError, match=code):
                server.client.post("/api/items", items=[{"text": wrong, "id": "t50"}])
        give(server, "t50", 1)
        known = {told["version"]: told["hash"] for told in (state(server) for _ in range(3))}
        server.process.send_signal(signal.SIGKILL)  # the rows are there, and labels, and no clean end
        server.process.wait()
    with label_here("inbox.csv") as server:
        now = state(server)
        assert known.get(now["version"], now["hash"]) == now["hash"]  # to the bit
        assert "<em>late</em>" in server.client.get("/api/session")["guidelines"]  # as last time, and fields
        assert server.client.get("/api/items/3")["item"]["fields"] == []
        labelled = {row["row"]: row["message"] for row in exported(server)}
        assert labelled == {"3": sentence(3), "35": sentence(35), "": sentence(50)}
        assert exported(server)[-1]["stars"] == "4"
        assert items(server) == 45


def test_images_join_when_they_are_whole(tmp_path: Path) -> None:
    folder, rng = tmp_path / "photos", np.random.default_rng(0)
    folder.mkdir()

    def photo(name: str) -> Path:
        path = tmp_path / name
        Image.fromarray(rng.integers(0, 255, (40, 40, 3), np.uint8)).save(path)
        return path

    for i in range(12):
        photo(f"{i:02}.png").rename(folder / f"{i:02}.png")
    with label_here("photos", "--model", "pixels", "--classes", "a,b", "--watch") as server:
        data = photo("half.png").read_bytes()
        (folder / "00 first.png").write_bytes(data[: len(data) // 2])
        photo("new.png").rename(folder / "new.png")
        until(lambda: items(server) == 13)
        assert server.client.get("/api/progress")["arriving"] == {"coming": 1, "joined": 1, "problem": ""}
        (folder / "00 first.png").write_bytes(data)
        until(lambda: items(server) == 14)
        give(server, "00 first.png", 1)
        assert server.client.get("/api/items/00%20first.png")["item"]["image"]
        shutil.copy(folder / "05.png", tmp_path / "kept.png")
        (folder / "05.png").unlink()
        until(lambda: "1 gone: 05.png" in told(server))
    shutil.copy(tmp_path / "kept.png", folder / "05.png")
    with label_here("photos") as server:
        assert items(server) == 14
        assert [(row["id"], row["label"]) for row in exported(server)] == [("00 first.png", "b")]
