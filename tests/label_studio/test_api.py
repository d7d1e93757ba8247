"""The client of Label Studio's API: tokens of both kinds, refusals; and who may talk to the backend."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from everylabel.label_studio.api import Api, ApiError
from everylabel.label_studio.backend import authorization, make_backend, password_of
from everylabel.label_studio.service import SAMPLING, register
from tests.label_studio.running import running
from tests.label_studio.stand_in import TOKEN, LabelStudio

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJ0b2tlbl90eXBlIjoicmVmcmVzaCJ9.c2lnbmF0dXJl"


def test_personal_access_token_is_exchanged_and_renewed() -> None:
    seen: list[str] = []
    access = ["first", "second"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert told == {"refresh": JWT}
            self._answer(200, {"access": access[0]})

        def do_GET(self) -> None:
            seen.append(self.headers["authorization"])
            fine = self.headers["authorization"] == f"Bearer {access[0]}"
            self._answer(200 if fine else 401, {"id": 7} if fine else {"detail": "expired"})

        def _answer(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    api = Api(f"http://127.0.0.1:{server.server_address[1]}/", JWT)
    assert api.project(7) == api.project(7) == {"id": 7}
    access.pop(0)  # it lives for minutes only
    assert api.project(7) == {"id": 7}
    assert seen == ["Bearer first", "Bearer first", "Bearer first", "Bearer second"]
    server.shutdown()
    server.server_close()


def test_refusals_and_timeouts_are_reported(studio: LabelStudio) -> None:
    with pytest.raises(
        ApiError, match=r"gave 401 .*sent as a legacy token; expected one of Account & Settings"
    ):
        Api(studio.url, "wrong").project(7)
    with pytest.raises(ApiError, match=r"/api/projects/8/ gave 404: .*Not found"):
        Api(studio.url, TOKEN).project(8)
    with pytest.raises(ApiError, match=r"at http://127.0.0.1:9 does not answer"):
        Api("127.0.0.1:9", TOKEN).project(7)
    with pytest.raises(EverylabelError, match=r"--url is 'ftp://x'; expected http://address:port"):
        Api("ftp://x", TOKEN)
    studio.broken = 1
    assert Api(studio.url, TOKEN).project(7)["id"] == 7


def test_registering_twice_changes_nothing(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        assert (len(studio.webhooks), len(studio.backends)) == (1, 1)
        assert studio.webhooks[0]["url"] == f"{made.address}/webhook"
        assert studio.project["sampling"] == SAMPLING
        assert register(made.project.api, studio.number, made.address + "/") == []
        assert (len(studio.webhooks), len(studio.backends)) == (1, 1)


def test_backend_with_a_password_refuses_others(studio: LabelStudio, tmp_path: Path) -> None:
    password = password_of(TOKEN)
    with running(studio, tmp_path, password=password) as made:
        task = next(iter(studio.tasks))
        studio.annotate(task, "fruit")  # its webhook has the password
        assert made.labels() == {str(task): "fruit"}
        body = {"tasks": [], "project": "7.1"}
        assert made.post("/predict", body)[0] == 401
        wrong = {"authorization": "Basic " + base64.b64encode(b"everylabel:wrong").decode()}
        assert made.post("/predict", body, wrong)[0] == 401
        assert made.post("/predict", body, {"authorization": authorization(password)}) == (
            200,
            {"results": []},
        )
    assert password != password_of("another token")
    assert password != password_of(TOKEN, "page 7")


def test_several_projects_in_one_process(studio: LabelStudio, tmp_path: Path) -> None:
    other = LabelStudio(["a stone is hard", "a pillow is soft"] * 10, number=8)
    with running(studio, tmp_path) as seven, running(other, tmp_path) as eight:
        projects = {7: seven.project, 8: eight.project}
        backend = TestClient(make_backend(projects), base_url="http://127.0.0.1")
        for each, choice in ((studio, "fruit"), (other, "animal")):
            each.telling = False
            number = each.annotate(next(iter(each.tasks)), choice)
            assert (
                backend.post("/webhook", json=each.payload("ANNOTATION_CREATED", number)).status_code == 200
            )
        assert (set(seven.labels().values()), set(eight.labels().values())) == ({"fruit"}, {"animal"})
        assert len(backend.get("/versions").json()["versions"]) == 2
        reply = backend.post("/webhook", json={"action": "START_TRAINING", "project": {"id": 9}})
        assert (reply.status_code, reply.json()["error"]["message"][-7:]) == (404, "r: 7, 8")
        all_gone = backend.post("/webhook", json={"action": "TASKS_DELETED", "tasks": [{"id": 1}]})
        assert all_gone.json() == {"status": "asked"}
    assert {path.name for path in tmp_path.glob("*.everylabel")} == {
        "label-studio-7.everylabel",
        "label-studio-8.everylabel",
    }
    other.close()


def test_requests_of_a_web_page_are_refused(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        body = {"action": "ANNOTATION_CREATED", "project": 7}
        assert made.post("/webhook", body, {"content-type": "text/plain"})[0] == 415
        assert made.post("/webhook", body, {"host": "evil.example:80"})[0] == 403


def test_unsupported_project_is_refused_in_one_line(tmp_path: Path) -> None:
    studio = LabelStudio([], '<View><Audio name="a" value="$a"/></View>')

    def told(*more: str) -> str:
        start = ["label-studio", "--url", studio.url, "--token", TOKEN, "--project", "7", "--port", "0"]
        result = CliRunner().invoke(app, [*start, "--folder", str(tmp_path), *more])
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        return line

    assert "has no <Choices>; supported is one <Choices" in told()
    studio.project["label_config"] = LabelStudio([]).project["label_config"]
    assert "project 7 of Label Studio has no tasks; import some there first" in told()
    assert "--control is 'mood'; expected a <Choices> of the labelling configuration: kind" in told(
        "--control", "mood"
    )
    assert list(tmp_path.glob("*")) == []
    studio.close()
