"""A project of an earlier version opens unchanged: options, features, items and log, written out here."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.source_diff import NOT_NOTED, RecordedRows
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.service import Service
from everylabel.projects.folder import LogUse
from everylabel.projects.log import bring_up_to_date, project_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.predictions import read_labels
from everylabel.projects.project import Project, open_project

TEXTS = [
    "send money",
    "my card is lost",
    "money sent twice",
    "card blocked",
    "hello there",
    "money back",
    "lost my card",
]
DIGESTS = [
    "432ab3c59df6f94d",
    "9242945ef4d0d4dd",
    "ab0e80b818ea89db",
    "fdba6dffb32aa08d",
    "aba33ef6e337ac29",
    "328e05d77d4c24d2",
    "4b138ad14613e9cd",
]
FEATURES = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
ABOUT = {
    "name": "x.csv", "id": "e3264b060cd0",
    "text_column": "text", "image_column": None, "label_column": "kind",
    "id_column": "id", "classes": ["card", "money"], "show": None, "model": "not-installed", "encoding": None,
}  # fmt: skip
RECORD = {
    "version": 2,
    "content": "e3f131a1d52121665ac8a120d65f252b5bdf05658207bfbafacb808f67fa5f28",
    "what": {"kind": "text", "model": "not-installed", "column": "text"},
    "broken": [],
    "fitted_on": 0,
}
TABLES = """
CREATE TABLE everylabel_events (project TEXT NOT NULL, seq BIGINT NOT NULL, block BIGINT NOT NULL,
    at DOUBLE NOT NULL, person TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, "key" TEXT,
    PRIMARY KEY (project, seq), UNIQUE (project, "key"));
CREATE TABLE everylabel_items (project TEXT NOT NULL, format INTEGER NOT NULL, items TEXT NOT NULL,
    PRIMARY KEY (project));
"""
EVENTS = """
1 1  project {"classes": ["card", "money"], "settings": {"check_every": 2}, "seed": 0, "id": "e3264b060cd0"}
2 1 import label {"item": "t3", "class": 0, "imported": "source"}
3 1 Ann label {"item": "t2", "class": 1, "imported": true}
4 1  refit {"upto": 3}
5 5 me out {"item": "t6", "reason": "chosen", "expected": 0.619719}
6 6 me label {"item": "t6", "class": 1, "guess": 0, "sure": 0.665270833973471}
7 7 me out {"item": "t1", "reason": "check", "expected": 0.75685}
8 8 me skip {"item": "t1", "check": true}
9 9 me out {"item": "t0", "reason": "chosen", "expected": 0.75685}
10 10 me cannot_tell {"item": "t0"}
11 11 me out {"item": "t4", "reason": "check", "expected": 0.75685}
12 12 me label {"item": "t4", "class": 0, "guess": 0, "sure": 0.8136361786802679, "check": true}
13 13 me out {"item": "t5", "reason": "chosen", "expected": 0.657164}
14 14 me undo {"saved": 12}
15 14 me release {"item": "t5"}
16 14 me out {"item": "t4", "reason": "check", "again": true}
17 17 me class {"name": "other"}
18 18 me rename {"class": 0, "name": "cards"}
19 19 me release {"item": "t4"}
20 19 me out {"item": "t0", "reason": "asked"}
21 21 me label {"item": "t0", "class": 2, "guess": 0, "sure": 0.518169357269683}
22 22 me out {"item": "t5", "reason": "check", "expected": 0.561467}
23 23 me settings {"strategy": "margin"}
24 24 Bob out {"item": "t4", "reason": "chosen", "expected": 0.561467}
"""


@pytest.fixture
def start() -> float:
    """Return the start time of the log, recent enough for leases to be valid."""
    return time.time() - 60


@pytest.fixture
def folder(tmp_path: Path, start: float) -> Path:
    """Return a project's folder, written byte by byte as the version before wrote it."""
    rows = [f"t{i},{text},{'card' if i == 3 else ''}\n" for i, text in enumerate(TEXTS)]
    (tmp_path / "x.csv").write_text("".join(["id,text,kind\n", *rows]))
    place = tmp_path / "x.csv.everylabel"
    place.mkdir()
    (place / "project.json").write_text(json.dumps({"source": str(tmp_path / "x.csv"), **ABOUT}))
    (place / "features.json").write_text(json.dumps(RECORD))
    np.save(place / "features.npy", FEATURES)
    with closing(sqlite3.connect(place / "labels.sqlite")) as database:
        database.executescript(TABLES)
        for line in EVENTS.strip().split("\n"):
            seq, block, person, kind, body = line.split(" ", 4)
            key = "k1" if seq == "6" else None
            row = ("x.csv", int(seq), int(block), start + int(seq), person, kind, body, key)
            database.execute("INSERT INTO everylabel_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        items = json.dumps([[f"t{i}" for i in range(7)], DIGESTS])
        database.execute("INSERT INTO everylabel_items VALUES ('x.csv', 1, ?)", (items,))
        database.commit()
    return place


def opened(folder: Path) -> Project:
    return open_project(folder, log=LogUse(needed=True))


def test_options_features_and_labels_are_as_they_were(folder: Path, start: float) -> None:
    for source in (folder, folder.with_suffix("")):
        project = opened(source)
        assert (project.name, project.id, project.kind) == ("x.csv", "e3264b060cd0", "text")
        assert list(project.digests) == DIGESTS
        np.testing.assert_array_equal(project.features, FEATURES)  # kept: the model is not there to embed
        state = read_labels(project, None)
        assert state.classes == ["cards", "money", "other"]
        assert state.labels == {3: 0, 2: 1, 6: 1, 0: 2}
        assert state.times[21] == start + 21
        assert [answer.person for answer in state.answers[2]] == ["Ann"]


def test_people_continue_where_they_were(folder: Path) -> None:
    project = opened(folder)
    with project_log(project, None, write=True) as store:
        assert store.items() == RecordedRows(list(project.ids), DIGESTS, id_column=NOT_NOTED)
        bring_up_to_date(store, project, LabelOptions(), print)
        assert [event.body.kind for event in store.read()[24:]] == ["extended"]
        with closing(Desk(FeatureTable(project.ids, project.features), store)) as desk:
            service = Service(desk, lambda item: {"id": item})
            assert service.next("me").result()["next"]["item"] == {"id": "t5"}
            assert service.next("Bob").result()["next"]["item"] == {"id": "t4"}
            assert service.label("me", "t6", 1, key="k1").result()["saved"] == 6  # was sent before
            assert service.undo("me").result()["next"]["item"] == {"id": "t0"}
            assert desk.state.labels == {3: 0, 2: 1, 6: 1}
            assert service.label("me", "t0", "money").result()["saved"] > 24
    assert read_labels(opened(folder), None).labels == {3: 0, 2: 1, 6: 1, 0: 1}


def test_another_source_is_still_reported(folder: Path) -> None:
    source = folder.with_suffix("")
    source.write_text(source.read_text().replace("card blocked", "card stolen"))
    with pytest.raises(EverylabelError, match="t3"):
        open_project(folder, log=LogUse())
    reading = open_project(folder, log=LogUse(needed=True), keep=False, embed=False)
    assert any("t3" in note for note in reading.notes)
    assert 3 not in read_labels(reading, None).labels  # its label may not fit any more
