"""The class of items with several answers, from the answerers' confusion matrices and the head.

n items, J answerers (people or agents), k classes; v_ij the answer of j to item i, ABSENT if there is none.
    q_i ~ p_i prod_j theta_j[:, v_ij]            p_i the head's class probabilities, or the classes' shares
    theta_j = `confusion` of the counts sum_i q_i v_ij'
alternately until q converges (Dawid and Skene 1979, with the prior of `reliability`, under which one
parameter per person is enough at first; Raykar et al. 2010 with p). The head is trained on q as soft targets
and predicts each item from the other folds, so that an answer does not confirm itself. Items whose truth is
known (an adjudicator's answer) have q = e_y throughout. The model is trained on the most probable class of
items with several answers (`find_consensus`). Measured (`benchmarks/sources.py`) against majority,
crowd-kit's Dawid-Skene and CROWDLAB.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from everylabel.core import fit_map
from everylabel.core.arrays import log_softmax, softmax
from everylabel.labelling.model.training import CLASSIFIES
from everylabel.labelling.sources.reliability import confusion, count, label_shares
from everylabel.labelling.state.types import CANNOT_TELL, Answer
from everylabel.models.scaling import suited_precision
from everylabel.selection.pool.features import LazyScaled

ABSENT = -1
KNOWN = 20  # minimum number of items with several answers from which people's reliability is estimated
UNLIKELY = 0.01  # prior probability that an answerer is useless: people are assumed to be careful
FOLDS, PASSES = 5, 2  # folds of the head, and how often it is retrained on the consensus so far
ROUNDS, SETTLED = 50, 1e-4  # maximum number of EM rounds; mean change of q at which they end
CAREFUL = 0.9  # probability that an answer is right, at first


class ItemConsensus(NamedTuple):
    """The consensus on one item."""

    label: int  # the most probable class
    values: list[int]  # the answers, sorted
    probs: Mapping[int, float]  # probability of each class


def combine(
    votes: np.ndarray,
    k: int,
    probs: np.ndarray | None = None,
    truth: Mapping[int, int] = MappingProxyType({}),
) -> np.ndarray:
    """Return the consensus q (n, k) on items with votes (n, J).

    probs : a model's out-of-sample probabilities (n, k); truth : known classes, by row
    """
    certain, known = np.array([*truth], np.int64), np.eye(k)[[*truth.values()]]
    cast = [np.flatnonzero(votes[:, j] != ABSENT) for j in range(votes.shape[1])]
    shares = [label_shares(votes[rows, j], k) for j, rows in enumerate(cast)]
    q = vote_shares(votes, k)
    q[certain] = known
    for _ in range(ROUNDS):
        if probs is None:
            logs = np.tile(np.log((q.sum(axis=0) + 1.0) / (len(q) + k)), (len(q), 1))
        else:
            logs = np.log(np.maximum(probs, 1e-12))
        for j, rows in enumerate(cast):
            said = votes[rows, j]
            theta = confusion(count(q[rows], said, k), shares[j], UNLIKELY)
            logs[rows] += np.log(theta.likelihood(said))
        before, q = q, np.asarray(softmax(logs))
        q[certain] = known
        if np.abs(q - before).sum(axis=1).mean() < SETTLED:
            break
    return q


def agree(
    features: np.ndarray, votes: np.ndarray, k: int, truth: Mapping[int, int] = MappingProxyType({})
) -> np.ndarray:
    """Return the consensus q (n, k) on items with votes (n, J) and features (n, d), using a head."""
    q = combine(votes, k, truth=truth)
    for _ in range(PASSES):
        q = combine(votes, k, out_of_sample(features, q, k), truth)
    return q


def find_consensus(
    features: "np.ndarray | LazyScaled",
    answers: Mapping[int, Sequence[Answer]],
    final: Mapping[int, Any] = MappingProxyType({}),
) -> dict[int, ItemConsensus]:
    """Return the most probable class of items with several answers, given all answers and the features.

    Items with one answer are left out: it would only confirm itself. The result is empty if fewer than KNOWN
    items have several answers, which say too little about people's reliability.

    answers : to each item; "cannot tell" does not count
    final : an adjudicator's answer to each item that has one
    """
    said = {
        i: {a.person: a.value for a in given if isinstance(a.value, int) and a.value != CANNOT_TELL}
        for i, given in answers.items()
    }
    items = [i for i in sorted(said) if len(said[i]) > 1]
    classes = sorted({value for i in items for value in said[i].values()})
    if len(classes) < 2 or len(items) < KNOWN:
        return {}
    people = sorted({person for i in items for person in said[i]})
    column, place = ({value: j for j, value in enumerate(some)} for some in (classes, people))
    votes = np.full((len(items), len(people)), ABSENT)
    for row, i in enumerate(items):
        for person, value in said[i].items():
            votes[row, place[person]] = column[value]
    truth = {row: column[final[i]] for row, i in enumerate(items) if final.get(i) in column}
    probs = agree(np.asarray(features[np.array(items)]), votes, len(classes), truth)
    best = probs.argmax(axis=1)
    return {
        i: ItemConsensus(
            classes[best[row]],
            sorted(said[i].values()),
            dict(zip(classes, probs[row].tolist(), strict=True)),
        )
        for row, i in enumerate(items)
    }


def certainty(left_out: Mapping[int, float], k: int) -> dict[int, float]:
    """Return the probability q that each label is right, from a model that was trained without it.

    With answers that are right with probability a, and wrong answers that name any other class,
        q = p a / (p a + (1 - p) (1 - a) / (k - 1)),      a = mean of q
    alternately (EM with one parameter).

    left_out : probability p of each item's label by the model without that label
    """
    p, a = np.array(list(left_out.values())), CAREFUL
    q = p
    for _ in range(ROUNDS):
        right, wrong = a * p, (1.0 - a) * (1.0 - p) / max(k - 1, 1)
        q = right / np.maximum(right + wrong, 1e-12)
        a = float(np.clip(q.mean(), 0.5, 0.99)) if len(q) else a
    return dict(zip(left_out, q.tolist(), strict=True))


def doubtful(certainty: Mapping[int, float]) -> list[int]:
    """Return items about which another answer is worth more than a label of a new item, best first.

    An answer is right with probability a, the mean of q. A wrong label harms about as much as a right one
    helps: a new item brings a - (1 - a), another answer 2 (1 - q) a, as it turns a wrong label into a right
    one. The second is larger if q < 1 / (2 a).

    certainty : probability q that the label of an answered item is right
    """
    if not certainty:
        return []
    least = 0.5 / max(float(np.mean(list(certainty.values()))), 0.5)
    return sorted((i for i, q in certainty.items() if q < least), key=lambda i: certainty[i])


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
