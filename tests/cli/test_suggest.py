"""`everylabel suggest` against a real HTTP server that speaks the chat protocol."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from everylabel.cli import app
from everylabel.integrations.chat import Chat, address, find_class, score
from tests.cli.test_label import labelled_reviews

pytestmark = pytest.mark.usefixtures("own_place")
Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]
CLASSES = ("soap", "beans")


class Server(ThreadingHTTPServer):
    """Answers by `rule` and records the requests."""

    daemon_threads = True

    def __init__(self, rule: Callable[[dict[str, Any]], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rule, self.asked, self.lock, self.now, self.most = rule, list[dict[str, Any]](), Lock(), 0, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["key"], body["path"] = self.headers.get("Authorization"), self.path
        with self.server.lock:
            self.server.asked.append(body)
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        status, reply, *headers = self.server.rule(body)
        with self.server.lock:
            self.server.now -= 1
        if status == 0:  # the connection is lost
            self.connection.close()
            return
        data = reply.encode() if isinstance(reply, str) else json.dumps(reply).encode()
        self.send_response(status)
        for name, value in (headers[0] if headers else {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[dict[str, Any]], Reply]], Server]]:
    begun: list[Server] = []

    def start(rule: Callable[[dict[str, Any]], Reply]) -> Server:
        begun.append(Server(rule))
        Thread(target=begun[-1].serve_forever, daemon=True).start()
        return begun[-1]

    yield start
    for server in begun:
        server.shutdown()
        server.server_close()


Serve = Callable[[Callable[[dict[str, Any]], Reply]], Server]


def says(label: str, logprobs: bool = False, text: str | None = None) -> Reply:
    content = json.dumps({"label": label}) if text is None else text
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": content}}
    if logprobs:
        half = len(label) // 2
        parts = [
            ('{"label": "', 0.0),
            (label[:half], math.log(0.8)),
            (label[half:], math.log(0.9)),
            ('"}', -3.0),
        ]
        choice["logprobs"] = {"content": [{"token": token, "logprob": log} for token, log in parts]}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 50, "completion_tokens": 10}}


def right(body: dict[str, Any]) -> Reply:
    text = body["messages"][-1]["content"]
    return says("soap" if "review of soap" in text else "beans", logprobs=bool(body.get("logprobs")))


def texts(folder: Path, n: int = 12) -> Path:
    path = folder / "texts.csv"
    rows = [f"r{i},a review of {CLASSES[i % 2]} number {i}" for i in range(n)]
    path.write_text("id,body\n" + "\n".join(rows) + "\n")
    return path


def suggest(server: Server | str, source: Path, *more: str, yes: bool = True) -> Result:
    url = server if isinstance(server, str) else server.url
    arguments = ["suggest", str(source), "--endpoint", url, "--model", "tiny", "-o", "llm.jsonl", *more]
    return CliRunner().invoke(app, [*arguments, *(["--yes"] if yes else [])])


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("llm.jsonl").read_text().splitlines()]


def test_each_text_gets_a_class_and_a_score(tmp_path: Path, serve: Serve) -> None:
    server = serve(right)
    Path("classes.csv").write_text("name,description\nsoap,it cleans\nbeans,you eat them\n")
    done = suggest(server, texts(tmp_path), "--classes", "classes.csv", "--api-key", "secret")
    assert done.exit_code == 0, done.output
    assert {row["id"]: row["label"] for row in lines()} == {f"r{i}": CLASSES[i % 2] for i in range(12)}
    assert all(row["score"] == pytest.approx(0.72) and row["source"] == "tiny" for row in lines())
    assert "12 new answers in llm.jsonl, 720 tokens" in done.output
    first = server.asked[0]
    assert first["path"] == "/v1/chat/completions"
    assert first["key"] == "Bearer secret"
    assert "- soap: it cleans" in first["messages"][0]["content"]
    schema = first["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["label"]["enum"] == ["soap", "beans"]
    assert "secret" not in Path("llm.jsonl").read_text() + done.output


def test_suggestions_of_a_model_are_read_by_label(tmp_path: Path, serve: Serve) -> None:
    from everylabel.formats.suggestions import read_suggestions
    from everylabel.projects.options import LabelOptions
    from everylabel.projects.project import open_project

    source = texts(tmp_path)
    assert suggest(serve(right), source, "--classes", "soap,beans").exit_code == 0
    project = open_project(source, text_column="body", model="tfidf", classes=CLASSES)
    found = read_suggestions(project, LabelOptions(suggestions=Path("llm.jsonl")), print)
    assert {one.id: one.label for one in found} == {f"r{i}": CLASSES[i % 2] for i in range(12)}
    assert {one.source for one in found} == {"tiny"}


def test_next_command_reads_the_source_in_the_same_way(tmp_path: Path, serve: Serve) -> None:
    source = texts(tmp_path)
    result = suggest(
        serve(right), source, "--classes", "soap,beans", "--text-column", "body", "--id-column", "none"
    )
    told = f"next: everylabel label {source} --suggestions llm.jsonl --text-column body --id-column none"
    assert told in " ".join(result.output.split())


def test_estimate_comes_first_and_needs_a_yes(tmp_path: Path, serve: Serve) -> None:
    server = serve(right)
    prices = ("--input-price", "100", "--output-price", "200")
    refused = suggest(server, texts(tmp_path), "--classes", "soap,beans", *prices, yes=False)
    assert refused.exit_code == 2
    assert "12 requests to tiny: about" in refused.output
    assert "at the given prices" in refused.output
    assert "expected --yes" in refused.output
    assert not server.asked
    assert not Path("llm.jsonl").exists()


def test_stopped_run_continues_and_asks_nothing_twice(tmp_path: Path, serve: Serve) -> None:
    server, source = serve(right), texts(tmp_path)
    options = ("--classes", "soap,beans")
    first = suggest(server, source, *options, "--max-requests", "5")
    assert first.exit_code == 0
    assert "stopped at --max-requests 5" in first.output
    assert len(lines()) == 5
    with Path("llm.jsonl").open("a") as file:
        file.write('{"id": "r9", "lab')  # as a kill leaves it
    second = suggest(server, source, *options)
    assert second.exit_code == 0, second.output
    assert sorted(row["id"] for row in lines()) == sorted(f"r{i}" for i in range(12))
    assert len(server.asked) == 12
    assert "nothing to ask" in suggest(server, source, *options).output
    other = suggest(server, source, "--classes", "soap,beans,tea")
    assert other.exit_code == 2
    assert "holds answers to another prompt, other classes or of another model" in other.output
    assert len(server.asked) == 12


def test_killed_run_loses_at_most_the_requests_under_way(tmp_path: Path, serve: Serve) -> None:
    def slow(body: dict[str, Any]) -> Reply:
        time.sleep(0.02)
        return right(body)

    server, source = serve(slow), texts(tmp_path, 200)
    command = ["suggest", str(source), "--endpoint", server.url, "--model", "tiny", "-o", "llm.jsonl"]
    command += ["--classes", "soap,beans", "--yes", "--parallel", "2"]
    process = subprocess.Popen([sys.executable, "-m", "everylabel.cli", *command], stderr=subprocess.DEVNULL)
    while len(server.asked) < 20:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert suggest(server, source, "--classes", "soap,beans").exit_code == 0
    assert sorted(row["id"] for row in lines()) == sorted(f"r{i}" for i in range(200))
    assert len(server.asked) <= 202


def test_limit_of_tokens_ends_a_run(tmp_path: Path, serve: Serve) -> None:
    done = suggest(
        serve(right), texts(tmp_path), "--classes", "soap,beans", "--max-tokens", "200", "--parallel", "1"
    )
    assert "stopped at --max-tokens 200" in done.output
    assert len(lines()) == 4  # of 60 tokens each


@pytest.mark.parametrize(
    ("refused", "status"),
    [("json_schema", 422), ("response_format", 400), ("logprobs", 500), ("system role", 400)],
)
def test_server_that_refuses_a_part_of_the_request_is_asked_without_it(
    tmp_path: Path, serve: Serve, refused: str, status: int
) -> None:
    def rule(body: dict[str, Any]) -> Reply:
        has_system = body["messages"][0]["role"] == "system"
        if refused in json.dumps(body) or (refused == "system role" and has_system):
            return status, {"error": {"message": f"{refused} is not supported"}}
        return right(body)

    server = serve(rule)
    done = suggest(server, texts(tmp_path), "--classes", "soap,beans")
    assert done.exit_code == 0, done.output
    assert {row["id"]: row["label"] for row in lines()} == {f"r{i}": CLASSES[i % 2] for i in range(12)}
    assert all((row["score"] is None) == (refused == "logprobs") for row in lines())
    assert len(server.asked) <= 15  # it is remembered which requests the server takes
    assert "Classify the text" in server.asked[-1]["messages"][0]["content"]


def test_error_that_passes_is_tried_again_when_the_server_says(serve: Serve) -> None:
    replies: list[Reply] = [
        (429, "slow down", {"Retry-After": "0"}),
        (503, "busy", {"Retry-After": "0"}),
        (0, ""),
    ]
    server = serve(lambda body: replies.pop(0) if replies else right(body))
    chat = Chat(server.url, "tiny", CLASSES, patience=0.01)
    assert chat.ask([{"role": "user", "content": "review of soap"}]).label == "soap"
    assert len(server.asked) == 4


def test_lasting_rate_limit_is_reported_with_advice_to_send_fewer_requests(
    tmp_path: Path, serve: Serve
) -> None:
    server = serve(lambda _: (429, "quota exceeded", {"Retry-After": "0"}))
    done = suggest(server, texts(tmp_path), "--classes", "soap,beans", "--retries", "1")
    assert done.exit_code == 2
    assert "2 tries (429 " in done.output
    assert "quota exceeded" in done.output
    assert "fewer requests at a time (--parallel 1), or the same command later" in done.output


def test_stopped_server_leaves_the_answers_and_the_command_resumes(tmp_path: Path, serve: Serve) -> None:
    count = iter(range(1000))
    server = serve(lambda body: right(body) if next(count) < 6 else (0, ""))
    done = suggest(server, texts(tmp_path), "--classes", "soap,beans", "--retries", "0", "--parallel", "1")
    assert done.exit_code == 2
    assert "does not answer after 1 try" in done.output
    assert "6 answers are in 'llm.jsonl'; the same command continues from there" in done.output
    assert len(lines()) == 6


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ((200, "<html>hello</html>"), "expected JSON of a chat server"),
        ((200, {"answer": 1}), "expected `choices` with a `message`"),
        ((401, {"error": "no key"}), "refuses the key (401"),
        ((404, {"error": "no such model"}), "check --endpoint and --model"),
    ],
)
def test_nonsense_of_a_server_is_quoted(tmp_path: Path, serve: Serve, reply: Reply, told: str) -> None:
    done = suggest(serve(lambda _: reply), texts(tmp_path), "--classes", "soap,beans", "--retries", "0")
    assert done.exit_code == 2
    assert told in done.output


def test_model_that_names_no_class_is_stopped_and_single_answers_are_kept(
    tmp_path: Path, serve: Serve
) -> None:
    source = texts(tmp_path, 40)
    odd = serve(
        lambda body: right(body) if "number 3" not in body["messages"][-1]["content"] else says("", text="?")
    )
    done = suggest(odd, source, "--classes", "soap,beans")
    assert done.exit_code == 0
    without = [row for row in lines() if row["label"] is None]
    assert len(without) == 11  # 3 and 30 to 39
    assert {row["answer"] for row in without} == {"?"}
    assert "11 answers name no class" in done.output
    Path("llm.jsonl").unlink()
    never = suggest(serve(lambda _: says("", text="I like it")), source, "--classes", "soap,beans")
    assert never.exit_code == 2
    assert "20 answers in a row name no class, the last is 'I like it'" in never.output


def test_text_that_the_server_refuses_does_not_end_the_run(tmp_path: Path, serve: Serve) -> None:
    server = serve(
        lambda body: (400, "too long") if body["messages"][-1]["content"].endswith(" 7") else right(body)
    )
    done = suggest(server, texts(tmp_path), "--classes", "soap,beans")
    assert done.exit_code == 0, done.output
    assert [row["id"] for row in lines() if row["label"] is None] == ["r7"]
    assert "too long" in next(row["answer"] for row in lines() if row["id"] == "r7")
    assert "response_format" in server.asked[-1]  # and other texts are asked about as before


def test_requests_run_at_the_same_time(tmp_path: Path, serve: Serve) -> None:
    def slow(body: dict[str, Any]) -> Reply:
        time.sleep(0.1)
        return right(body)

    server = serve(slow)
    assert suggest(server, texts(tmp_path, 13), "--classes", "soap,beans", "--parallel", "3").exit_code == 0
    assert server.most == 3


def test_labels_of_the_project_are_examples_and_not_asked_about(tmp_path: Path, serve: Serve) -> None:
    source, server = labelled_reviews(tmp_path), serve(right)
    done = suggest(server, source, "--examples", "2")
    assert done.exit_code == 0, done.output
    messages = server.asked[0]["messages"]
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert {json.loads(one["content"])["label"] for one in messages[2:5:2]} == {"soap", "beans"}
    asked = {body["messages"][-1]["content"] for body in server.asked}
    assert asked.isdisjoint(one["content"] for one in messages[1:4:2])
    assert "- soap" in messages[0]["content"]  # classes of the project


def test_own_prompt_says_where_classes_go(tmp_path: Path, serve: Serve) -> None:
    server = serve(right)
    Path("ask.md").write_text("Which of these?\n{classes}\nThink of the product.")
    assert suggest(server, texts(tmp_path), "--classes", "soap,beans", "--prompt", "ask.md").exit_code == 0
    system = server.asked[0]["messages"][0]["content"]
    assert system.startswith(
        "Which of these?\nClasses:\n- soap\n- beans\nThink of the product.\n\nAnswer with JSON"
    )


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    source = texts(tmp_path)
    assert "--classes names 0 classes" in suggest("http://localhost:1", source).output
    assert "--endpoint is 'localhost'" in suggest("localhost", source, "--classes", "a,b").output
    both = ("--classes", "a,b", "--examples", "3")
    assert "has no labels of these classes" in suggest("http://localhost:1", source, *both).output


def test_addresses_and_answers_are_understood() -> None:
    assert address("http://h:1") == address("http://h:1/v1/") == "http://h:1/v1/chat/completions"
    assert address("https://h/api/chat/completions") == "https://h/api/chat/completions"
    names = ["no", "not spam", "spam"]
    assert find_class('```json\n{"label": "Spam"}\n```', names) == "spam"
    assert find_class("**Not spam**.", names) == "not spam"
    assert find_class("This is not spam", names) == "not spam"
    assert find_class("no or spam", names) is None
    assert find_class('{"label": "ham"}', names) is None
    tokens = [
        {"token": "not", "logprob": -1.0},
        {"token": " spam", "logprob": -0.5},
        {"token": ".", "logprob": -9},
    ]
    assert score("not spam.", "not spam", {"content": tokens}) == pytest.approx(math.exp(-1.5))
    assert score("spam", "spam", None) is None
