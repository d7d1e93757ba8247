"""A small Label Studio on loopback: the parts of its API that the backend uses, and its webhooks."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
CONFIGURATION = """<View><Header value="What is it?"/><View><Text name="text" value="$text"/></View>
<Choices name="kind" toName="text" choice="single"><Choice value="fruit"/><Choice value="animal"/>
<Choice value="größe &amp; 大きさ"/></Choices></View>"""
TOKEN = "0123456789abcdef0123456789abcdef01234567"


class LabelStudio:
    """One project with tasks; it sends webhooks about all actions unless `telling` is off."""

    def __init__(self, texts: list[str], configuration: str = CONFIGURATION, number: int = 7) -> None:
        self.number, self.token = number, TOKEN
        self.project: Json = {
            "id": number,
            "title": "trial",
            "label_config": configuration,
            "sampling": "Sequential",
        }
        self.project["model_version"] = ""
        self.tasks: dict[int, Json] = {}
        self.annotations: dict[int, Json] = {}
        self.predictions: list[Json] = []
        self.webhooks: list[Json] = []
        self.backends: list[Json] = []
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.broken = 0  # requests to be answered by 503
        self.losing = 0  # annotations that are made, and acknowledged by an error
        self.connecting = 0.0  # seconds that it takes to connect a model
        self.telling = True
        self._ids, self._clock = count(1), datetime(2026, 11, 15, 19, 45, tzinfo=UTC)
        self._lock = threading.RLock()
        self.add_tasks([{"text": text} for text in texts])
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def now(self) -> str:
        self._clock += timedelta(milliseconds=137)
        return self._clock.isoformat().replace("+00:00", "Z")

    def add_tasks(self, data: list[Json]) -> list[int]:
        with self._lock:
            new = [next(self._ids) + 100 for _ in data]
            for number, each in zip(new, data, strict=True):
                self.tasks[number] = {"id": number, "data": each, "project": self.number}
        self.tell({"action": "TASKS_CREATED", "tasks": [self.tasks[number] for number in new]})
        return new

    def delete_tasks(self, *numbers: int) -> None:
        with self._lock:
            for number in numbers:
                del self.tasks[number]
            gone = [key for key, each in self.annotations.items() if each["task"] in numbers]
            for key in gone:
                del self.annotations[key]
        self.tell({"action": "TASKS_DELETED", "tasks": [{"id": number} for number in numbers]})

    def annotate(self, task: int, choice: str | list[str] | None, user: int = 1, **more: Any) -> int:
        """Make an annotation as the page does; choice None: without a choice."""
        number, at = next(self._ids), self.now()
        stored = {
            "id": number,
            "task": task,
            "project": self.number,
            "completed_by": user,
            "result": result(choice),
        }
        stored |= {"was_cancelled": False, "ground_truth": False, "created_at": at, "updated_at": at}
        with self._lock:
            self.annotations[number] = {**stored, "unique_id": f"unique {number}", **more}
        self.tell_of("ANNOTATION_CREATED", number)
        return number

    def skip(self, task: int, user: int = 1) -> int:
        return self.annotate(task, None, user, was_cancelled=True)

    def update(self, number: int, choice: str | list[str] | None, **more: Any) -> None:
        with self._lock:
            self.annotations[number] |= {"result": result(choice), "updated_at": self.now(), **more}
        self.tell_of("ANNOTATION_UPDATED", number)

    def delete(self, *numbers: int) -> None:
        with self._lock:
            for number in numbers:
                del self.annotations[number]
        self.tell({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number} for number in numbers]})

    def payload(self, action: str, number: int) -> Json:
        stored = self.annotations[number]
        return {
            "action": action,
            "annotation": dict(stored),
            "task": self.tasks[stored["task"]],
            "project": self.about(),
        }

    def tell_of(self, action: str, number: int) -> None:
        self.tell(self.payload(action, number))

    def tell(self, payload: Json) -> None:
        """Send a webhook once, without retries, as Label Studio does."""
        if self.telling:
            for hook in self.webhooks:
                data = json.dumps({"project": self.about(), **payload}).encode()
                headers = {"content-type": "application/json", **(hook.get("headers") or {})}
                with (
                    suppress(OSError),
                    urllib.request.urlopen(
                        urllib.request.Request(hook["url"], data, headers), timeout=60
                    ) as reply,
                ):
                    reply.read()

    def about(self) -> Json:
        return {**self.project, "task_number": len(self.tasks)}

    def next_task(self) -> int | None:
        """Return the task that uncertainty sampling shows next to the one annotator."""
        version = self.project["model_version"]
        done = {each["task"] for each in self.annotations.values()}
        scores = {
            each["task"]: each["score"]
            for each in self.predictions
            if each["model_version"] == version and each["task"] in self.tasks and each["task"] not in done
        }
        return min(scores, key=lambda task: scores[task], default=None)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        routes: dict[tuple[str, str], Callable[[], Any]] = {
            ("GET", f"/api/projects/{self.number}/"): self.about,
            ("PATCH", f"/api/projects/{self.number}/"): lambda: self._change(body),
            ("GET", "/api/tasks/"): lambda: self._page(query),
            ("GET", f"/api/projects/{self.number}/export"): self._export,
            ("POST", f"/api/projects/{self.number}/import/predictions"): lambda: self._predicted(body),
            ("GET", "/api/predictions/"): lambda: self.predictions,
            ("GET", "/api/webhooks/"): lambda: self.webhooks,
            ("POST", "/api/webhooks/"): lambda: self._add(self.webhooks, body),
            ("GET", "/api/ml/"): lambda: self.backends,
        }
        if method == "DELETE" and path.startswith("/api/predictions/"):
            self.predictions = [each for each in self.predictions if str(each["id"]) != path.split("/")[3]]
            return 204, None
        if method == "DELETE" and path.startswith("/api/annotations/"):
            number = int(path.split("/")[3])
            if number not in self.annotations:
                return 404, {"detail": "Not found."}
            self.delete(number)
            return 204, None
        if (method, path) == ("POST", "/api/ml/"):
            return 201, self._connect(body)
        if method == "POST" and path.endswith("/annotations/"):
            return self._annotated(int(path.split("/")[3]), body)
        if path in self.files:
            return 200, self.files[path]
        if (method, path) not in routes:
            return 404, {"detail": "Not found."}
        with self._lock:
            return 200, routes[method, path]()

    def _annotated(self, task: int, body: Json) -> tuple[int, Any]:
        if any(each["unique_id"] == body["unique_id"] for each in self.annotations.values()):
            return 409, {"detail": "Annotation with this unique id already exists"}
        if task not in self.tasks:
            return 404, {"detail": "Not found."}
        number = self.annotate(task, None, **body)  # tells of it before it answers
        answer = dict(self.annotations[number])
        if self.losing:
            self.losing -= 1
            return 503, {"detail": "the answer was lost"}
        return 201, {name: value for name, value in answer.items() if name != "unique_id"}

    def _change(self, body: Json) -> Json:
        self.project |= body
        return self.about()

    def _page(self, query: dict[str, str]) -> Json:
        (wanted,) = json.loads(query["query"])["filters"]["items"] if "query" in query else [{"value": 0}]
        tasks = [task for number, task in self.tasks.items() if number > wanted["value"]]
        page, size = int(query["page"]), int(query["page_size"])
        return {"tasks": tasks[(page - 1) * size : page * size], "total": len(tasks)}

    def _export(self) -> list[Json]:
        found: dict[int, list[Json]] = {}
        for each in self.annotations.values():
            found.setdefault(each["task"], []).append(each)
        return [{**self.tasks[task], "annotations": given} for task, given in found.items()]

    def _predicted(self, body: list[Json]) -> Json:
        assert all(each["task"] in self.tasks for each in body)
        self.predictions += [{**each, "id": next(self._ids)} for each in body]
        return {"created": len(body)}

    def _add(self, to: list[Json], body: Json) -> Json:
        to.append({**body, "id": next(self._ids)})
        return to[-1]

    def _connect(self, body: Json) -> Json:
        with urllib.request.urlopen(_authorized(body["url"] + "/health", body), timeout=60) as reply:
            assert reply.status == 200
        version = self.project["model_version"]  # read now and saved later, whatever is made of it meanwhile
        time.sleep(self.connecting)
        self.project["model_version"] = version or body["title"]
        return self._add(self.backends, body)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        studio = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                studio.requests.append((self.command, self.path))
                length = int(self.headers.get("content-length") or 0)
                text = self.rfile.read(length)
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if studio.broken:
                    studio.broken -= 1
                    status, reply = 503, {"detail": "later"}
                elif self.headers.get("authorization") != f"Token {studio.token}":
                    status, reply = 401, {"detail": "Invalid token."}
                else:
                    status, reply = studio.answer(
                        self.command, parts.path, query, json.loads(text or b"null")
                    )
                content = (
                    reply
                    if isinstance(reply, bytes)
                    else b""
                    if status == 204
                    else json.dumps(reply).encode()
                )
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _authorized(url: str, body: Json) -> urllib.request.Request:
    import base64

    request = urllib.request.Request(url)
    if "basic_auth_user" in body:
        both = f"{body['basic_auth_user']}:{body['basic_auth_pass']}".encode()
        request.add_header("authorization", f"Basic {base64.b64encode(both).decode()}")
    return request


def result(choice: str | list[str] | None) -> list[Json]:
    choices = [choice] if isinstance(choice, str) else choice
    if not choices:
        return []
    return [{"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": choices}}]
