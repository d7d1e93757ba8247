"""everylabel for PyTorch users (the extra `everylabel[torch]`)."""

from everylabel.core.errors import need

need("torch", "torch", "everylabel.torch")  # and say so before the imports below fail

from everylabel.models.active_learner import ActiveLearner  # noqa: E402
from everylabel.models.finetuning import TunedClassifier, TunedEncoder  # noqa: E402
from everylabel.models.last_layer import LastLayer  # noqa: E402
from everylabel.models.paper_recipe import (  # noqa: E402
    dropout_logits,
    ensemble_logits,
    train_ensemble,
    train_head,
)
from everylabel.models.trainers import train_network, train_with  # noqa: E402

__all__ = [
    "ActiveLearner",
    "LastLayer",
    "TunedClassifier",
    "TunedEncoder",
    "dropout_logits",
    "ensemble_logits",
    "train_ensemble",
    "train_head",
    "train_network",
    "train_with",
]
