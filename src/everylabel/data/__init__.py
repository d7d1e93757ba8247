"""A user's own data: one value `Items`, one reader a format; `read_items` is all a user needs."""

from everylabel.data.items import Items
from everylabel.data.read import read_items

__all__ = ["Items", "read_items"]
