"""Labels that exist already: of a table, or of Label Studio."""

from everylabel.formats.labels import read_labels
from everylabel.formats.matching import Imported, Label

__all__ = ["Imported", "Label", "read_labels"]
