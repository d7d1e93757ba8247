"""The paper's six datasets (App. E) and digits, by name."""

from everylabel.models.datasets.dataset import Dataset, Split
from everylabel.models.datasets.load import load_dataset

__all__ = ["Dataset", "Split", "load_dataset"]
