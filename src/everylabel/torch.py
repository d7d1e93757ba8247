"""everylabel for PyTorch users (the extra `everylabel[torch]`)."""

from everylabel.models.recipe import train_head

__all__ = ["train_head"]
