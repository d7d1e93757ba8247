"""The Python reference: the docstring of every public name."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from website.reference.docstrings import rendered
from website.reference.signatures import signature

START = """import numpy as np
from sklearn.datasets import load_digits

import everylabel as el

x, y = load_digits(return_X_y=True)
x = x / 16
rng = np.random.default_rng(0)
post = el.laplace(el.fit_map(x[:100], y[:100], 10), x[:100], labels=y[:100])
"""  # the first lines of every example

PAGES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "posterior": (
        "Posteriors and updates",
        "everylabel",
        "A Gaussian over the weights of a last layer: made, moved by labels, asked, kept. The equations are "
        "in [the maths](../maths.md), what each update is worth in [updates](../updates.md).",
        (
            *("fit_map", "laplace", "update", "condition", "forget", "add_class"),
            *("predict_proba", "logits", "logit_variance"),
            *("sample", "reweight", "mix", "save", "load", "Posterior", "Samples", "EverylabelError"),
        ),
    ),
    "selection": (
        "Choosing what to label",
        "everylabel",
        "A pool of instances, and strategies that choose from it; [which one to use](../selection.md).",
        ("Pool", "select", "select_question", "strategies", "optimal_batch"),
    ),
    "data": (
        "Data and features",
        "everylabel",
        "From files, texts and images to features: [read data](../how-to/read-data.md), [embed "
        "it](../how-to/own-embeddings.md), [encoders](../encoders.md), [datasets](../datasets.md).",
        ("read_items", "embed", "embed_names", "name_rows", "load_dataset", "finetune"),
    ),
    "classifier": (
        "The classifier",
        "everylabel",
        "A scikit-learn estimator that learns label by label, and its file.",
        ("LaplaceClassifier", "thresholds", "save_classifier", "load_classifier"),
    ),
    "torch": (
        "PyTorch",
        "everylabel.torch",
        "Any network's last layer, networks that learn from labels, and ensembles (the extra `torch`); "
        "[how to](../how-to/finetune.md).",
        (
            *("ActiveLearner", "train_network", "train_with", "TunedEncoder", "TunedClassifier", "LastLayer"),
            *("ensemble_logits", "dropout_logits", "train_ensemble", "train_head"),
        ),
    ),
    "notebook": (
        "Labelling from Python",
        "everylabel",
        "The page in a notebook or beside a script, labels and model live; [how to](../notebooks.md).",
        ("label", "Session"),
    ),
    "scale": (
        "Beyond one machine",
        "everylabel.scale",
        "Features in shards, pools on a Ray cluster (the extra `ray`); [how to](../scale.md).",
        ("embed_shards", "ShardedFeatures", "ShardPool"),
    ),
    "integrations": (
        "Use with other libraries",
        "everylabel.integrations",
        "One module a library, imported by itself; longer examples are in [ecosystem](../ecosystem.md).",
        (
            *("skactiveml.EverylabelStrategy", "skactiveml.EverylabelClassifier", "modal.query_strategy"),
            *("skorch.LastLayerPosterior", "river.EverylabelClassifier"),
            *("laplace.from_laplace", "laplace.to_laplace"),
            *("mlflow.save_model", "mlflow.log_model", "mlflow.Texts", "choosing.pool_of"),
        ),
    ),
}  # page -> title, module, introduction, names in order


def public() -> list[tuple[str, str]]:
    """Return every public name with the module to import it from, without importing anything."""
    return [
        (_home(module, name), name.rpartition(".")[2])
        for _, module, _, names in PAGES.values()
        for name in names
    ]


def pages() -> dict[str, str]:
    """Return the Python pages by file name."""
    return {f"{page}.md": _page(*what) for page, what in PAGES.items()}


def overview() -> str:
    """Return tables of all names with the first sentence of their docstrings, for the index page."""
    lines = []
    for page, (title, module, _, names) in PAGES.items():
        lines += ["", f"### [{title}]({page}.md)", "", "| name | what it is |", "|---|---|"]
        for name in names:
            place = f"{page}.md#{name.lower().replace('.', '')}"
            lines.append(f"| [`{name}`]({place}) | {_headline(_get(module, name))} |")
    return "\n".join(lines)


def _page(title: str, module: str, about: str, names: tuple[str, ...]) -> str:
    parts = [f"# {title}", about, "All examples begin with", f"```python\n{START}```"]
    for name in names:
        parts += _described(name, _get(module, name), "el" if module == "everylabel" else module)
    return "\n\n".join(parts) + "\n"


def _described(name: str, what: Any, prefix: str) -> Iterator[str]:
    yield f"## {name}"
    yield f"```python\n{signature(what, f'{prefix}.{name}')}\n```"
    yield rendered(inspect.getdoc(what) or "")
    if inspect.isclass(what):
        for key, member in _members(what):
            yield f"### {name}.{key}"
            if callable(member):
                yield f"```python\n{signature(member, key)}\n```"
            yield rendered(inspect.getdoc(member) or "")


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties of everylabel that have a docstring, in the order of the source."""
    ours = [base for base in owner.__mro__ if base.__module__.startswith("everylabel")]
    for key in dict.fromkeys(key for base in ours for key in vars(base)):
        member = inspect.getattr_static(owner, key)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        says = inspect.isfunction(member) or isinstance(member, property)
        if says and not key.startswith("_") and (member.__doc__ or "").strip():
            yield key, member


def _headline(what: Any) -> str:
    text = (inspect.getdoc(what) or "").split("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|")


def _home(module: str, name: str) -> str:
    """Return the module that a name is imported from; the name may start with submodules."""
    return f"{module}.{name}".rpartition(".")[0]


def _get(module: str, name: str) -> Any:
    return getattr(import_module(_home(module, name)), name.rpartition(".")[2])
