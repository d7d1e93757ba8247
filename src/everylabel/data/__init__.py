"""A user's own data: `read_items` and the files it reads."""

from everylabel.data.items import Items, read_items

__all__ = ["Items", "read_items"]
