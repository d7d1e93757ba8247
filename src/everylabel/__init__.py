"""everylabel: active learning with a classifier that learns from every label at once.

>>> import everylabel as el
>>> mean = el.fit_map(features, labels, n_classes)       # exact last-layer training
>>> posterior = el.laplace(mean, features)                # a Gaussian around it
>>> posterior = el.update(posterior, new_features, new_labels)
>>> probs = el.predict_proba(posterior, features)
>>> pool = el.Pool(pool_features, posterior)
>>> idx = el.select(pool, n=10, rng=rng, ask=oracle)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everylabel.core import (
        EverylabelError,
        Posterior,
        Samples,
        add_class,
        condition,
        fit_map,
        forget,
        laplace,
        load,
        logit_variance,
        logits,
        mix,
        predict_proba,
        reweight,
        sample,
        save,
        update,
    )
    from everylabel.data import read_items
    from everylabel.models.class_names import embed_names, name_rows
    from everylabel.models.classifier import LaplaceClassifier
    from everylabel.models.classifier_files import load_classifier, save_classifier
    from everylabel.models.embedding import embed
    from everylabel.models.embedding.datasets import load_dataset
    from everylabel.models.finetuning import finetune
    from everylabel.models.thresholds import thresholds
    from everylabel.notebook.label import label
    from everylabel.notebook.session import Session
    from everylabel.selection import Pool, optimal_batch, select, select_question, strategies

__version__ = "0.2.0"

# All is loaded when it is first asked for: a command can be stopped from its first moment on.
_CORE = (
    "EverylabelError",
    "Posterior",
    "Samples",
    "add_class",
    "condition",
    "fit_map",
    "forget",
    "laplace",
    "load",
    "logit_variance",
    "logits",
    "mix",
    "predict_proba",
    "reweight",
    "sample",
    "save",
    "update",
)
_LAZY = {
    **dict.fromkeys(_CORE, "everylabel.core"),
    "LaplaceClassifier": "everylabel.models.classifier",
    "Pool": "everylabel.selection",
    "optimal_batch": "everylabel.selection",
    "select": "everylabel.selection",
    "select_question": "everylabel.selection",
    "strategies": "everylabel.selection",
    "embed": "everylabel.models.embedding",
    "embed_names": "everylabel.models.class_names",
    "name_rows": "everylabel.models.class_names",
    "finetune": "everylabel.models.finetuning",
    "label": "everylabel.notebook.label",
    "Session": "everylabel.notebook.session",
    "load_dataset": "everylabel.models.embedding.datasets",
    "read_items": "everylabel.data",
    "load_classifier": "everylabel.models.classifier_files",
    "save_classifier": "everylabel.models.classifier_files",
    "thresholds": "everylabel.models.thresholds",
}

__all__ = [
    "EverylabelError",
    "LaplaceClassifier",
    "Pool",
    "Posterior",
    "Samples",
    "Session",
    "add_class",
    "condition",
    "embed",
    "embed_names",
    "finetune",
    "fit_map",
    "forget",
    "label",
    "laplace",
    "load",
    "load_classifier",
    "load_dataset",
    "logit_variance",
    "logits",
    "mix",
    "name_rows",
    "optimal_batch",
    "predict_proba",
    "read_items",
    "reweight",
    "sample",
    "save",
    "save_classifier",
    "select",
    "select_question",
    "strategies",
    "thresholds",
    "update",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        found = globals()[name] = getattr(import_module(_LAZY[name]), name)  # not asked for here again
        return found
    raise AttributeError(f"module 'everylabel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
