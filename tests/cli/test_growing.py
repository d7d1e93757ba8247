"""`everylabel label` on a source that is embedded while it is labelled: real servers, stopped and killed."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everylabel.data.cache import cache_folder
from everylabel.projects.arrivals import FIRST
from tests.labelling.desks import until
from tests.web.servers import Running, RunningHere, label, label_here

pytestmark = pytest.mark.usefixtures("own_place")
N = 420


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Many small images, one of them broken, and a model of their colours."""
    onnx = pytest.importorskip("onnx", reason="needs onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra everylabel[onnx]")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        "mean colour",
        [helper.make_tensor_value_info("x", floats, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", floats, ["n", 3])],
        [onnx.numpy_helper.from_array(np.array([2, 3]), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "colour.onnx")
    rng, folder = np.random.default_rng(0), tmp_path / "photos"
    folder.mkdir()
    for i in range(N):
        red, green, blue = (int(value) for value in rng.integers(256, size=3))
        Image.new("RGB", (8, 8), (red, green, blue)).save(folder / f"{i:03}.png")
    (folder / "007.png").write_bytes(b"not an image")
    return folder


def items(server: Running | RunningHere) -> int:
    return int(server.client.get("/api/progress")["items"])


def label_some(server: Running | RunningHere, n: int) -> dict[str, Any]:
    reply = server.client.post("/api/next")
    for i in range(n):
        reply = server.client.post("/api/label", item=reply["next"]["item"]["id"], **{"class": i % 2})
    return dict(reply)


def test_labelling_begins_with_a_sample_and_the_rest_joins(photos: Path, tmp_path: Path) -> None:
    options = ("photos", "--model", "colour.onnx", "--classes", "a,b")
    with label_here(*options) as server:
        assert items(server) >= FIRST - 1  # before all are there, or just after
        label_some(server, 6)
        until(lambda: items(server) == N - 1)  # the broken one never joins
        reply = label_some(server, 6)
        assert reply["progress"]["labelled"] == 12
        assert server.client.get("/api/search?q=007")["items"] == []
        until(lambda: (tmp_path / "photos.everylabel" / "features.json").exists())
        before = server.client.get("/api/fingerprint")
    with label_here("photos") as server:
        assert server.client.get("/api/fingerprint")["version"] >= before["version"]
        assert items(server) == N - 1
        assert server.client.get("/api/progress")["labelled"] == 12


def test_a_server_that_is_killed_resumes(photos: Path, tmp_path: Path) -> None:
    cells = "".join(f"photos/{i:03}.png,{'test' if i % 10 == 0 else ''}\n" for i in range(N))
    (tmp_path / "photos.csv").write_text("path,split\n" + cells)
    source = ("photos.csv", "--image-column", "path", "--model", "colour.onnx", "--classes", "a,b")
    options = (*source, "--check-every", "0", "--test", "split", "--tester", "anna")
    with label(tmp_path, *options) as server:
        label_some(server, 8)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    embedded = {path: path.stat().st_mtime_ns for path in cache_folder().rglob("*.npy")}
    assert embedded
    with label_here(*options) as server:
        until(lambda: items(server) == N - 1)
        figures = server.client.get("/api/progress")
        assert (figures["labelled"], figures["test"]["items"]) == (8, N // 10)
    for path, written in embedded.items():
        assert path.stat().st_mtime_ns == written  # nothing was embedded twice
