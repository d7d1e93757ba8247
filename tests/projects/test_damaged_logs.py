"""Logs of version 0.1 (without a hash chain) with odd fields are opened, or refused in a sentence."""

import json
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
from hypothesis import strategies as st

from everylabel.core.errors import EverylabelError
from everylabel.log.store import Store
from everylabel.projects.doctor import LogLocation, examine
from tests.damage import damaged
from tests.labelling.desks import IDS, label, service
from tests.projects.starts import start

ODD = st.sampled_from([None, "x", -7, -1, 0, 1, 3, 99, 1.5, True, [], [1], ["x"], [[1]], {}, {"a": 1}])


@cache
def before() -> bytes:
    """Return a log as version 0.1 wrote it, with all kinds of events."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with service(path) as made:
            label(made, 4)
            made.undo("me").result()
            made.classes.add("me", "eleven").result()
            made.classes.change("me", 0, name="zero").result()
            made.skip("me", made.next("me").result()["next"]["item"]["id"]).result()
        with closing(sqlite3.connect(path)) as log, log:
            log.execute("DROP TABLE everylabel_heads")
            log.execute("ALTER TABLE everylabel_events DROP COLUMN chain")
        return path.read_bytes()


@st.composite
def changes(draw: st.DrawFn, rows: list[tuple[int, str, str]]) -> tuple[int, str, Any]:
    """Return an event's number, a column, and what to put there."""
    seq, kind, text = draw(st.sampled_from(rows))
    what = draw(st.sampled_from(["field", "field", "text", "kind", "number"]))
    if what == "field":
        body = json.loads(text)
        names = [name for name in body if name != "name"] or list(body)
        return seq, "body", json.dumps({**body, draw(st.sampled_from(names)): draw(ODD)})
    if what == "text":
        return seq, "body", draw(damaged(text.encode())).decode("utf-8", "replace")
    if what == "kind":
        return seq, "kind", draw(st.sampled_from(["label", "undo", "nothing", "", kind[:-1]]))
    return seq, draw(st.sampled_from(["block", "at"])), draw(st.sampled_from([-1, 2**62, 1e300, "x"]))


@hypothesis.settings(max_examples=30)
@hypothesis.given(data=st.data())
def test_an_unsealed_log_with_odd_fields(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(before())
        with closing(sqlite3.connect(path)) as log, log:
            rows = log.execute("SELECT seq, kind, body FROM everylabel_events").fetchall()
            seq, column, value = data.draw(changes(rows))
            log.execute(f"UPDATE everylabel_events SET {column} = ? WHERE seq = ?", (value, seq))
        found = examine(LogLocation(Path(folder), str(path), "test"), Path(folder) / "new")
        assert found.fine or "the log cannot be read" in found.wrong[-1]
        try:
            with closing(Store(path, "test")) as store:
                start(store, IDS, note=lambda _: None)
        except EverylabelError:
            return
        with service(path) as made:
            assert made.views.progress("me")["items"] == len(IDS)
