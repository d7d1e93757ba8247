"""A client of servers with OpenAI's chat protocol, which are asked which class a text has.

The answer is constrained by a JSON schema and comes with log-probabilities. If a server refuses one of
these, it is left out from then on. After a temporary error (429, 5xx, a lost
connection) the request is repeated after 1, 2, 4 ... seconds, or when the server says.
"""

import http.client
import json
import math
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, counted

PATH = "/chat/completions"
MOST_OUT = 200  # tokens of an answer: a class's name has fewer
LONGEST_WAIT = 60.0  # seconds between two tries
REFUSES = (400, 404, 415, 422, 501)  # a server that does not know a part of the request
TOO_MANY = 429
WAITS = (408, 409, 425, TOO_MANY)  # besides 5xx: may pass
QUOTED = 200  # characters of an answer in an error
Message = dict[str, str]


class Unavailable(EverylabelError):
    """The server cannot be reached or refuses all requests, so that further requests are useless."""


class ChatAnswer(NamedTuple):
    """A server's answer to one question."""

    label: str | None  # None if it names no class
    score: float | None  # probability of the class by the server
    tokens: tuple[int, int]  # in question and answer; estimated if the server does not report them
    text: str  # the unparsed answer


def schema(classes: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of an answer."""
    one = {"type": "string", "enum": list(classes)}
    return {
        "type": "object",
        "properties": {"label": one},
        "required": ["label"],
        "additionalProperties": False,
    }


def _by_schema(classes: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": schema(classes)},
    }


def _by_object(classes: Sequence[str]) -> dict[str, Any]:
    return {"type": "json_object", "schema": schema(classes)}  # llama.cpp reads the schema, others do not


FORMS = (_by_schema, _by_object, None)  # `response_format`: the first that the server accepts


class Chat:
    """A model behind an endpoint; any number of threads may ask.

    patience : seconds before the second try; twice as long before each further one
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        classes: Sequence[str],
        *,
        key: str | None = None,
        retries: int = 5,
        timeout: float = 120.0,
        patience: float = 1.0,
    ) -> None:
        self.url, self.model, self.classes = address(endpoint), model, tuple(classes)
        self.key, self.retries, self.timeout, self.patience = key, retries, timeout, patience
        self._form, self._logprobs, self._system, self._settled = 0, True, True, False
        self._lock, self._stopped = threading.Lock(), threading.Event()

    def ask(self, messages: Sequence[Message]) -> ChatAnswer:
        """Return the answer to a conversation, which begins with a message of the system."""
        while True:
            sent = self._form, self._logprobs, self._system
            try:
                reply = self._post(self._body(messages, *sent))
            except _Refused as error:
                if not self._simpler(sent, error):
                    raise EverylabelError(str(error)) from error
                continue
            self._settled = True
            return self._read(reply, messages)

    def stop(self) -> None:
        """Stop repeating failed requests."""
        self._stopped.set()

    def _body(self, messages: Sequence[Message], form: int, logprobs: bool, system: bool) -> dict[str, Any]:
        if not system and len(messages) > 1:  # the instructions join the first message of the user
            first, second, *rest = messages
            messages = [{**second, "content": f"{first['content']}\n\n{second['content']}"}, *rest]
        body: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        body |= {"temperature": 0, "max_tokens": MOST_OUT}
        shape = FORMS[form]
        if shape is not None:
            body["response_format"] = shape(self.classes)
        return body | ({"logprobs": True} if logprobs else {})

    def _simpler(self, sent: tuple[int, bool, bool], error: "_Refused") -> bool:
        """Leave out the part that the server refuses, or else the next one; return whether one was left."""
        form, logprobs, system = sent
        with self._lock:
            if self._settled:  # the server took such a request before: something is wrong with this text
                return False
            if sent != (self._form, self._logprobs, self._system):
                return True  # another thread has changed it meanwhile
            if logprobs and "logprob" in error.text:
                self._logprobs = False
            elif system and "system" in error.text and "role" in error.text:
                self._system = False
            elif error.status >= 500:
                return False
            elif form < len(FORMS) - 1:
                self._form += 1
            elif logprobs:
                self._logprobs = False
            else:
                return False
            return True

    def _post(self, body: dict[str, Any]) -> Any:
        """Return the server's reply; repeat the request after temporary errors."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        expected = "a chat server that is running there"
        for attempt in range(self.retries + 1):
            pause = min(self.patience * 2.0**attempt, LONGEST_WAIT)
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                    return _json(reply.read(), self.url)
            except urllib.error.HTTPError as error:
                text = error.read().decode("utf-8", "replace")
                why = f"{error.code} {error.reason}: {_quoted(text)}"
                if error.code in (401, 403):
                    raise Unavailable(
                        f"--endpoint {self.url!r} refuses the key ({why}); expected a valid one: --api-key, "
                        "or the environment variable EVERYLABEL_API_KEY"
                    ) from error
                named = "logprob" in text or ("system" in text and "role" in text)
                if error.code in REFUSES or (error.code >= 500 and named):
                    raise _Refused(f"--endpoint {self.url!r} answers {why}", error.code, text) from error
                if error.code not in WAITS and error.code < 500:
                    raise Unavailable(
                        f"--endpoint {self.url!r} answers {why}; expected a chat server"
                    ) from error
                pause = _pause(error.headers.get("Retry-After"), pause)
                if error.code == TOO_MANY:
                    expected = "fewer requests at a time (--parallel 1), or the same command later"
            except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
                why = str(getattr(error, "reason", error)) or type(error).__name__
            if attempt < self.retries and self._stopped.wait(pause):
                break
        many = counted(self.retries + 1, "try", "tries")
        raise Unavailable(
            f"--endpoint {self.url!r} does not answer after {many} ({why}); expected {expected}"
        )

    def _read(self, reply: Any, messages: Sequence[Message]) -> ChatAnswer:
        try:
            choice = reply["choices"][0]
            text = choice["message"]["content"] or ""
        except (KeyError, IndexError, TypeError) as error:
            raise Unavailable(
                f"--endpoint {self.url!r} answers {_quoted(json.dumps(reply))}; expected `choices` with a "
                "`message`, as of a chat server"
            ) from error
        usage = reply.get("usage") or {}
        guessed = estimate("".join(message["content"] for message in messages)), estimate(text)
        tokens = usage.get("prompt_tokens") or guessed[0], usage.get("completion_tokens") or guessed[1]
        label = find_class(text, self.classes)
        return ChatAnswer(
            label, None if label is None else score(text, label, choice.get("logprobs")), tokens, text
        )


class _Refused(Exception):
    """The server does not take a part of the request."""

    def __init__(self, message: str, status: int, text: str) -> None:
        super().__init__(message)
        self.status, self.text = status, text


def address(endpoint: str) -> str:
    """Return the address of chat requests, given that of the server, its /v1, or the whole address."""
    parts = urllib.parse.urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise EverylabelError(
            f"--endpoint is {endpoint!r}; expected an address such as http://localhost:8000/v1"
        )
    path = parts.path.rstrip("/")
    if not path.endswith(PATH):
        path = (path or "/v1") + PATH
    return urllib.parse.urlunsplit(parts._replace(path=path))


def estimate(text: str) -> int:
    """Estimate the number of tokens of a text: four bytes each."""
    return math.ceil(len(text.encode("utf-8", "replace")) / 4)


def find_class(text: str, classes: Sequence[str]) -> str | None:
    """Return the class that an answer names: as JSON, by itself, or as the only one in a sentence."""
    known = {" ".join(name.casefold().split()): name for name in classes}
    objects = re.search(r"\{.*\}", text, re.DOTALL)
    said: Any = text
    if objects:
        try:
            value = json.loads(objects[0])
            said = value.get("label") if isinstance(value, dict) else value
        except ValueError:
            pass
    if not isinstance(said, str):
        return None
    plain = " ".join(said.casefold().split()).strip("`'\"*. ")
    if plain in known:
        return known[plain]
    found = [key for key in known if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", plain)]
    found = [key for key in found if not any(key != other and key in other for other in found)]
    return known[found[0]] if len(found) == 1 else None


def score(text: str, label: str, logprobs: Any) -> float | None:
    """Return the probability of the tokens that name the class; None where the server gives none.

    Tokens of the frame ({"label": ...}) say nothing about the class and are left out.
    """
    try:
        tokens = [(str(one["token"]), float(one["logprob"])) for one in logprobs["content"]]
    except (KeyError, TypeError, ValueError):
        return None
    whole = "".join(token for token, _ in tokens)
    start = whole.casefold().rfind(label.casefold())
    if start < 0:
        return None
    place, total = 0, 0.0
    for token, log in tokens:
        if place < start + len(label) and place + len(token) > start:
            total += log
        place += len(token)
    return min(1.0, math.exp(total)) if math.isfinite(total) else None


def _json(data: bytes, url: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise Unavailable(
            f"--endpoint {url!r} answers {_quoted(data.decode('utf-8', 'replace'))}; expected JSON of a chat "
            "server"
        ) from error


def _pause(header: str | None, usual: float) -> float:
    try:
        return min(max(float(header or ""), 0.0), LONGEST_WAIT)
    except ValueError:
        return usual


def _quoted(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain if len(plain) <= QUOTED else plain[:QUOTED] + "...")
