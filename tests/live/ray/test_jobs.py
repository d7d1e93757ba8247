"""Jobs on a real Ray, which take a while: killed and begun again, and cells of an experiment."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from everylabel.experiments.data import load
from everylabel.experiments.engine import cells_of, run_cells
from everylabel.experiments.reporting.summary import EXPERIMENTS
from everylabel.experiments.results import Results
from everylabel.scale.cluster import joblib_on_ray
from everylabel.scale.jobs import FIT, embed_shards
from everylabel.scale.manifest import ROWS
from tests.scale import gated
from tests.scale.shards import BODY, TEXTS, content, rows, source
from tests.scale.starting import started

pytestmark = pytest.mark.skipif(
    "EVERYLABEL_RAY" not in os.environ, reason="run by make test-ray (it sets EVERYLABEL_RAY)"
)
ROOT = Path(__file__).parents[3]


def test_experiment_on_ray_has_the_same_results(tmp_path: Path) -> None:
    experiments = [EXPERIMENTS["step-size"]]
    cells = cells_of(experiments, [load("digits", "")], 1, "fast")
    measured = []
    started()
    for name, place in (("here", nullcontext()), ("there", joblib_on_ray("local"))):
        results = Results(tmp_path / name)
        with place:
            ran = list(run_cells(cells, experiments, partial(load, folder=""), results, 2))
        measured.append(sorted(row for row in results.rows() if "seconds" not in row.metric))
        results.close()
        assert sorted(ran) == sorted(cells)
    assert measured[0] == measured[1]
    assert len(measured[0]) > 10


def test_killed_run_started_again_makes_the_same_shards(tmp_path: Path) -> None:
    place, fit = source(tmp_path)
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.scale.gated", place, str(out), str(fit)]
    driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        ends = time.monotonic() + gated.PATIENCE
        while len(list(out.glob("*.npy"))) < gated.BEFORE and driver.poll() is None:
            assert time.monotonic() < ends
            time.sleep(0.05)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    kept = {name: (out / name).stat().st_mtime_ns for name in content(out) if name != FIT}
    assert sorted(kept) == ["manifest.json", *(f"part-{i:06d}.npy" for i in range(gated.BEFORE)), ROWS]
    arguments = [place, "--text-column", "body", "--fit", str(fit), "--shard-rows", str(gated.ROWS)]
    embed = [sys.executable, "-m", "everylabel.cli", "embed", *arguments]
    again = subprocess.run(
        [*embed, "-o", str(out), "--ray", "local"], check=True, capture_output=True, text=True
    )
    assert "note: 300 rows were there already" in again.stderr
    assert "1,100 rows of" in again.stderr
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept
    embed_shards(place, str(tmp_path / "whole"), options=BODY, fit=fit, shard_rows=gated.ROWS)
    assert content(out) == content(tmp_path / "whole")
    assert len(rows(out)) == len(TEXTS)
