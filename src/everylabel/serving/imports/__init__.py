"""Labels that exist already: of a table, or of Label Studio."""

from everylabel.serving.imports.found import Imported, Label
from everylabel.serving.imports.read import read_labels

__all__ = ["Imported", "Label", "read_labels"]
