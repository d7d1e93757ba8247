"""Exported models in processes without everylabel: which open, and which do not."""

import subprocess
import sys
from importlib.util import find_spec
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


LIKELIHOODS = ("gaussian", "binary")
KEEPS_LEARNING = """
import skops.io
types = skops.io.get_untrusted_types(file="model.skops")
try:
    skops.io.load("model.skops", trusted=types)
except ModuleNotFoundError as error:
    print(error)
"""


def elsewhere(folder: Path, code: str) -> list[str]:
    """Run code in a process that cannot import everylabel; return the lines that it prints."""
    command = [sys.executable, "-c", BLOCKED + code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_exported_models_predict_elsewhere_and_those_that_keep_learning_need_everylabel(
    tmp_path: Path,
) -> None:
    forms = [form for form, library in NEEDED.items() if find_spec(library) is not None]
    if "sklearn" not in forms:
        pytest.skip("needs the extra everylabel[export]")
    code = ""  # one process for all: to load these libraries takes seconds
    for likelihood in LIKELIHOODS:
        posterior, scaling, names, x, _ = model(likelihood)
        folder = tmp_path / likelihood
        folder.mkdir()
        np.save(folder / "x.npy", x)
        code += f"import os; os.chdir({str(folder)!r}); x = np.load('x.npy')\n"
        for form in forms:
            (folder / f"model.{form}").write_bytes(export_model(posterior, scaling, names, form))
            code += OPEN[form] + f"np.save('{form}.npy', probs); print(*names, sep=',')\n"
    (folder / "model.skops").write_bytes(export_model(posterior, scaling, names, "skops"))
    (folder / "model.npz").write_bytes(export_model(posterior, scaling, names, "everylabel"))
    arrays = "print(sorted(np.load('model.npz', allow_pickle=False)))"  # NumPy reads them
    printed = iter(elsewhere(tmp_path, code + KEEPS_LEARNING + arrays))
    for likelihood in LIKELIHOODS:
        _, _, names, _, wanted = model(likelihood)
        for form in forms:
            assert next(printed).split(",") == names, (form, likelihood)
            found = np.load(tmp_path / likelihood / f"{form}.npy")
            np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=f"{form}, {likelihood}")
    assert next(printed) == "No module named 'everylabel'"
    assert "'mean'" in next(printed)
