"""Use one thread: the networks here are tiny."""

import torch

from tests.fixtures import cache, minilm, real_data

torch.set_num_threads(1)
__all__ = ["cache", "minilm", "real_data"]
