"""The paper's six datasets (App. E) and digits, by name."""

from everylabel.data.datasets.dataset import Dataset, Split
from everylabel.data.datasets.load import load_dataset

__all__ = ["Dataset", "Split", "load_dataset"]
