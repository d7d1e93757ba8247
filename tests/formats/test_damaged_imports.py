"""Damaged files of labels, classes and models are read, or refused in a sentence."""

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import everylabel as el
from everylabel.data.classes import class_list
from everylabel.formats.imports import read_labels
from everylabel.projects.project import Project, open_project
from tests.damage import damaged

TASKS = [
    {
        "id": i,
        "data": {"id": f"a{i}", "text": f"some words {i}"},
        "annotations": [
            {
                "completed_by": 1,
                "was_cancelled": False,
                "result": [
                    {"from_name": "k", "to_name": "t", "type": "choices", "value": {"choices": ["a"]}}
                ],
            }
        ],
    }
    for i in range(3)
]
ROWS = [{"id": f"a{i}", "label": "ab"[i % 2]} for i in range(5)]
LABELS = {
    "tasks.json": json.dumps(TASKS),
    "labels.json": json.dumps(ROWS),
    "labels.jsonl": "\n".join(map(json.dumps, ROWS)),
    "labels.csv": "id,label\n" + "".join(f"{row['id']},{row['label']}\n" for row in ROWS),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    path = tmp_path_factory.mktemp("damaged") / "x.npz"
    np.savez(path, X=np.eye(6), ids=np.array([f"a{i}" for i in range(6)]))
    return open_project(path, classes=["a", "b"])


@pytest.mark.parametrize("name", LABELS)
@hypothesis.settings(max_examples=60)
@hypothesis.given(data=st.data())
def test_damaged_labels(name: str, data: st.DataObject, project: Project) -> None:
    content = data.draw(damaged(LABELS[name].encode()))
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            found = read_labels(path, project)
        except el.EverylabelError:
            return
        assert {label.id for label in found.labels} <= set(project.ids)


@hypothesis.settings(max_examples=60)
@hypothesis.given(content=damaged(b'name,description,key\na,about a,1\nb,"x, y",2\n'))
def test_damaged_classes(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "classes.csv"
        path.write_bytes(content)
        try:
            class_list(str(path))
        except el.EverylabelError:
            return


def saved() -> bytes:
    rng = np.random.default_rng(0)
    posterior = el.laplace(rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), "gaussian", 0.3)
    with TemporaryDirectory() as folder:
        el.save(posterior, Path(folder) / "x.npz")
        return (Path(folder) / "x.npz").read_bytes()


@hypothesis.settings(max_examples=60)
@hypothesis.given(content=damaged(saved()))
def test_damaged_posterior_is_refused(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.npz"
        path.write_bytes(content)
        try:
            el.load(path)
        except el.EverylabelError:
            return
