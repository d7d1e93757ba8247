"""everylabel for PyTorch users (the extra `everylabel[torch]`)."""

from everylabel.models.last_layer import LastLayer
from everylabel.models.recipe import train_head

__all__ = ["LastLayer", "train_head"]
