"""Slow tests: baal's section of the page, and MLflow's own server.

They run by `make test-ecosystem`, and are skipped elsewhere.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import everylabel as el
from everylabel.integrations.mlflow import save_model
from tests.integrations.data import digits
from tests.integrations.test_page import run
from tests.projects.postgres import free_port

WHERE = "EVERYLABEL_ECOSYSTEM"
pytestmark = pytest.mark.skipif(
    not os.environ.get(WHERE), reason=f"run make test-ecosystem (it sets {WHERE})"
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of an old structlog
def test_the_section_on_baal_runs() -> None:
    scope = run("baal")
    assert scope["dataset"].labelled.sum() == 40


@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")
def test_mlflow_serves_it(tmp_path: Path) -> None:
    x, y = digits(200, 3)
    clf = el.LaplaceClassifier().fit(x[:100], y[:100])
    save_model(clf, tmp_path / "model")
    place = Path(sys.executable).parent
    port = free_port()
    command = [place / "mlflow", "models", "serve", "--env-manager", "local", "-m", "model", "-p", str(port)]
    path = f"{place}:{os.environ['PATH']}"  # it looks for uvicorn there
    server = subprocess.Popen(
        list(map(str, command)), cwd=tmp_path, env={**os.environ, "PATH": path}, start_new_session=True
    )
    try:
        found = _asked(port, {"inputs": x[100:105].tolist()})
    finally:
        os.killpg(server.pid, 15)
        server.wait()
    assert [row["label"] for row in found["predictions"]] == clf.predict(x[100:105]).tolist()


def _asked(port: int, body: dict[str, object]) -> dict[str, list[dict[str, object]]]:
    """Return the reply of a server, as soon as there is one."""
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", json.dumps(body).encode(), kind)
    for _ in range(600):
        try:
            with urllib.request.urlopen(request) as reply:
                return dict(json.loads(reply.read()))
        except urllib.error.URLError:
            time.sleep(0.2)
    raise AssertionError("MLflow's server did not answer")
