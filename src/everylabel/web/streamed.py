"""A page of probabilities as JSON that is sent while it is made, so that nobody waits for it."""

import json
from collections.abc import Iterator

from fastapi.responses import StreamingResponse

from everylabel.labelling.predicted import Page


class JsonStream(StreamingResponse):
    """JSON in pieces."""

    media_type = "application/json"


def pieces(page: Page) -> Iterator[bytes]:
    """Yield the JSON of a page, its probabilities last."""
    yield json.dumps(page.about())[:-1].encode() + b', "probabilities": ['
    between = b""
    for block in page.blocks():
        yield between + json.dumps(block)[1:-1].encode()
        between = b", "
    yield b"]}"
