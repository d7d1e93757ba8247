"""A pool's state as plain arrays, and back: what a pool that keeps no history knows beyond its features.

n instances, d features (with the bias), k classes, m labels learned since the last training.
    mean (d, k), cov (d, d), prior_precision; logits (k, n), variances (n,) or none
    labels, weights, state (n,); auto_step
    taught (m,) their instances, residuals (m, k), steps (m,): what each was learned with
    doubted (u,) instances for which classes were ruled out since, doubts (u, k): what that was learned with
    ruled_out (r, 2): all that is ruled out, an instance and a class each
"""

from collections.abc import Mapping

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.selection.pool.cache import Cache
from everylabel.selection.pool.doubts import Ruled, wide
from everylabel.selection.pool.state import Running, Taught


def kept_arrays(record: Running, cache: Cache) -> dict[str, np.ndarray]:
    """Return copies of the posterior, of what labels were learned with, and of the logits."""
    posterior, taught = record.posterior, record.taught
    k = posterior.n_classes
    residuals = [np.asarray(wide(known.residual, posterior)) for known in taught.values()]
    return {
        "mean": np.array(posterior.mean),
        "cov": np.array(posterior.cov),
        "prior_precision": np.array(posterior.prior_precision),
        "taught": np.array(list(taught), np.int64),
        "residuals": np.concatenate([np.zeros((0, k)), *residuals]),
        "steps": np.array([known.step_size for known in taught.values()], np.float64),
        "doubted": np.array(list(record.doubts), np.int64),
        "doubts": np.concatenate(
            [np.zeros((0, k)), *(wide(some, posterior) for some in record.doubts.values())]
        ),
        **cache.kept(),
    }


def record_of(kept: Mapping[str, np.ndarray]) -> Running:
    """Return the record that these arrays were made of."""
    posterior = Posterior(kept["mean"], kept["cov"], prior_precision=float(kept["prior_precision"]))
    rows = zip(kept["taught"].tolist(), kept["residuals"], kept["steps"].tolist(), strict=True)
    taught = {item: Taught(residual[None, :], step) for item, residual, step in rows}
    doubts = zip(kept["doubted"].tolist(), kept["doubts"], strict=True)
    return Running(posterior, (), taught, {item: some[None, :] for item, some in doubts})


def as_pairs(ruled_out: Mapping[int, Ruled]) -> np.ndarray:
    """Return instances and the classes that they are not of, a row each."""
    pairs = [(item, number) for item, numbers in ruled_out.items() for number in sorted(numbers)]
    return np.array(pairs, np.int64).reshape(-1, 2)


def from_pairs(pairs: np.ndarray) -> dict[int, Ruled]:
    """Return the classes that instances are not of."""
    found: dict[int, set[int]] = {}
    for item, number in pairs.tolist():
        found.setdefault(item, set()).add(number)
    return {item: frozenset(numbers) for item, numbers in found.items()}
