"""Workers and a node die beneath a real page, while several people label over HTTP.

No label is lost, none is asked for twice, and the state is that of the same log without a death. Run by
`make test-ray`.
"""

import csv
import io
import os
import random
import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from everylabel.labelling.state.reducer import apply_all
from everylabel.labelling.state.state import digest, new_state
from everylabel.log.store import Store
from everylabel.projects.folder import STORE
from everylabel.scale.cluster import connect
from everylabel.scale.features import ShardedFeatures
from everylabel.scale.jobs import embed_shards
from everylabel.scale.project import ShardTable
from everylabel.simulation.people import Client, new_key
from everylabel.web.server import one_thread
from tests.live.ray.clusters import kill, three_nodes, workers
from tests.scale.shards import BODY, source
from tests.web.servers import label

if "EVERYLABEL_RAY" not in os.environ:
    pytest.skip("three nodes of Ray: make test-ray", allow_module_level=True)

PEOPLE, LABELS, KILLS = 3, 60, 5


def of(text: str) -> int:
    """Return the class of a text: what it is a review of."""
    return ("soap", "beans", "trains", "lamps", "rivers").index(text.split('"')[1])


def work(address: str, person: str, given: dict[str, int], done: threading.Event, wrong: list[str]) -> None:
    """Label until there is enough; note what was given."""
    client = Client(address)
    task = client.post("/api/next", person=person)["next"]
    n = 0
    while n < LABELS or not done.is_set():
        item = task["item"]["id"]
        if item in given:
            wrong.append(item)
        given[item] = of(task["item"]["text"])
        reply = client.post("/api/label", person=person, item=item, **{"class": given[item]}, key=new_key())
        task, n = reply["next"], n + 1
    client.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray's own, of the processes that are killed
@pytest.mark.parametrize("strategy", ["herding", "margin"])
def test_page_survives_killed_workers_and_nodes(strategy: str, tmp_path: Path) -> None:
    place, fit = source(tmp_path)
    embed_shards(place, str(tmp_path / "shards"), "tfidf", options=BODY, fit=fit, shard_rows=200)
    arguments = ["shards", "--classes", "soap,beans,trains,lamps,rivers", "--strategy", strategy]
    with three_nodes() as (made, others):
        arguments += ["--ray", made.address]
        given: dict[str, int] = {}
        wrong: list[str] = []
        done = threading.Event()
        with label(tmp_path, *arguments) as server:
            people = [
                threading.Thread(target=work, args=(server.address, f"p{i}", given, done, wrong))
                for i in range(PEOPLE)
            ]
            for each in people:
                each.start()
            draw = random.Random(strategy)
            for n in range(KILLS):
                done.wait(draw.uniform(0.5, 2.0))
                if n == KILLS // 2:
                    made.remove_node(others[0], allow_graceful=False)
                elif there := workers(made):
                    kill(draw.choice(there))
            done.set()
            for each in people:
                each.join()
            assert not wrong  # nobody is asked for what another has answered
            assert len(given) >= PEOPLE * LABELS
            with urllib.request.urlopen(f"{server.address}api/export") as reply:
                rows = list(csv.DictReader(io.StringIO(reply.read().decode())))
            names = ["soap", "beans", "trains", "lamps", "rivers"]
            assert {row["row"]: names.index(row["label"]) for row in rows} == given  # none is lost
            seen = server.client.get("/api/fingerprint")
            assert server.stop()[0] == 0
        assert state_of_log(tmp_path, made.address, seen["version"]) == seen  # as without a death


def state_of_log(folder: Path, address: str, version: int) -> dict[str, int | str]:
    """Return the fingerprint of the log up to a version, where nobody dies."""
    ray = connect(address)
    with one_thread(), closing(Store(folder / "shards.everylabel" / STORE, "shards", write=False)) as log:
        rows = ShardTable(ShardedFeatures(str(folder / "shards"), address))
        stored = log.read()[:version]
        state = apply_all(new_state(stored, rows.ids), stored, log.shown)
    ray.shutdown()
    return {"version": state.seq, "hash": digest(state)}
