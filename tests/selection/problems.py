"""Small pools for the tests of selection, away from the defaults."""

from typing import Any, NamedTuple

import numpy as np

import everylabel as el


class Problem(NamedTuple):
    """A pool with true labels, and labels the posterior was trained on."""

    pool: el.Pool
    features: Any
    labels: Any
    labelled: Any


def problem(
    n: int = 60,
    d: int = 4,
    k: int = 3,
    likelihood: str = "gaussian",
    seed: int = 0,
    n_labelled: int = 8,
    convert: Any = np.asarray,
    dtype: Any = np.float64,
    keep_data: bool = True,
    **pool: Any,
) -> Problem:
    rng = np.random.default_rng(seed)
    k = 2 if likelihood == "binary" else k
    features = rng.normal(size=(n, d)).astype(dtype)
    labels = np.argmax(features @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k)), axis=1)
    labelled = rng.choice(n, n_labelled, replace=False)
    x, y = convert(features[labelled]), convert(labels[labelled])
    mean = el.fit_map(x, y, k, 0.7, binary=likelihood == "binary")
    posterior = el.laplace(mean, x, likelihood, 0.7, keep_data=keep_data)
    given = {"labelled_idx": labelled, "labels": labels[labelled], **pool}
    return Problem(el.Pool(convert(features), posterior, **given), features, labels, labelled)
