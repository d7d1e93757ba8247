"""everylabel for PyTorch users (the extra `everylabel[torch]`)."""

from everylabel.models.last_layer import LastLayer
from everylabel.models.members import dropout_logits, ensemble_logits, train_ensemble
from everylabel.models.recipe import train_head

__all__ = ["LastLayer", "dropout_logits", "ensemble_logits", "train_ensemble", "train_head"]
