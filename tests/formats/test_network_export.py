"""The model of a project whose encoder was fine-tuned: files that give the probabilities of `predict`."""

import io
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from tests.models.tiny import some_texts, tiny_bert

pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
from tests.projects import test_network
from tests.web.servers import label_here

NEW = some_texts(12, seed=5)[0] + ["w1", "w0 w3 w9 w9 w9 w9 w9 w9 w9"]  # of several lengths


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, bert: str) -> Path:
    """Return the source of a project with one generation of tuned features."""
    path = tmp_path_factory.mktemp("tuned") / "texts.csv"
    lines = ["id,text", *(f"t{i},{text}" for i, text in enumerate(test_network.TEXTS))]
    path.write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        test_network.by_hand(patch)
        with test_network.opened(path, bert) as service:
            test_network.label(service)
            test_network.trainer_of(service)._attempt()
            assert service.state.generation is not None
    return path


@pytest.fixture(scope="module")
def predicted(source: Path) -> np.ndarray:
    """Return what `everylabel predict` says of new texts, columns as the classes."""
    new, out = source.with_name("new.csv"), source.with_name("predicted.jsonl")
    new.write_text("\n".join(["text", *NEW]) + "\n")
    run("predict", str(new), "--project", str(source), "--text-column", "text", "-o", str(out))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = np.array([[row["p(up)"], row["p(down)"]] for row in rows])
    assert found.shape == (len(NEW), 2)
    assert found.max(axis=1).min() < 0.99  # some are in doubt: equal probabilities say something
    return found


def run(*arguments: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def export(source: Path, out: Path, *more: str) -> str:
    return run("export", str(source), "--what", "model", "-o", str(out), *more)


def test_folder_opens_in_sentence_transformers_and_has_the_head(
    source: Path, predicted: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    from everylabel.torch import TunedClassifier, TunedEncoder

    folder = tmp_path / "network"
    export(source, folder)  # a name without an ending is a folder
    tuned = TunedEncoder.load(folder)
    np.testing.assert_allclose(
        SentenceTransformer(str(folder), device="cpu").encode(NEW), tuned.embed_tuned(NEW), atol=1e-5
    )
    loaded = TunedClassifier.load(folder)
    assert loaded.classes == ["up", "down"]
    np.testing.assert_allclose(loaded.predict_proba(NEW), predicted, atol=1e-4)
    assert loaded.predict(NEW).tolist() == [loaded.classes[c] for c in predicted.argmax(axis=1)]
    with pytest.raises(EverylabelError, match="there already; expected a new folder"):
        raise_from(source, folder)
    monkeypatch.chdir(folder)
    for code in re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL):
        names: dict[str, Any] = {"texts": NEW}
        exec(code, names)
        np.testing.assert_allclose(np.asarray(names["probabilities"].tolist()), predicted, atol=1e-4)


def raise_from(source: Path, out: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(source), "--what", "model", "-o", str(out)])
    assert done.exit_code == 2
    raise EverylabelError(" ".join(done.output.split()))


def test_shards_by_the_tuned_encoder_are_labelled_with_the_labels_of_the_sample(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everylabel.torch import TunedEncoder

    monkeypatch.chdir(tmp_path)
    export(source, Path("tuned"))
    run("export", str(source), "-o", "labels.csv")
    texts = [*some_texts(300, seed=7)[0], *test_network.TEXTS]
    Path("all.csv").write_text("\n".join(["text", *texts]) + "\n")
    run("embed", "all.csv", "--text-column", "text", "-o", "shards/", "--model", "tuned")
    shards = np.load(Path("shards") / "part-000000.npy")
    tuned = TunedEncoder.load("tuned").embed(texts)[:, shards.shape[1] :]  # beside the frozen features
    np.testing.assert_allclose(shards, tuned, atol=1e-4)
    with label_here("shards", "--import", "labels.csv") as server:
        labelled = {*test_network.TEXTS[: test_network.LABELLED]}
        assert server.client.get("/api/progress")["labelled"] == sum(text in labelled for text in texts)


def test_onnx_goes_from_token_ids_to_probabilities(
    source: Path, bert: str, predicted: np.ndarray, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    from sentence_transformers import SentenceTransformer

    export(source, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["up", "down"]
    read = SentenceTransformer(bert, device="cpu").preprocess
    for some in (slice(None), slice(0, 1), slice(12, 14)):  # batches of any size and length
        given = read(NEW[some])
        fed = {name: given[name].numpy() for name in ("input_ids", "attention_mask")}
        probabilities, labels = session.run(["probabilities", "label"], fed)
        np.testing.assert_allclose(probabilities, predicted[some], atol=1e-4)
        np.testing.assert_array_equal(labels, predicted[some].argmax(axis=1))


@pytest.mark.filterwarnings("ignore")
def test_mlflow_takes_texts(source: Path, predicted: np.ndarray, tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs the extra everylabel[mlflow]")
    import mlflow.pyfunc

    export(source, tmp_path / "served", "--format", "mlflow")
    found = mlflow.pyfunc.load_model(str(tmp_path / "served")).predict([*NEW, " "])
    np.testing.assert_allclose(found[["p(up)", "p(down)"]][:-1], predicted, atol=1e-4)
    assert found["label"][:-1].tolist() == [("up", "down")[c] for c in predicted.argmax(axis=1)]
    assert found["label"].isna().tolist() == [False] * len(NEW) + [True]


def test_exported_head_without_encoder_says_so(source: Path, tmp_path: Path) -> None:
    assert "holds the head alone" in export(source, tmp_path / "model.npz")


def test_without_torch_the_folder_is_written_and_the_graph_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    export(source, tmp_path / "network")
    assert (tmp_path / "network" / "head.safetensors").is_file()
    done = CliRunner().invoke(
        app, ["export", str(source), "--what", "model", "-o", str(tmp_path / "model.onnx")]
    )
    assert done.exit_code != 0
    assert "everylabel[text]" in " ".join(done.output.split())


def test_frozen_project_has_no_network_to_write(tmp_path: Path) -> None:
    from everylabel.formats.exports import save_network
    from everylabel.labelling.state.state import LabelSet
    from everylabel.projects.project import open_project

    project = open_project("digits", folder=tmp_path / "digits")
    nothing: LabelSet = None  # type: ignore[assignment]
    with pytest.raises(EverylabelError, match="no fine-tuned network"):
        save_network(project, nothing, tmp_path / "network")


@pytest.mark.parametrize("trusted", [True, False])
def test_classifier_of_an_untrusted_encoder_uses_frozen_features(
    bert: str, tmp_path: Path, trusted: bool
) -> None:
    import everylabel as el
    from everylabel.models.finetuning import Recipe, TunedClassifier

    runtime = pytest.importorskip("onnxruntime")
    texts, labels = some_texts(60)
    found = el.finetune(bert, texts, labels, recipe=Recipe(steps=5, learning_rate=5e-3))
    found.trusted = found.encoder.trusted = trusted
    head = found.classifier()
    wanted = head.predict_proba(found.embed(NEW))
    made = TunedClassifier.of(found.encoder, head)
    np.testing.assert_allclose(made.predict_proba(NEW), wanted, atol=1e-6)
    again = TunedClassifier.load(made.save(tmp_path / "both"))
    np.testing.assert_allclose(again.predict_proba(NEW), wanted, atol=1e-4)
    session = runtime.InferenceSession(io.BytesIO(made.onnx()).getvalue())
    given = found.encoder.encoder.inputs(NEW)
    fed = {name: given[name].numpy() for name in ("input_ids", "attention_mask")}
    np.testing.assert_allclose(session.run(["probabilities"], fed)[0], wanted, atol=1e-4)
