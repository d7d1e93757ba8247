"""Reading a user's own data: one reader per format, each returning `Items`; users call `read_items`."""

from everylabel.data.items import Items
from everylabel.data.read import read_items

__all__ = ["Items", "read_items"]
