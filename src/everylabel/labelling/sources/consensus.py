"""The class of items with several answers, from the answerers' confusion matrices and the head.

n items, J answerers (people or agents), k classes; v_ij the answer of j to item i, ABSENT if there is none.
    q_i ~ p_i prod_j theta_j[:, v_ij]            p_i the head's class probabilities, or the classes' shares
    theta_j = `confusion` of the counts sum_i q_i v_ij'
alternately until q converges (Dawid and Skene 1979, with the prior of `reliability`, under which one
parameter per person is enough at first; Raykar et al. 2010 with p). The head is trained on q as soft targets
and predicts each item from the other folds, so that an answer does not confirm itself. Items whose truth is
known (an adjudicator's answer) have q = e_y throughout. Measured (`benchmarks/sources.py`) against majority,
crowd-kit's Dawid-Skene and CROWDLAB.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from everylabel.core import fit_map
from everylabel.core.arrays import log_softmax, softmax
from everylabel.labelling.sources.reliability import Confusion, confusion, count, label_shares
from everylabel.models.scaling import suited_precision

ABSENT = -1
UNLIKELY = 0.01  # prior probability that an answerer is useless: people are assumed to be careful
FOLDS, PASSES = 5, 2  # folds of the head, and how often it is retrained on the consensus so far
ROUNDS, SETTLED = 50, 1e-4  # maximum number of EM rounds; mean change of q at which they end
CLASSIFIES = 1e-3  # tolerance of training that is good enough to classify


class Consensus(NamedTuple):
    """Class probabilities of items with answers, and the answerers' confusion matrices."""

    probs: np.ndarray  # (n, k)
    confusions: list[Confusion]  # of each answerer

    @property
    def classes(self) -> np.ndarray:
        return np.asarray(self.probs.argmax(axis=1))


def combine(
    votes: np.ndarray, k: int, probs: np.ndarray | None = None, truth: Mapping[int, int] | None = None
) -> Consensus:
    """Return the consensus on items with votes (n, J), given a model's out-of-sample probabilities (n, k)."""
    certain = np.array(sorted(truth or {}), np.int64)
    known = np.eye(k)[[(truth or {})[int(i)] for i in certain]]
    cast = [np.flatnonzero(votes[:, j] != ABSENT) for j in range(votes.shape[1])]
    shares = [label_shares(votes[rows, j], k) for j, rows in enumerate(cast)]
    q = vote_shares(votes, k)
    q[certain] = known
    confusions: list[Confusion] = []
    for _ in range(ROUNDS):
        confusions = [
            confusion(count(q[rows], votes[rows, j], k), shares[j], UNLIKELY) for j, rows in enumerate(cast)
        ]
        if probs is None:
            logs = np.tile(np.log((q.sum(axis=0) + 1.0) / (len(q) + k)), (len(q), 1))
        else:
            logs = np.log(np.maximum(probs, 1e-12))
        for j, rows in enumerate(cast):
            logs[rows] += np.log(confusions[j].likelihood(votes[rows, j]))
        before, q = q, np.asarray(softmax(logs))
        q[certain] = known
        if np.abs(q - before).sum(axis=1).mean() < SETTLED:
            break
    return Consensus(q, confusions)


def agree(
    features: np.ndarray, votes: np.ndarray, k: int, truth: Mapping[int, int] | None = None
) -> Consensus:
    """Return the consensus on items with votes (n, J) and features (n, d), using a head trained on it."""
    found = combine(votes, k, truth=truth)
    for _ in range(PASSES):
        found = combine(votes, k, out_of_sample(features, found.probs, k), truth)
    return found


def out_of_sample(features: np.ndarray, targets: np.ndarray, k: int, folds: int = FOLDS) -> np.ndarray:
    """Return class probabilities (n, k), each by a head of the other folds; targets as in `fit_map`."""
    n = len(features)
    fold = np.random.default_rng(0).permutation(n) % folds
    logits, mean = np.zeros((n, k)), None
    x = features.astype(np.float64)
    for b in range(folds):
        rest = fold != b
        mean = fit_map(
            x[rest], targets[rest], k, suited_precision(k), init=mean, soft=targets.ndim == 2, tol=CLASSIFIES
        )
        logits[~rest] = x[~rest] @ mean[:-1] + mean[-1]
    return np.asarray(np.exp(log_softmax(logits)))


def vote_shares(votes: np.ndarray, k: int) -> np.ndarray:
    """Return the share of each class among the votes of each item (n, k)."""
    counts = np.stack([(votes == c).sum(axis=1) for c in range(k)], axis=1).astype(np.float64)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
