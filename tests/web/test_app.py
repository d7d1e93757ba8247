"""The HTTP API of a real server on loopback: replies, errors, access, and random requests."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import positive_data_acceptance
from starlette.responses import Response

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import no_labels
from everylabel.data.display import Texts
from everylabel.data.items import Items, Options
from everylabel.formats.records import QueueTarget
from everylabel.labelling.state.state import LabelSet
from everylabel.projects.folder import Remembered
from everylabel.projects.project import Project
from everylabel.web.access import Tokens
from everylabel.web.arrivals import Arrivals
from everylabel.web.downloads import Downloads, file_reply
from everylabel.web.item_view import ItemView
from everylabel.web.server import PAGE, make_app
from tests.labelling.desks import FEATURES, IDS, N, service, truth
from tests.web.servers import served


class Numbered(Texts):
    """Texts that need care in a page, one with an image."""

    def item(self, i: int) -> dict[str, Any]:
        return {**super().item(i), "image": i == 1}

    def picture(self, i: int) -> tuple[bytes, str]:
        if i != 1:
            raise EverylabelError("image 'x.png' cannot be read")
        return b"png", "image/png"

    def digest(self, i: int) -> str:
        return "1234"


ITEMS = Items(
    FEATURES,
    "text",
    IDS,
    no_labels(N),
    display=Numbered([f"<b>number {i}</b>" for i in range(N)]),
    own_ids=IDS,
)


class Files(Downloads):
    """A minimal set of downloads."""

    def __init__(self) -> None:
        pass

    def export(
        self, snapshot: LabelSet, what: str, form: str, columns: Sequence[str] | None, of: QueueTarget
    ) -> Response:
        lines = (f"{i},{label}\n".encode() for i, label in snapshot.labels.items())
        return file_reply(lines, "text/csv", "labels.csv")

    def model(self, snapshot: LabelSet, form: str) -> Response:
        return file_reply((name.encode() for name in snapshot.classes), "text/plain", "model.txt")

    def layout(self) -> tuple[np.ndarray, str]:
        return FEATURES[:, :2], "pca"


@contextmanager
def server(path: Path, token: str | None = None, **settings: Any) -> Iterator[str]:
    """Yield the address of a real server."""
    with service(path, **settings) as made:
        about = Remembered("digits", "digits", Options())
        own = {"about": about, "features": FEATURES, "folder": path.parent}
        project = Project(**vars(ITEMS) | own)
        shown = ItemView(project)
        arrivals, tokens = Arrivals(made.desk, shown, print), None if token is None else Tokens(token)
        app = make_app(made, shown, Files(), arrivals, tokens=tokens)
        with served(uvicorn.Config(app, log_level="warning")) as port:
            yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        server(tmp_path_factory.mktemp("app") / "log") as url,
        httpx.Client(base_url=url, timeout=120) as made,
    ):
        yield made


def post(client: httpx.Client, path: str, status: int = 200, **body: Any) -> Any:
    reply = client.post(f"/api/{path}", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


def test_a_round_of_labelling(client: httpx.Client) -> None:
    task = post(client, "next", person="anna")["next"]
    for _ in range(12):
        item = task["item"]["id"]
        reply = post(client, "label", person="anna", item=item, **{"class": truth(item)})
        task = reply["next"]
    assert reply["progress"]["people"][0]["name"] == "anna"
    assert post(client, "undo", person="anna")["next"]["item"]["id"] == item
    assert post(client, "skip", person="anna", item=item)["saved"] > reply["saved"]
    progress = client.get("/api/progress", params={"person": "anna"}).json()
    assert progress["labelled"] == 11
    assert [point["labels"] for point in progress["curve"]][-1] == 11
    assert sum(c["predicted"] for c in progress["classes"]) == N
    events = client.get("/api/history").json()["events"]
    assert [event["kind"] for event in events[:3]] == ["skip", "label", "label"]
    assert events[1]["undone"]
    assert events[0]["text"].startswith("<b>number")
    session = client.get("/api/session").json()
    assert session["project"] == "digits"
    assert {s["name"] for s in session["strategies"]} >= {"lookahead", "random"}
    found = client.get("/api/search", params={"q": "NUMBER 17"}).json()["items"]
    assert [hit["id"] for hit in found][:3] == ["digit 17", "digit 117", "digit 170"]
    shown = client.get("/api/items/digit 1").json()
    assert shown["item"]["id"] == "digit 1"
    assert len(shown["probabilities"]) == 10
    some = client.get("/api/predictions", params={"offset": 5, "limit": 7}).json()
    assert len(some["ids"]) == 7
    assert some["total"] == N - 11
    np.testing.assert_allclose(np.sum(some["probabilities"], axis=1), 1.0, atol=1e-4)
    points = client.get("/api/map").json()
    assert len(points["ids"]) == N
    assert sum(label is not None for label in points["label"]) == 11
    assert client.get("/api/image/digit%201").content == b"png"
    assert len(client.get("/api/export").text.splitlines()) == 11


def test_a_queue_of_a_class_by_number_or_name(tmp_path: Path) -> None:
    names = [f"digit {i}" for i in range(10)]
    with server(tmp_path / "log", classes=names) as url, httpx.Client(base_url=url, timeout=120) as client:
        for i in range(20):
            post(client, "label", person="anna", item=IDS[i], **{"class": truth(IDS[i])})
        counts = [
            client.get("/api/queues", params={"class": each}).json()["queues"] for each in ("3", "digit 3")
        ]
        assert counts[0] == counts[1]
        found = client.get("/api/queues/more", params={"class": "digit 3"}).json()
        assert found["count"] == {each["name"]: each["count"] for each in counts[0]}["more"] > 0
        assert {each["name"]: each["count"] for each in counts[0]}["suspect"] is None  # no estimate yet
        suspect = client.get("/api/queues/suspect").json()
        assert (suspect["count"], suspect["expected_errors"]) == (None, None)
        told = client.get("/api/queues", params={"class": "digit"})
        assert told.status_code == 422
        assert "class is 'digit'; expected 0 to 9 or a class's name" in told.text


def test_people_come_and_go(client: httpx.Client) -> None:
    assert post(client, "here", person="zora", browser="b", tab="t")["ask"] is False
    assert post(client, "here", named=False, browser="c", tab="u")["ask"]
    post(client, "next", person="zora")
    told = client.get("/api/progress").json()["people"]
    assert [each["here"] for each in told if each["name"] == "zora"] == [True]
    assert post(client, "leave", tab="t")["known"]
    told = client.get("/api/progress").json()["people"]
    assert [each["here"] for each in told if each["name"] == "zora"] == [False]
    assert client.get("/as/zora").text == client.get("/").text


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("label", {"item": "x", "class": 1}, 404, "item is 'x'; expected an id of this project"),
        ("label", {"item": "digit 1", "class": 99}, 422, "class is 99; expected 0 to 9"),
        ("label", {"item": "digit 1"}, 422, "class: Field required"),
        ("label", {"item": "digit 1", "class": 1, "colour": 2}, 422, "colour: Extra inputs"),
        (
            "label",
            {"item": "digit 1", "class": 1, "person": " "},
            422,
            "person: String should have at least 1",
        ),
        (
            "label",
            {"item": "digit 1", "class": 1, "person": "x" * 65},
            422,
            "person: String should have at most",
        ),
        *(
            (
                "label",
                {"item": "digit 1", "class": wrong},
                422,
                "class: expected a class's number or name; see",
            )
            for wrong in (None, -1, True, 1.5, [1])
        ),
        ("undo", {"saved": -1}, 422, "saved: Input should be greater than or equal to 0; see"),
        ("next", {"person": "a\0b"}, 422, "person: expected no control characters"),
        ("next", {"person": "a\x85b"}, 422, "person: expected no control characters"),
        ("skip", {"item": "digit 1", "key": "k\0"}, 422, "key: expected no control characters"),
        ("next", {"person": 5}, 422, "person: Input should be a valid string"),
        ("undo", {"person": "nobody"}, 409, "nobody has given no answer"),
        ("classes", {"name": ""}, 422, "name is ''"),
        (
            "suggestions",
            {
                "source": "llm",
                "suggestions": [
                    {"item": "digit 1", "class": 1},
                    {"item": "digit 2", "class": 1, "score": 82},
                ],
            },
            422,
            "suggestions[1].score: Input should be less than or equal to 1",
        ),
    ],
)
def test_bad_requests_are_explained(
    client: httpx.Client, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    assert message in post(client, path, status, **body)["error"]["message"]


def test_a_key_sent_again_with_another_payload_is_a_conflict(client: httpx.Client) -> None:
    body: dict[str, Any] = {"person": "key", "item": "digit 7", "key": "of a label"}
    saved = post(client, "label", **{**body, "class": 1})["saved"]
    assert post(client, "label", **{**body, "class": "1"})["saved"] == saved  # the same class by its name
    assert post(client, "label", 409, **{**body, "class": 2})["error"]["code"] == "key_used"
    jump: dict[str, Any] = {"person": "key", "item": "digit 8", "key": "of a jump"}
    assert post(client, "jump", **jump) == post(client, "jump", **jump)
    reply = post(client, "classes", 409, person="key", name="x", key="of a label")
    assert reply["error"]["code"] == "key_used"


def test_pages_of_predictions_continue_after_the_last(client: httpx.Client) -> None:
    found, query = [], {"limit": 70}
    while True:
        page = client.get("/api/predictions", params=query).json()
        found += page["ids"]
        if page["after"] is None:
            break
        query["after"] = page["after"]
    assert len(found) == len(set(found)) == page["total"]


def test_invalid_json_is_refused(client: httpx.Client) -> None:
    json = {"content-type": "application/json"}
    assert client.post("/api/next", content=b"{", headers=json).status_code == 422
    assert client.post("/api/next", content=b"\xff\xfe", headers=json).status_code in (400, 422)
    assert client.post("/api/next", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/api/next", data={"person": "x"}).status_code == 415
    assert client.post("/api/next", content=b"x" * 1_000_001, headers=json).status_code == 413
    chunks = (b"x" * 100_000 for _ in range(20))  # without a length
    assert client.post("/api/next", content=chunks, headers=json).status_code == 413
    assert client.get("/api/nothing").json()["error"]["message"] == "Not Found"


@pytest.mark.parametrize("path", ["session", "progress", "history"])
def test_no_control_characters_in_a_query(client: httpx.Client, path: str) -> None:
    reply = client.get(f"/api/{path}", params={"person": "a\0b"})
    assert reply.status_code == 422
    assert reply.json()["error"]["message"].startswith("person: expected no control characters")


def test_an_image_that_is_gone_is_reported(client: httpx.Client) -> None:
    reply = client.get("/api/image/digit%202")
    assert reply.status_code == 404
    assert "cannot be read" in reply.json()["error"]["message"]


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%00", "/etc/passwd"])
def test_paths_cannot_leave_the_served_folder(client: httpx.Client, path: str) -> None:
    assert client.get(f"/api/image/{path}").status_code == 404
    assert client.get(f"/static/{path}").status_code == 404


def test_sixteen_people_behind_one_address_open_the_page(tmp_path: Path) -> None:
    paths = ["/", *(f"/static/{file.name}" for file in PAGE.iterdir()), "/api/session", "/api/progress"]
    statuses: list[int] = []

    def load(url: str) -> None:
        with httpx.Client(base_url=url, timeout=60, headers={"authorization": "Bearer secret"}) as client:
            statuses.extend(client.get(path).status_code for path in paths)

    with server(tmp_path / "log", token="secret") as url:
        threads = [threading.Thread(target=load, args=(url,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 16 * len(paths)
    assert len(statuses) > 350


def test_the_description_holds_every_path(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    names = "next label undo skip cannot_tell jump classes progress predictions export history search map"
    assert {f"/api/{name}" for name in names.split()} <= set(paths)


def test_people_who_label_at_once_never_get_the_same_item(tmp_path: Path) -> None:
    with server(tmp_path / "log") as url:
        items: list[list[str]] = [[] for _ in range(6)]

        def work(who: int) -> None:
            with httpx.Client(base_url=url, timeout=60) as client:
                task = post(client, "next", person=f"p{who}")["next"]
                for _ in range(10):
                    items[who].append(task["item"]["id"])
                    body: Any = {"item": items[who][-1], "class": truth(items[who][-1])}
                    task = post(client, "label", person=f"p{who}", **body)["next"]

        threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        handed = [item for own in items for item in own]
        assert len(handed) == len(set(handed)) == 60
        assert set(handed) <= set(IDS)


# a class that is not there is as described, and refused all the same
def test_every_request_is_answered_as_openapi_describes(client: httpx.Client) -> None:
    description = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    operations: list[Any] = [result.ok() for result in description.get_all_operations()]  # type: ignore
    assert len(operations) > 15
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def send(case: Any) -> None:
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        send()


@pytest.mark.parametrize("name", ["import", " Import ", "ｉmport", "ＩＭＰＯＲＴ", "𝐢𝐦𝐩𝐨𝐫𝐭"])
def test_name_of_the_importer_is_refused(client: httpx.Client, name: str) -> None:
    message = post(client, "next", 422, person=name)["error"]["message"]
    assert "the name of imported labels; expected another name" in message


JOINED = {
    "Persian": "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",
    "Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd2\u0dba\u0dcf\u0db1\u0dd2",
    "Hindi": "\u0915\u094d\u200d\u0937\u092e\u093e",
    "Malayalam": "\u0d05\u0d35\u0d28\u0d4d\u200d",  # the joiner ends it
    "Malayalam, two words": "\u0d05\u0d35\u0d28\u0d4d\u200d B",
    "Bengali": "\u09b0\u200d\u09cd\u09af\u09be\u09ac",  # before the virama
    "Kannada": "\u0c95\u0ccd\u200c",
    "emoji": "\U0001f469\u200d\U0001f4bb",
    "emoji of a skin tone": "\U0001f469\U0001f3fd\u200d\U0001f4bb",
    "emoji of a variant": "\u2764\ufe0f\u200d\U0001f525",
}


@pytest.mark.parametrize("name", JOINED.values(), ids=JOINED)
def test_letters_that_a_name_joins_are_fine(client: httpx.Client, name: str) -> None:
    assert post(client, "next", person=name)["next"]


def test_names_with_composed_and_decomposed_accents_are_equal(client: httpx.Client) -> None:
    item = post(client, "next", person="Rene\u0301")["next"]["item"]["id"]
    assert post(client, "next", person="Ren\u00e9")["next"]["item"]["id"] == item
    post(client, "label", person="Rene\u0301", item=item, **{"class": truth(item)})
    for name in ("Rene\u0301", "Ren\u00e9"):
        events = client.get("/api/history", params={"person": name}).json()["events"]
        assert [(event["person"], event["item"]) for event in events] == [("Ren\u00e9", item)]


def test_lists_are_made_beside_the_requests_of_others(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def digest(*_: object) -> str:
        asked.set()
        assert answered.wait(60)  # for a request that comes while an image is looked at
        return "1234"

    monkeypatch.setattr(Numbered, "digest", digest)
    with ThreadPoolExecutor(1) as beside:
        shown = beside.submit(client.post, "/api/queues/shown", json={"items": ["digit 1"]})
        assert asked.wait(60)
        assert client.get("/api/health").json() == {"ok": True}
        answered.set()
        assert shown.result().status_code == 200


def test_replies_but_pictures_are_compressed(client: httpx.Client) -> None:
    reply = client.get("/static/style.css")
    assert reply.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in client.get("/static/style.css", headers={"accept-encoding": ""}).headers
    assert "content-encoding" not in client.get("/api/image/digit%201").headers
    assert "content-encoding" not in client.get("/api/health").headers  # too small to gain anything
