"""The features' file is cut off under a running server, which says so and goes on when it is back."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.mapped import MappedFile
from everylabel.simulation.client import Client
from tests.web import servers

MAPPED = "import everylabel.labelling.rows as rows; rows.FOLDED_FROM = 0"  # as those of 10^8 numbers are


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


def test_a_server_outlives_it_and_goes_on(features: Path, tmp_path: Path) -> None:
    whole = features.read_bytes()
    with servers.label(tmp_path, features, "--classes", "a,b", first=MAPPED) as server:
        given = _label(server.client, 3) + _label(server.client, 3, "b")
        with features.open("r+b") as file:
            file.truncate(5000)
        for path, body in (("next", {}), ("label", {"item": given[0], "class": "b"}), ("undo", {})):
            with pytest.raises(EverylabelError, match=r"gave 503 .* cut off, from 192,128 bytes to 5,000"):
                server.client.post(f"/api/{path}", person="anna", **body)
        with features.open("r+b") as file:  # as long as it was, but not what it was
            file.truncate(len(whole))
        with pytest.raises(EverylabelError, match=r"gave 503 .* other numbers"):
            server.client.post("/api/next", person="anna")
        with features.open("r+b") as file:
            file.write(whole)
        given += _label(server.client, 3)
        code, text = server.stop()
        assert code == 0, text
    with servers.label(tmp_path, features, first=MAPPED) as server:
        assert server.client.get("/api/progress")["labelled"] == len(set(given)) == 9


def test_what_lies_in_memory_or_was_replaced_is_left_alone(features: Path, tmp_path: Path) -> None:
    assert MappedFile.of(np.ones((3, 2))) is None
    assert MappedFile.of(None) is None
    rows = np.load(features, mmap_mode="r")
    file = MappedFile.of(np.asarray(rows)[10:])
    assert file is not None
    np.save(tmp_path / "other.npy", rows[:3])
    (tmp_path / "other.npy").replace(features)  # what is mapped is the file of before
    assert file.wrong() == ""
    assert rows[-1].sum() != 0
