"""A classifier and a labelled project as MLflow models, loaded as MLflow loads them."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import everylabel as el
from everylabel.cli import app
from everylabel.integrations.mlflow import log_model, save_model
from tests.cli.test_label import labelled_reviews
from tests.integrations.data import digits

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*type hint:UserWarning"),  # of MLflow's own functions
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mlflow"),
    pytest.mark.filterwarnings("ignore:.*[Ff]ilesystem tracking backend:FutureWarning"),
]


@pytest.fixture(scope="module")
def pyfunc() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*type hint", UserWarning)
        pytest.importorskip("mlflow", reason="needs the extra everylabel[mlflow]")
        import mlflow.pyfunc

    return mlflow.pyfunc


def classifier() -> tuple[el.LaplaceClassifier, np.ndarray]:
    x, y = digits(200, 3)
    return el.LaplaceClassifier().fit(x[:100], np.array(["nought", "one", "two"])[y[:100]]), x[100:]


def test_features_in_labels_and_probabilities_out(tmp_path: Path, pyfunc: Any) -> None:
    import pandas as pd

    clf, x = classifier()
    save_model(clf, tmp_path / "model")
    assert [path.suffix for path in (tmp_path / "model").rglob("*.pkl")] == []
    model = pyfunc.load_model(str(tmp_path / "model"))
    for given in (x, pd.DataFrame(x)):
        found = model.predict(given)
        assert list(found) == ["label", "probability", "p(nought)", "p(one)", "p(two)"]
        np.testing.assert_array_equal(found["label"], clf.predict(x))
        np.testing.assert_allclose(found.iloc[:, 2:], clf.predict_proba(x))
    with pytest.raises(el.EverylabelError, match="which exists; expected a new folder"):
        save_model(clf, tmp_path / "model")


def test_several_classes_per_item_are_a_list(tmp_path: Path, pyfunc: Any) -> None:
    x, y = digits(300, 4)
    answers = np.stack([y % 2 == 0, y > 1], axis=1)
    several = el.LaplaceClassifier().fit(x[:200], answers[:200], classes=["even", "large"])
    save_model(several, tmp_path / "model")
    table = pyfunc.load_model(str(tmp_path / "model")).predict(x[200:260])
    assert list(table.columns) == ["label", "p(even)", "p(large)"]
    there = np.array(["even", "large"])
    right = [there[row == 1].tolist() for row in several.predict(x[200:260])]
    assert table["label"].tolist() == right


@pytest.mark.usefixtures("own_place")
def test_model_of_a_project_takes_texts(tmp_path: Path, pyfunc: Any) -> None:
    import pandas as pd

    source = labelled_reviews(tmp_path)
    new = ["a review of soap that cleans number 12", "a review of beans that taste number 13"]
    run = CliRunner().invoke(app, ["export", str(source), "--what", "model", "--format", "mlflow", "-o", "m"])
    assert run.exit_code == 0, run.output
    assert "model of" in run.output
    (tmp_path / "new.csv").write_text("\n".join(["body", *new]))
    assert (
        CliRunner().invoke(app, ["predict", "new.csv", "--project", str(source), "-o", "p.jsonl"]).exit_code
        == 0
    )
    wanted = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    model = pyfunc.load_model(str(tmp_path / "m"))
    for given in (new, pd.DataFrame({"text": new})):
        found = model.predict(given)
        assert found["label"].tolist() == ["soap", "beans"]
        np.testing.assert_allclose(found["probability"], [row["probability"] for row in wanted], atol=1e-5)
    holes = model.predict(pd.DataFrame({"text": [new[0], None, " "]}))
    assert holes["label"].fillna("").tolist() == ["soap", "", ""]
    assert holes["probability"].isna().tolist() == [False, True, True]
    assert len(model.predict(pd.DataFrame({"text": []}, dtype=object))) == 0
    again = CliRunner().invoke(
        app, ["export", str(source), "--what", "model", "--format", "mlflow", "-o", "m"]
    )
    assert again.exit_code == 2
    assert "expected a new folder" in again.output


def test_model_is_logged_to_a_run(tmp_path: Path, pyfunc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database wants the whole of MLflow
    clf, x = classifier()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    with mlflow.start_run():
        info = log_model(clf, "digits")
    found = pyfunc.load_model(info.model_uri).predict(x)
    np.testing.assert_array_equal(found["label"], clf.predict(x))
