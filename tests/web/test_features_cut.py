"""A server reports a truncated features file; the next start continues."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.training import Rows
from everylabel.simulation.people import Client
from tests.web import servers

MAPPED = (
    "import everylabel.labelling.model.training as rows; rows.FOLDED_FROM = 0"  # as those of 10^8 numbers are
)


@pytest.fixture
def features(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "features.npy", rng.normal(size=(3000, 16)).astype(np.float32))
    return tmp_path / "features.npy"


def _label(client: Client, n: int, label: str = "a") -> list[str]:
    """Label n items; return their ids."""
    items = []
    for _ in range(n):
        items.append(client.post("/api/next", person="anna")["next"]["item"]["id"])
        client.post("/api/label", person="anna", item=items[-1], **{"class": label})
    return items


def test_a_server_says_so_and_the_next_start_continues(features: Path, tmp_path: Path) -> None:
    whole = features.read_bytes()
    with servers.label(tmp_path, features, "--classes", "a,b", first=MAPPED) as server:
        given = _label(server.client, 3) + _label(server.client, 3, "b")
        with features.open("r+b") as file:
            file.truncate(5000)
        for path, body in (("next", {}), ("label", {"item": given[0], "class": "b"}), ("undo", {})):
            with pytest.raises(EverylabelError, match=r"gave 503 .* cut off, it had 192,128 bytes"):
                server.client.post(f"/api/{path}", person="anna", **body)
        with features.open("r+b") as file:  # as long as it was, but not what it was
            file.truncate(len(whole))
        with pytest.raises(EverylabelError, match=r"gave 503 .* start again"):
            server.client.post("/api/next", person="anna")
        code, text = server.stop()
        assert code == 0, text
    features.write_bytes(whole)
    with servers.label(tmp_path, features, first=MAPPED) as server:
        assert server.client.get("/api/progress")["labelled"] == len(set(given)) == 6
        _label(server.client, 3)


def test_features_in_memory_and_a_file_that_was_replaced_are_fine(features: Path, tmp_path: Path) -> None:
    assert Rows(["a", "b", "c"], np.ones((3, 2))).refusal() is None
    rows = np.load(features, mmap_mode="r")
    some = Rows([str(i) for i in range(2990)], np.asarray(rows)[10:])
    np.save(tmp_path / "other.npy", rows[:3])
    (tmp_path / "other.npy").replace(features)  # what is mapped is the file of before
    assert some.refusal() is None
    assert rows[-1].sum() != 0
