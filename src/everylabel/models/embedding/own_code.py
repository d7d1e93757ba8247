"""A model's folder that brings code of its own, which loading would run.

code    Python files, wherever they lie in it; `auto_map` in a settings file (transformers); a module in
        modules.json that is not of sentence-transformers. Weights are never unpickled: torch loads them
        with weights_only, and an ONNX file cannot name a library of operators.
"""

import json
from pathlib import Path

from everylabel.core.errors import EverylabelError, listed

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
    """Return what of a folder is code, or leads to it."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".so", ".pyc"))
    return [str(path.relative_to(folder)) for path in files if path.suffix != ".json" or _leads_to_code(path)]


def _leads_to_code(path: Path) -> bool:
    if path.name != "modules.json" and not path.name.endswith("config.json"):
        return False
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # whoever loads it says so
        return False
    if isinstance(settings, dict):
        return bool(settings.get("auto_map"))
    modules = settings if isinstance(settings, list) else []
    types = [str(module.get("type", OURS)) for module in modules if isinstance(module, dict)]
    return not all(kind.startswith(OURS) for kind in types)
