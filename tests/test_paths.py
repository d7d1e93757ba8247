"""Limit the number of Python files that one click, and the second start of a project, run through.

A file counts if at least one of its functions runs. A click is POST /api/label to the real application,
through the desk's thread to the reply. A start lasts until the server could listen. Training in the
background counts for neither, and no HTTP server is running: its protocol class would be one more file.
"""

from pathlib import Path

import pytest

from tests.golden.looks import answers
from tests.golden.opened import copied, opened
from tests.tracing import traced

CLICK = 40
SECOND_START = 50


def test_click_and_second_start_run_through_few_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = copied("studio", tmp_path)  # texts, labelled by several people, with the usual strategy
    with opened(source) as client:  # imports all that is needed, and keeps what the next start may use
        client.patch("/api/settings", json={"check_every": 0})
        item = client.post("/api/next", json={"person": "me"}).json()["next"]["item"]["id"]
        answers(client)
    with traced() as files:
        files.begin(here=True)
        with opened(source) as client:
            start = files.end()
            answers(client)  # the model is trained by now, and nothing runs in the background
            files.begin()
            reply = client.post("/api/label", json={"person": "me", "item": item, "class": 1})
            click = files.end()
    assert reply.json()["next"]["reason"] == "chosen"
    with capsys.disabled():
        print(f"\n{len(click)} files on the path of a click, {len(start)} on that of a second start")
    print("click", *click, sep="\n    ")
    print("second start", *start, sep="\n    ")
    assert len(click) <= CLICK
    assert len(start) <= SECOND_START
