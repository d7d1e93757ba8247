"""How large a request may be, and how long it may take to come."""

import asyncio
import math
import time
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

DIGITS = 18  # of a number that a request tells: longer ones mean nothing


class TooLarge(HTTPException):
    """More bytes came than are allowed, without having been announced."""

    def __init__(self, largest: int) -> None:
        super().__init__(413, f"the request is larger than {largest:,} bytes")


class TooSlow(HTTPException):
    """The rest of a request did not come."""

    def __init__(self, seconds: float) -> None:
        super().__init__(408, f"the rest of the request did not come within {seconds:g} seconds")


def whole_number(text: str) -> int | None:
    """Return the number that these digits are; None if they are none, or too many."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


class Limits(NamedTuple):
    """Of one request: largest, in bytes; part and whole, the seconds that a part and all of it may take."""

    largest: int
    part: float = 20.0
    whole: float = 120.0

    def refusal(self, headers: Headers) -> tuple[int, str, str] | None:
        """Return why a request is not read, by what it says of its length: status, code and message."""
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400, "two_lengths", "content-length and transfer-encoding came together; expected one"
        length = headers.get("content-length", "0")
        number = whole_number(length)
        if number is None or number > self.largest:
            told = f"content-length is {length!r:.20}; expected at most {self.largest:,} bytes"
            return 413, "too_large", told
        return None

    def on(self, receive: Receive) -> Receive:
        """Bound the size of a request, and the time that it takes; afterwards a listener may wait."""
        size, whole, end = 0, False, math.inf

        async def counted() -> Message:
            nonlocal size, whole, end
            end = min(end, time.monotonic() + self.whole)  # from when it is first waited for
            left = max(0.0, min(self.part, end - time.monotonic()))
            try:
                message = await asyncio.wait_for(receive(), None if whole else left)
            except TimeoutError as error:
                raise TooSlow(left if left == self.part else self.whole) from error
            size, whole = size + len(message.get("body", b"")), not message.get("more_body", False)
            if size > self.largest:
                raise TooLarge(self.largest)
            return message

        return counted
