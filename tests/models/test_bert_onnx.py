"""A sentence model without torch gives what sentence-transformers gives."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from everylabel.models.embedding.bert_onnx import FILES, BertOnnx, can_run

TEXTS = ["a text", "", "Café – naïve 日本", "word " * 400, "my card has not come", "a text", "why?"]


def test_the_features_are_those_of_sentence_transformers(minilm: str) -> None:
    library = pytest.importorskip("sentence_transformers")
    expected = library.SentenceTransformer(minilm, device="cpu").encode(TEXTS, show_progress_bar=False)
    found = BertOnnx(Path(minilm)).encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_array_equal(found[0], found[5])


def test_torch_is_not_loaded_for_it(minilm: str, tmp_path: Path) -> None:
    code = (
        "import sys, everylabel as el; "
        f"assert el.embed(['a text'], {minilm!r}, cache=False).shape == (1, 384); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unsupported_model_is_left_to_torch(minilm: str, tmp_path: Path) -> None:
    assert can_run(Path(minilm))
    for name in FILES[:-1]:
        (tmp_path / name).symlink_to(Path(minilm) / name)
    (tmp_path / "1_Pooling").symlink_to(Path(minilm) / "1_Pooling")
    assert not can_run(tmp_path)  # no tokeniser
    (tmp_path / FILES[-1]).symlink_to(Path(minilm) / FILES[-1])
    assert can_run(tmp_path)
    (tmp_path / "config.json").unlink()
    text = (Path(minilm) / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"bert"', '"mpnet"'))
    assert not can_run(tmp_path)
