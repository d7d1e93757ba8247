"""Fine-tuning of an encoder on labelled items, cross-validated (the extra `everylabel[text]`).

Names are imported when they are used: `job` must be importable without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everylabel.core.errors import need

if TYPE_CHECKING:
    from everylabel.models.finetuning.classifier import TunedClassifier
    from everylabel.models.finetuning.encoder import Encoder, TunedEncoder
    from everylabel.models.finetuning.recipe import Recipe
    from everylabel.models.finetuning.tuning import Cancelled, Finetuned, Tuner, finetune

__all__ = [
    "Cancelled",
    "Encoder",
    "Finetuned",
    "Recipe",
    "TunedClassifier",
    "TunedEncoder",
    "Tuner",
    "finetune",
]
_MODULES = {
    "Encoder": "encoder",
    "Recipe": "recipe",
    "TunedClassifier": "classifier",
    "TunedEncoder": "encoder",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need("torch", "text", "fine-tuning an encoder")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'tuning')}"), name)
