"""The paper's six datasets (App. E) and digits, by name."""

from everylabel.data.datasets.dataset import Dataset, Split
from everylabel.data.datasets.load import read_dataset

__all__ = ["Dataset", "Split", "read_dataset"]
