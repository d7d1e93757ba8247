"""BALD (Houlsby et al., 2011) and BatchBALD (Kirsch et al., 2019): mutual information of labels and weights.

BALD scores an instance by ent(mean p) - mean ent(p), with ent the entropy; BatchBALD picks the batch with
the most information.
m members, s joint labellings of the batch so far; likelihood (s, m) = p(labelling | member).
    I(y_1..b; w) = ent(y_1..b) - sum_i E_w ent(y_i | w)
    one more label y adds ent(y | y_1..b) - E_w ent(y | w)
The search is greedy and lazy: the gain of an instance can only fall as the batch grows (submodularity), so
most instances need no second evaluation. Labellings are enumerated while there are at most `n_labellings`,
then drawn from the members.
Departure: only the `n_tried` instances of highest BALD score are searched.
"""

import numpy as np

from everylabel.core.checks import check_count
from everylabel.selection.pool import PoolView
from everylabel.selection.sampling import Members, entropies

AT_ONCE = 64  # instances evaluated together


def bald(pool: PoolView, idx: np.ndarray, rng: np.random.Generator, *, n_samples: int = 100) -> np.ndarray:
    """Return the mutual information of label and weights, from n_samples members."""
    members = Members(pool, check_count(n_samples, "n_samples"), rng)
    return _alone(members, idx)[0]


def batchbald(
    pool: PoolView,
    idx: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    n_samples: int = 100,
    n_labellings: int = 500,
    n_tried: int = 500,
) -> np.ndarray:
    """Return n positions, in the order of the greedy search."""
    members = Members(pool, check_count(n_samples, "n_samples"), rng)
    n_labellings, n_tried = check_count(n_labellings, "n_labellings"), check_count(n_tried, "n_tried")
    own, conditional = _alone(members, idx)
    tried = np.arange(len(idx))
    if len(tried) > max(n, n_tried):
        tried = np.sort(np.argsort(-own, kind="stable")[: max(n, n_tried)])
    probs = np.concatenate([p for _, p in members.chunks(idx[tried])], axis=1)
    bound, conditional = own[tried].copy(), conditional[tried]
    picked = [int(np.argmax(bound))]
    while len(picked) < n:
        likelihood, weights = _labellings(probs[:, picked], n_labellings, rng)
        bound[picked] = -np.inf
        picked.append(_best(probs, conditional, bound, likelihood, weights))
    return tried[picked]


def _alone(members: Members, idx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the BALD score and E_w ent(y | w) of each instance alone."""
    own, conditional = [], []
    for _, p in members.chunks(idx):
        inner = entropies(p).mean(axis=0)
        own.append(entropies(p.mean(axis=0)) - inner)
        conditional.append(inner)
    return np.concatenate(own).astype(np.float64), np.concatenate(conditional).astype(np.float64)


def _best(
    probs: np.ndarray,
    conditional: np.ndarray,
    bound: np.ndarray,
    likelihood: np.ndarray,
    weights: np.ndarray,
) -> int:
    """Return the instance with the largest gain, evaluating by descending bound; lowers `bound` in place."""
    order = np.argsort(-bound, kind="stable")
    best, gain = int(order[0]), -np.inf
    for start in range(0, len(order), AT_ONCE):
        if bound[order[start]] <= gain:
            break
        some = order[start : start + AT_ONCE]
        some = some[np.isfinite(bound[some])]
        if not len(some):
            break
        added = _entropy_given(likelihood, weights, probs[:, some]) - conditional[some]
        bound[some] = np.minimum(bound[some], added)
        at = int(np.argmax(added))
        if added[at] > gain:
            best, gain = int(some[at]), float(added[at])
    return best


def _entropy_given(likelihood: np.ndarray, weights: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Return ent(y | y_1..b) for candidates' probs (m, n, k): -sum_s w_s sum_y p(y | s) log p(y | s)."""
    m, n, k = probs.shape
    share = likelihood / np.maximum(likelihood.sum(axis=1, keepdims=True), 1e-30)  # p(member | s)
    given = (share @ probs.reshape(m, n * k)).reshape(len(likelihood), n, k)  # p(y | s)
    return np.asarray(weights @ entropies(given), np.float64)


def _labellings(probs: np.ndarray, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return p(labelling | member) (s, m) up to a factor each, and each labelling's weight.

    Rows are scaled to a largest entry of 1: the product over a large batch would underflow.
    """
    m, b, k = probs.shape
    if b * np.log(k) <= np.log(most) + 1e-9:  # all k^b labellings, weighted by their probability
        likelihood = np.ones((1, m), np.float32)
        for t in range(b):
            likelihood = (likelihood[:, None, :] * probs[:, t].T[None]).reshape(-1, m)
        return likelihood, likelihood.mean(axis=1)
    drawn = rng.integers(m, size=most)
    log_likelihood = np.zeros((most, m))
    for t in range(b):
        edges = np.cumsum(probs[drawn, t], axis=1)
        labels = np.minimum((rng.random(most)[:, None] > edges).sum(axis=1), k - 1)
        log_likelihood += np.log(np.maximum(probs[:, t, labels].T, 1e-30))
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    return np.exp(log_likelihood).astype(np.float32), np.full(most, 1.0 / most)
