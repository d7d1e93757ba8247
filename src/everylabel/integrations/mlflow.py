"""MLflow: a classifier, or the model of a project, as an MLflow model (`mlflow.pyfunc`).

>>> save_model(classifier, "model")  # features in, labels and probabilities out
>>> mlflow.pyfunc.load_model("model").predict(features)

    everylabel export reviews.csv --what model --format mlflow -o model
    mlflow models serve --env-manager local -m model -p 5001

A model is a folder of plain files (nothing is pickled): `classifier.npz`, and for texts `embedding.json`,
which names their encoder, with `embedder.npz` if that was fitted on them; a fine-tuned project is the folder
`network`. Loading it needs everylabel.
"""

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everylabel import __version__
from everylabel.core.errors import EverylabelError, need
from everylabel.data.cells import text_of
from everylabel.formats.exports import check_learned, save_network
from everylabel.labelling.model.training import prepare
from everylabel.labelling.state.state import LabelSet
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.classifier_files import load_classifier, save_classifier
from everylabel.models.embedding.embed import Embedder
from everylabel.projects.predictions import classifier_of
from everylabel.projects.project import Project

__all__ = ["Texts", "log_model", "save_model"]

CLASSIFIER, EMBEDDING, EMBEDDER, NETWORK = "classifier.npz", "embedding.json", "embedder.npz", "network"
EXTRAS = {None: "mlflow", "text": "mlflow,text"}  # extras that serving a model needs


class Texts(NamedTuple):
    """The encoder of texts: a model of the hub, or one fitted on other texts (`fit_out`).

    Examples
    --------
    >>> from everylabel.integrations.mlflow import Texts
    >>> how = Texts(model="sentence-transformers/all-MiniLM-L6-v2")  # for `save_model`
    """

    model: str | None = None
    fit: str | os.PathLike[str] | None = None


def save_model(
    classifier: LaplaceClassifier,
    path: str | os.PathLike[str],
    texts: Texts | None = None,
    **options: Any,
) -> None:
    """Write an MLflow model to a new folder.

    With `texts` it takes texts (a column "text", or a list of them), otherwise features (n, d). It returns a
    table: label, probability, and p(class) of each class; with several classes per item a list of labels, and
    p(class). `options` are those of `mlflow.pyfunc.save_model`.

    Examples
    --------
    >>> import mlflow.pyfunc
    >>> from everylabel.integrations.mlflow import save_model
    >>> save_model(el.LaplaceClassifier().fit(x[:100], y[:100]), "digits-model")
    >>> mlflow.pyfunc.load_model("digits-model").predict(x[100:103]).columns[0]
    'label'
    """
    pyfunc = _pyfunc()
    _check_new(path)
    with _written(classifier, texts) as flavor, _quiet():
        pyfunc.save_model(path=os.fspath(path), **flavor, **options)


def log_model(
    classifier: LaplaceClassifier, name: str = "model", texts: Texts | None = None, **options: Any
) -> Any:
    """Log a classifier to the active run, as `mlflow.pyfunc.log_model` does; return MLflow's ModelInfo.

    The extra `mlflow` brings mlflow-skinny, which cannot open MLflow's default store, a database (it finds
    no module alembic): set MLFLOW_TRACKING_URI to a server or a folder (file:///...), or install all
    of mlflow.

    Examples
    --------
    >>> import mlflow
    >>> from everylabel.integrations.mlflow import log_model
    >>> with mlflow.start_run():
    ...     info = log_model(el.LaplaceClassifier().fit(x[:100], y[:100]))
    """
    pyfunc = _pyfunc()
    with _written(classifier, texts) as flavor, _quiet():
        return pyfunc.log_model(name=name, **flavor, **options)


def save_project(project: Project, label_set: LabelSet, path: str | os.PathLike[str]) -> None:
    """Write the model trained on a project's labels (`projects.predictions.read_labels`) to a new folder."""
    check_learned(label_set)
    if project.generation is not None:
        _save_tuned(project, label_set, path)
        return
    ready = prepare(project.features)
    texts = None
    made = project.made_by
    if made is not None:
        if made.kind != "text":
            raise EverylabelError(
                f"project {project.name!r} holds items of kind {made.kind!r}; expected texts or features for "
                "MLflow: export the model as onnx, and embed before it"
            )
        texts = Texts(made.model, made.fit)
    save_model(classifier_of(ready, label_set), path, texts)


def _save_tuned(project: Project, label_set: LabelSet, path: str | os.PathLike[str]) -> None:
    """Write the fine-tuned network of a project with its head."""
    if project.kind != "text":
        raise EverylabelError(
            f"project {project.name!r} holds items of kind {project.kind!r}; expected texts for MLflow: "
            "export the model as onnx"
        )
    pyfunc, types = _pyfunc(), need("mlflow.types", "mlflow", "an MLflow model")
    _check_new(path)
    with tempfile.TemporaryDirectory() as folder, _quiet():
        data = Path(folder) / "everylabel"
        save_network(project, label_set, data / NETWORK)
        pyfunc.save_model(path=os.fspath(path), **_flavor(types.ColSpec("string"), "text", data))


class Served:
    """The model that `mlflow.pyfunc.load_model` wraps."""

    def __init__(
        self,
        classes: Sequence[str] | np.ndarray,
        proba: Callable[[Any], np.ndarray],
        takes_texts: bool,
        thresholds: np.ndarray | None = None,
    ) -> None:
        """Wrap a function that returns probabilities of texts or features.

        thresholds : of a classifier for several classes per item
        """
        self.classes, self.proba, self.takes_texts = np.asarray(classes), proba, takes_texts
        self.thresholds = thresholds

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return a table with a row per text or row of features; an empty text has no label."""
        pandas = need("pandas", "mlflow", "an MLflow model")
        given: Any = _texts(model_input) if self.takes_texts else _features(model_input)
        n, filled = len(given), np.arange(len(given))
        if self.takes_texts:
            filled = np.flatnonzero([bool(text.strip()) for text in given])
            given = [given[i] for i in filled]
        probs, label = np.full((n, len(self.classes)), np.nan), np.full(n, None, object)
        if len(filled):
            probs[filled] = self.proba(given)
            label[filled] = self.classes[probs[filled].argmax(axis=1)]
        best = {"probability": probs.max(axis=1)}
        if self.thresholds is not None:  # a list of classes, in place of the best and how probable that is
            best = {}
            for i in filled:
                label[i] = self.classes[probs[i] >= self.thresholds].tolist()
        each = {f"p({name})": probs[:, c] for c, name in enumerate(self.classes)}
        return pandas.DataFrame({"label": label, **best, **each})


def _load_pyfunc(path: str) -> Served:
    """Return the model in a folder; MLflow calls it by this name."""
    place = Path(path)
    if (place / NETWORK).exists():
        from everylabel.models.finetuning import TunedClassifier

        tuned = TunedClassifier.load(place / NETWORK)
        return Served(tuned.classes, tuned.predict_proba, True)
    classifier = load_classifier(place / CLASSIFIER)
    thresholds = classifier.thresholds_ if classifier.posterior_.multi_label else None
    if not (place / EMBEDDING).exists():
        return Served(classifier.classes_, classifier.predict_proba, False, thresholds)
    model = json.loads((place / EMBEDDING).read_text())["model"]
    fit = place / EMBEDDER if (place / EMBEDDER).exists() else None
    embedder = Embedder("text", model, fit=fit)

    def proba(texts: list[str]) -> np.ndarray:
        rows = embedder.rows(texts, cache=False)  # a server would fill the cache without limit
        return classifier.predict_proba(rows)

    return Served(classifier.classes_, proba, True, thresholds)


def _check_new(path: str | os.PathLike[str]) -> None:
    if Path(path).exists() and (not Path(path).is_dir() or any(Path(path).iterdir())):
        raise EverylabelError(f"path is {str(path)!r}, which exists; expected a new folder")


def _pyfunc() -> Any:
    return need("mlflow.pyfunc", "mlflow", "an MLflow model")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence MLflow's advice to give an input example: the signature describes the input."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*input example was not provided", UserWarning)
        yield


@contextmanager
def _written(classifier: LaplaceClassifier, texts: Texts | None) -> Iterator[dict[str, Any]]:
    """Write the model's files to a temporary folder; yield MLflow's arguments that describe it."""
    types = need("mlflow.types", "mlflow", "an MLflow model")
    spec, extra = types.ColSpec("string"), None if texts is None or texts.fit is not None else "text"
    if texts is None:
        spec = types.TensorSpec(np.dtype(np.float64), (-1, classifier.n_features_in_))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "everylabel"
        data.mkdir()
        save_classifier(classifier, data / CLASSIFIER)
        if texts is not None:
            (data / EMBEDDING).write_text(json.dumps({"model": texts.model}))
            if texts.fit is not None:
                shutil.copyfile(texts.fit, data / EMBEDDER)
        yield _flavor(spec, extra, data)


def _flavor(spec: Any, extra: str | None, data: Path) -> dict[str, Any]:
    """Return the arguments of MLflow that describe the model.

    spec, extra : MLflow's specification of the input, and the extra that reads it
    """
    models = need("mlflow.models", "mlflow", "an MLflow model")
    types = need("mlflow.types", "mlflow", "an MLflow model")
    return {
        "loader_module": __name__,
        "data_path": str(data),
        "signature": models.ModelSignature(inputs=types.Schema([spec])),
        "pip_requirements": [f"everylabel[{EXTRAS[extra]}]=={__version__}"],
    }


def _texts(given: Any) -> list[str]:
    if hasattr(given, "columns"):
        columns = list(given.columns)
        if "text" not in columns and len(columns) != 1:
            raise EverylabelError(f"the table has the columns {columns[:5]}; expected one named 'text'")
        given = given["text" if "text" in columns else columns[0]]
    return [text_of(text) for text in np.asarray(given, dtype=object).reshape(-1)]


def _features(given: Any) -> np.ndarray:
    rows = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given, np.float64)
    return rows[None] if rows.ndim == 1 else rows
