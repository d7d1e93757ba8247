"""A user's own data: `read_items` and the files it reads."""

from everylabel.models.reading.items import Items, read_items

__all__ = ["Items", "read_items"]
