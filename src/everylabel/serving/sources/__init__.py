"""What a user points at, read: a file with columns, a folder of images, an array, a dataset's name."""

from everylabel.serving.sources.base import Source, only
from everylabel.serving.sources.features import read_arrays
from everylabel.serving.sources.folder import read_folder
from everylabel.serving.sources.known import read_dataset
from everylabel.serving.sources.table import read_file

__all__ = ["Source", "only", "read_arrays", "read_dataset", "read_file", "read_folder"]
