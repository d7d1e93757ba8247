"""Access to the server: hosts, sites, tokens, sizes. The application behind it echoes the request."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from everylabel.core.errors import EverylabelError
from everylabel.web.access import (
    LARGEST,
    Access,
    Tokens,
    check_token,
    is_local,
    new_token,
    tokens_of,
)
from everylabel.web.server import server_config

JSON = {"content-type": "application/json"}


def client(
    token: str | None = None, look: str | None = None, base_url: str = "http://127.0.0.1:8765"
) -> TestClient:
    app = FastAPI()
    app.add_middleware(Access, tokens=None if token is None else Tokens(token, look))

    @app.get("/")
    @app.get("/api/health")
    async def health() -> str:
        return "ok"

    @app.post("/api/next")
    async def size(request: Request) -> int:
        return len(await request.body())

    return TestClient(app, base_url)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "192.168.0.2", "::", "localhost.example", "127.0.0.1.example", ""]
)
def test_addresses_in_others_reach(host: str) -> None:
    assert not is_local(host)


def test_another_site_can_do_nothing() -> None:
    here = client()
    other = here.post("/api/next", json={}, headers={"origin": "http://evil.example"})
    assert other.status_code == 403
    assert other.json()["error"]["code"] == "other_site"
    assert here.get("/api/health", headers={"host": "evil.example"}).json()["error"]["code"] == "wrong_host"
    assert here.get("/api/health", headers={"host": "localhost:80"}).status_code == 200
    own = here.post("/api/next", json={}, headers={"origin": "http://127.0.0.1:8765"})
    assert own.status_code == 200
    assert here.get("/api/health", headers={"host": "["}).status_code == 403
    for origin in ("http://[", "null", "http://127.0.0.1:9"):
        assert here.post("/api/next", json={}, headers={"origin": origin}).status_code == 403


def test_every_reply_keeps_other_sites_out() -> None:
    for reply in (
        client().get("/api/health"),
        client("secret").get("/api/health"),
        client("secret").get("/"),
    ):
        assert reply.headers["content-security-policy"].startswith("default-src 'self'")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_only_json_changes_anything(kind: str) -> None:
    reply = client().post("/api/next", content=b"{}", headers={"content-type": kind})
    assert (reply.status_code, reply.json()["error"]["code"]) == (415, "not_json")
    fine = client().post(
        "/api/next", content=b"{}", headers={"content-type": "Application/JSON; charset=utf-8"}
    )
    assert fine.status_code == 200


def test_body_that_grows_too_large_is_cut_off() -> None:
    def chunks(n: int) -> Any:
        return (b"x" * 100_000 for _ in range(n))  # without a length

    assert client().post("/api/next", content=chunks(10), headers=JSON).json() == LARGEST
    assert client().post("/api/next", content=chunks(11), headers=JSON).status_code == 413


def test_a_token_is_asked_for() -> None:
    here = client("secret")
    name = "everylabel-8765"
    assert here.get("/api/health").status_code == 401
    assert here.get("/api/health", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert here.get("/api/health", headers=[(b"authorization", "Bearer sécret".encode())]).status_code == 401
    assert here.get("/api/health", headers={"authorization": "Basic secret"}).status_code == 401
    assert here.get("/api/health", headers={"cookie": f"{name}=wrong"}).status_code == 401
    assert here.get("/api/health", headers={"cookie": "everylabel-1=secret"}).status_code == 401
    assert here.get("/api/health", headers={"authorization": "Bearer secret"}).status_code == 200
    assert here.get("/?token=wrong").status_code == 401
    assert "the token is wrong" in here.get("/?token=wrong").text
    assert "a token is needed" in here.get("/").text
    assert here.post("/api/next?token=secret", json={}).status_code == 401  # only a page is opened by it


def test_the_token_in_the_address_becomes_a_cookie() -> None:
    here = client("secret")
    name = "everylabel-8765"
    reply = here.get('/?token=secret&person=<a "b">')
    assert reply.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/?person=%3Ca+%22b%22%3E">' in reply.text
    assert reply.headers["content-security-policy"].startswith("default-src 'self'")
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith(f"{name}=secret;")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert here.get("/api/health").status_code == 200  # by the cookie
    for host, known in (("label.example", name), ("label.example:81", "everylabel-81"), ("[", name)):
        headers = {"host": host, "cookie": f"{known}=secret"}
        assert client("secret").get("/api/health", headers=headers).status_code == 200


def test_a_link_of_a_person_lets_in_and_leads_to_that_person() -> None:
    here = client("secret")
    refused = here.get("/as/Ana")
    assert refused.status_code == 401
    assert refused.text.startswith("<!doctype html>")  # for a person to read
    reply = here.get('/as/<Ana%20"%2F>?token=secret&a=b')
    assert 'content="0; url=/as/%3CAna%20%22/%3E?a=b"' in reply.text
    assert reply.headers["set-cookie"].startswith("everylabel-8765=secret;")
    assert 'content="0; url=/"' in here.get("/asx/Ana?token=secret").text


def test_a_bearer_that_a_proxy_adds_does_not_override_the_cookie() -> None:
    here = client("secret")
    headers = {"cookie": "everylabel-8765=secret", "authorization": "Bearer proxy"}
    assert here.get("/api/health", headers=headers).status_code == 200
    headers = {"cookie": "everylabel-8765=wrong", "authorization": "Bearer secret"}
    assert here.get("/api/health", headers=headers).status_code == 401
    assert here.get("/api/health", headers={"authorization": "Bearer secret"}).status_code == 200


def test_a_token_that_may_only_look() -> None:
    here = client("secret", "glance")
    for kind, status in (("secret", 200), ("glance", 403), ("other", 401)):
        headers = {"authorization": f"Bearer {kind}"}
        assert here.post("/api/next", json={}, headers=headers).status_code == status
        assert here.get("/api/health", headers=headers).status_code == (401 if status == 401 else 200)
    assert "everylabel-8765=glance" in here.get("/?token=glance").headers["set-cookie"]
    assert here.post("/api/next", json={}).json()["error"]["code"] == "may_only_look"


def test_tokens_of_a_file_change_while_the_server_runs(tmp_path: Path) -> None:
    file, first, second = tmp_path / "tokens", "a" * 20, "b" * 20
    file.write_text(f"{first}\n")
    tokens = tokens_of(None, None, file, local=True)
    assert tokens is not None
    assert (tokens.may(first), tokens.may(second)) == ("label", None)
    file.write_text(f"{second}\n{first}\n")
    assert (tokens.may(first), tokens.may(second)) == ("look", "label")
    file.write_text("short\n")  # a slip locks nobody out
    assert tokens.may(second) == "label"
    file.unlink()
    assert tokens.may(second) == "label"
    for content in ("short", "", f"{first}\n{first}", f"{first}\n{second}\n{'c' * 20}"):
        file.write_text(content)
        with pytest.raises(EverylabelError, match="--token-file"):
            tokens_of(None, None, file, local=False)
    with pytest.raises(EverylabelError, match="--token-file"):
        tokens_of(first, None, file, local=False)
    with pytest.raises(EverylabelError, match="--look-token"):
        tokens_of(first, first, None, local=False)
    assert tokens_of(None, None, None, local=True) is None


def test_a_file_of_tokens_that_is_gone_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens"
    file.write_text("a" * 20)
    tokens = tokens_of(None, None, file, local=False)
    file.unlink()
    assert tokens is not None
    for _ in range(50):
        tokens.may("b" * 20)
    assert len(caplog.records) == 1


def test_a_token_that_is_made_up_is_long_and_another_each_time() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32  # 192 bits, six a character


@pytest.mark.parametrize(
    "host",
    [
        "evil.com@127.0.0.1",
        "127.0.0.1#.evil.com",
        "127.0.0.1/evil.com",
        "127.0.0.1?evil.com",
        "127.0.0.1:1:2",
    ],
)
def test_no_part_of_another_host_is_taken_for_this_one(host: str) -> None:
    assert client().get("/api/health", headers={"host": host}).json()["error"]["code"] == "wrong_host"


@pytest.mark.parametrize(
    "token", ["", "a", "a" * 19, "with a space in the middle", "ümläüte-und-noch-mehr-davon"]
)
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(EverylabelError, match=r"--token has .* expected at least 20"):
        check_token(token)


def test_any_sign_in_a_token_works_in_an_address_and_a_cookie() -> None:
    token = check_token('a&b#c;d=e+f%20g"h,i/j?k')
    there = client(token)
    assert there.get("/api/health").status_code == 401
    assert there.get(f"/?token={quote(token, safe='')}").status_code == 200
    assert there.get("/api/health").status_code == 200  # by the cookie
    bearer = {"authorization": f"Bearer {token}"}
    assert client(token).get("/api/health", headers=bearer).status_code == 200


@pytest.mark.parametrize("proxy", [False, True])
def test_forwarded_address_counts_only_behind_a_proxy(proxy: bool) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = server_config(app, proxy)
    config.load()
    behind = TestClient(config.loaded_app, client=("127.0.0.1", 5))
    behind.get("/", headers={"x-forwarded-for": "10.1.2.3"})
    assert seen == ["10.1.2.3" if proxy else "127.0.0.1"]
