"""Requests that are too large, or that stop coming."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from everylabel.web.limits import Limits, TooLarge, TooSlow, whole_number


def coming(size: int, pause: Callable[[], Awaitable[Any]]) -> Any:
    """Return what receives parts of this size for ever, each after a pause."""

    async def receive() -> Any:
        await pause()
        return {"type": "http.request", "body": b"x" * size, "more_body": True}

    return receive


async def read(limits: Limits, receive: Any) -> None:
    counted = limits.on(receive)
    while True:
        await counted()


@pytest.mark.parametrize(
    ("limits", "size", "pause", "error"),
    [
        (Limits(1000, part=600, whole=600), 100, 0.0, TooLarge),
        (Limits(1000, part=0.05, whole=600), 0, 600, TooSlow),
        (Limits(1000, part=600, whole=0.2), 0, 600, TooSlow),
        (Limits(1000, part=600, whole=0.2), 0, 0.01, TooSlow),  # each part comes, the end does not
    ],
)
def test_a_request_comes_to_an_end(limits: Limits, size: int, pause: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(asyncio.wait_for(read(limits, coming(size, lambda: asyncio.sleep(pause))), 60))


def test_after_the_end_a_listener_may_wait() -> None:
    async def check() -> None:
        parts = asyncio.Queue[Any]()
        counted = Limits(1000, part=0.05, whole=0.05).on(parts.get)
        parts.put_nowait({"type": "http.request", "body": b"x", "more_body": False})
        await counted()
        listening = asyncio.ensure_future(counted())
        await asyncio.sleep(0.2)
        assert not listening.done()
        parts.put_nowait({"type": "http.disconnect"})
        assert (await listening)["type"] == "http.disconnect"

    asyncio.run(check())


def test_what_is_a_number() -> None:
    assert [whole_number(text) for text in ("7", "007", "²", "٣", "-1", "", "9" * 5000)] == [7, 7] + [
        None
    ] * 5
    both = Headers({"content-length": "2", "transfer-encoding": "chunked"})
    assert (Limits(10).refusal(both) or (0,))[0] == 400
    assert (Limits(10).refusal(Headers({"content-length": "²"})) or (0,))[0] == 413
    assert Limits(10).refusal(Headers({"content-length": "10"})) is None


def test_the_time_that_a_reply_takes_to_make_is_not_the_request_s() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def late() -> Message:
        counted = Limits(largest=100, part=10.0, whole=0.01).on(receive)
        await asyncio.sleep(0.05)  # a file is made before anybody listens
        return await counted()

    assert asyncio.run(late())["body"] == b""
