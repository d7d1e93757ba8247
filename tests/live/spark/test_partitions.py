"""The example of docs/scale.md on a real Spark.

Runs where `make test-spark` has installed PySpark (which needs Java), and is skipped elsewhere.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scale.test_partitions import documented, example

WHERE = "EVERYLABEL_SPARK"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session on this machine, which the example finds."""
    if not os.environ.get(WHERE):
        pytest.skip(f"needs a real Spark: run make test-spark (it sets {WHERE})")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # its workers, too, have everylabel
    local: Any = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    local["spark.driver.bindAddress"] = "127.0.0.1"
    session = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore")  # Spark's own
def test_the_example_for_spark_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = documented(tmp_path)
    code = example("pyspark")
    for name in ("reviews/", "predictions/", "model.npz"):  # Spark's processes have a folder of their own
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    scope: dict[str, Any] = {"__name__": "example"}
    exec(code, scope)
    rows = scope["spark"].read.parquet(str(tmp_path / "predictions")).orderBy("id").collect()
    assert [row.label for row in rows] == labels
    assert all(0.5 < row.probability <= 1 for row in rows)
