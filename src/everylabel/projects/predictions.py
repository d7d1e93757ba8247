"""The labels of a project, and predictions for new items by its model.

New items are embedded like the project's own, or given as features.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everylabel.core import Posterior, predict_proba
from everylabel.core.arrays import softmax
from everylabel.core.errors import EverylabelError
from everylabel.data.items import Items, Options
from everylabel.data.read import ARRAYS, TABLES, read
from everylabel.data.readers.rows import column_names
from everylabel.data.readers.table import NO_IDS
from everylabel.labelling.model.learner import fit_classes
from everylabel.labelling.model.training import ClassNames, Prepared, confirmed_names, prepare, train
from everylabel.labelling.sources.consensus import find_consensus
from everylabel.labelling.sources.evidence import Evidence
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import NONE, Refused
from everylabel.models.class_names import NameRows
from everylabel.models.embedding.embed import Embedder
from everylabel.models.scaling import Scaling
from everylabel.models.thresholds import thresholds_of
from everylabel.projects.features import Progress, broken_rows
from everylabel.projects.generations import load_generation
from everylabel.projects.log import read_state
from everylabel.projects.project import Project, left_out, notes_on

if TYPE_CHECKING:
    from everylabel.models.classifier import LaplaceClassifier


@dataclass(frozen=True, eq=False)
class Predicted:
    """New items with class probabilities (n, k), and notes about choices and omitted items."""

    items: Items
    probabilities: np.ndarray
    classes: Sequence[str]
    notes: tuple[str, ...]
    thresholds: np.ndarray | None = None  # (k,), of a multi-label project


class Head(NamedTuple):
    """A model of unscaled features."""

    posterior: Posterior  # without the labels that made it
    scaling: Scaling
    classes: tuple[str, ...]
    thresholds: np.ndarray | None = None  # (k,), if items may have several classes

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return the probabilities (n, k) of features (n, d)."""
        scaled = self.scaling(np.asarray(features, np.float64))
        return np.asarray(predict_proba(self.posterior, scaled, method="mean"))


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model of a project's scaled features, and the suggestions' evidence about its items."""

    prepared: Prepared
    label_set: LabelSet
    posterior: Posterior
    evidence: Evidence | None = None

    @cached_property
    def thresholds(self) -> np.ndarray | None:
        """Thresholds (k,) of the classes; None if an item has one class."""
        return thresholds_of(self.posterior, self.prepared.features, self.label_set.labels)

    def probabilities(self, items: np.ndarray) -> np.ndarray:
        """Return class probabilities (m, k) of the project's own items, given their suggestions."""
        rows = self.prepared.features[items].astype(np.float64)
        probs = np.asarray(predict_proba(self.posterior, rows, method="mean"))
        if self.evidence is None:
            return probs
        return np.asarray(softmax(self.evidence.combined(items, np.log(np.maximum(probs, 1e-300)))))


def head_of(project: Project, label_set: LabelSet) -> Head:
    """Return the model trained exactly on all labels of a project."""
    model = trained(prepare(project.features), label_set)
    classes = tuple(map(str, label_set.classes))
    return Head(model.posterior.replace(data=None), model.prepared.scaling, classes, model.thresholds)


def trained(prepared: Prepared, label_set: LabelSet) -> TrainedModel:
    """Return the model trained exactly on all labels, class names and suggestions."""
    names = confirmed_name_rows(prepared, label_set)
    if not (label_set.labels or names is not None or label_set.suggestions):
        raise Refused(409, "nothing_learned", "there are no labels yet; label some first")
    k = len(label_set.classes)
    if label_set.multi_label:
        posterior = train(prepared.features, label_set.labels, k, names, multi_label=True)
        return TrainedModel(prepared, label_set, posterior)
    labels, none = _labels_by_consensus(prepared, label_set)
    how: dict[str, Any] = {"drawn": label_set.drawn, "ruled_out": label_set.ruled_out}
    fitted = fit_classes(prepared.features, labels, none, k, names, sources=label_set.suggestions, **how)
    return TrainedModel(prepared, label_set, fitted.posterior, fitted.evidence)


def classifier_of(prepared: Prepared, label_set: LabelSet) -> "LaplaceClassifier":
    """Return a classifier of unscaled features, trained on all labels, with thresholds by the pool."""
    from everylabel.models.classifier_files import as_classifier  # scikit-learn takes two seconds

    model = trained(prepared, label_set)
    thresholds = {} if model.thresholds is None else {"thresholds": model.thresholds.tolist()}
    return as_classifier(model.posterior, prepared.scaling, label_set.classes, **thresholds)


def _labels_by_consensus(prepared: Prepared, label_set: LabelSet) -> tuple[dict[int, Any], list[int]]:
    """Return labels and items of no class, with the consensus where several people answered."""
    labels = label_set.labels | dict.fromkeys(label_set.none, NONE)
    answers = {i: given for i, given in label_set.answers.items() if i in labels}
    found = find_consensus(prepared.features, answers, label_set.final)
    labels |= {i: agreed.label for i, agreed in found.items() if agreed.label != NONE or label_set.none}
    return {i: c for i, c in labels.items() if c != NONE}, [i for i, c in labels.items() if c == NONE]


def read_labels(
    project: Project, store: str | None, trust_names: bool | None = None, *, names: ClassNames | None = None
) -> LabelSet:
    """Return the labels of a project from its log.

    trust_names : whether to learn from class names; None: as the labels and the setting say
    names : vectors of class names; without them only labels and answers are useful
    """
    state, ids = read_state(project, store)
    if trust_names is not None:
        state.settings["names"] = trust_names
    names = ClassNames() if names is None else names
    generation = load_generation(project.folder, state.generation) if names.encoder is not None else None
    if generation is not None:
        names = generation.class_names()
    try:
        names.learn(names.missing(state))
    except EverylabelError:
        if trust_names:
            raise
    vectors = names.vectors(state)
    if trust_names and not vectors:
        raise EverylabelError(
            f"--names-prior is on, and project {project.name!r} has no class names that its model knows; "
            "leave it out"
        )
    trusted = bool(trust_names) or (generation is not None and bool(vectors))
    return LabelSet.of(state, vectors, trusted).seen_from(ids)


def confirmed_name_rows(prepared: Prepared, label_set: LabelSet) -> NameRows | None:
    """Return the class names as training rows, if the labels confirm them or the user trusts them."""
    k = len(label_set.classes)
    labels = label_set.labels | dict.fromkeys(label_set.none, k)
    n_classes = k + bool(label_set.none)
    how = label_set.trust_names, label_set.multi_label
    return confirmed_names(label_set.names, prepared.features, labels, n_classes, prepared.scaling, *how)


def predict(
    project: Project,
    label_set: LabelSet,
    new: str | Path,
    options: Options,
    progress: Progress | None = None,
    embedder: Embedder | None = None,
) -> Predicted:
    """Return predictions for new items by the model trained exactly on all labels.

    new : a table, a folder of images, or features, as `open_project` takes them
    options : of the new file; unset ones are the project's own, if the file has such a column
    embedder : embeds the new items, if the project's features came with its source
    """
    head = head_of(project, label_set)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        items = _read(project, Path(new), options)
        notes = notes_on(items)
        features, items, about_broken = _features(project, items, progress, embedder)
    warned = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    if features.shape[1] != project.features.shape[1]:
        raise EverylabelError(
            f"{str(new)!r} has {features.shape[1]} features; expected {project.features.shape[1]}, as the "
            "project has"
        )
    all_notes = (*notes, *about_broken, *dict.fromkeys(warned))
    return Predicted(items, head.probabilities(features), head.classes, all_notes, head.thresholds)


def _read(project: Project, path: Path, options: Options) -> Items:
    if not path.exists():
        raise EverylabelError(
            f"{str(path)!r} does not exist; expected new items: a table, a folder or features"
        )
    if path.suffix.lower() in TABLES and path.is_file():
        own, there = project.options, column_names(path, options.encoding)
        usual = Options(own.text_column, own.image_column, id_column=own.id_column)
        there.append(NO_IDS)
        unknown = {
            name: None
            for name in ("text_column", "image_column", "id_column")
            if getattr(usual, name) not in there
        }
        options = options.or_else(replace(usual, **unknown))
    return read(str(path.absolute()), options)


def _features(
    project: Project, items: Items, progress: Progress | None, embedder: Embedder | None
) -> tuple[np.ndarray, Items, tuple[str, ...]]:
    """Return features, the items without broken images, and notes."""
    if items.features is not None:
        return items.features, items, ()
    made = project.made_by
    if made is None and embedder is None:
        raise EverylabelError(
            f"project {project.name!r} was labelled on features that came with it; expected new ones of "
            f"{project.features.shape[1]} columns ({', '.join(ARRAYS)}), made the same way: everylabel embed "
            "with the model that made those"
        )
    kind = project.kind if embedder is None else embedder.kind
    if items.kind != kind:
        raise EverylabelError(f"the new items are of kind {items.kind!r}; expected {kind!r}")
    if project.generation is not None:
        features = project.generation.embed(items.items)
    elif embedder is not None:
        features = embedder.rows(items.items)
    else:
        assert made is not None
        features = made.embed(items.items, project.trust_code, progress)
    broken = broken_rows(features) if items.kind == "image" else ()
    if not broken:
        return features, items, ()
    return np.delete(features, broken, axis=0), items.without(broken), (left_out(items, broken),)
