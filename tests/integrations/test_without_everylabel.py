"""Which exported models other processes open where everylabel is not installed, and which not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from everylabel.formats.model import export_model
from tests.formats.test_model import model

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "everylabel":
            raise ModuleNotFoundError("No module named 'everylabel'")
sys.meta_path.insert(0, Blocked())
import numpy as np
x = np.load("x.npy")
"""
OPEN = {
    "onnx": """
import json, onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
label, probs = session.run(None, {"features": x.astype(np.float32)})
""",
    "sklearn": """
import skops.io
assert skops.io.get_untrusted_types(file="model.sklearn") == []  # nothing to trust: scikit-learn alone
clf = skops.io.load("model.sklearn")
probs, names = clf.predict_proba(x), clf.classes_.tolist()
assert (clf.predict(x) == clf.classes_[probs.argmax(axis=1)]).all()
""",
    "torch": """
import torch
saved = torch.load("model.torch", weights_only=True)
layer = torch.nn.Linear(x.shape[1], len(saved["classes"]))
layer.load_state_dict(saved["state_dict"])
probs = torch.softmax(layer(torch.tensor(x, dtype=torch.float32)), 1).detach().numpy()
names = saved["classes"]
""",
}
NEEDED = {"onnx": "onnxruntime", "sklearn": "skops", "torch": "torch"}


def elsewhere(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import everylabel."""
    command = [sys.executable, "-c", BLOCKED + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("likelihood", ["gaussian", "binary"])
@pytest.mark.parametrize("form", OPEN)
def test_exported_model_gives_the_same_predictions_elsewhere(
    tmp_path: Path, form: str, likelihood: str
) -> None:
    pytest.importorskip(NEEDED[form], reason=f"needs {NEEDED[form]}")
    posterior, scaling, names, x, wanted = model(likelihood)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / f"model.{form}").write_bytes(export_model(posterior, scaling, names, form))
    done = elsewhere(tmp_path, OPEN[form] + "np.save('probs.npy', probs); print(*names, sep=',')")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().split(",") == names
    np.testing.assert_allclose(np.load(tmp_path / "probs.npy"), wanted, atol=1e-5)


def test_models_that_keep_learning_need_everylabel(tmp_path: Path) -> None:
    pytest.importorskip("skops", reason="needs the extra everylabel[export]")
    posterior, scaling, names, x, _ = model()
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "model.skops").write_bytes(export_model(posterior, scaling, names, "skops"))
    (tmp_path / "model.npz").write_bytes(export_model(posterior, scaling, names, "everylabel"))
    types = "trusted=skops.io.get_untrusted_types(file='model.skops')"
    done = elsewhere(tmp_path, f"import skops.io; skops.io.load('model.skops', {types})")
    assert done.returncode != 0
    assert "No module named 'everylabel'" in done.stderr
    plain = elsewhere(tmp_path, "print(sorted(np.load('model.npz', allow_pickle=False)))")
    assert plain.returncode == 0  # arrays that NumPy reads, if nobody to predict by them
    assert "'mean'" in plain.stdout
