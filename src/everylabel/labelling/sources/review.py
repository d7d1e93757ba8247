"""Review of given labels: the probability that each is wrong, and the number of wrong ones.

The given labels are one source, s_i of item i; people have checked some of them.
    q_i ~ p_i theta[:, s_i],    wrong_i = 1 - q_i[s_i]
p_i are the class probabilities by a head that was not trained on the item (`consensus.out_of_sample`). It is
trained on the given labels first and then on q, in which labels that are probably wrong count less.
theta = r I + (1 - r) pi has one parameter, the share of right labels: CAREFUL of 10 at first, then estimated
from people's random checks. Estimating theta from q itself was no better on three sets, and on one it
converged to no label being wrong. The number of wrong labels is estimated by `labelling/quality/accuracy.py`
with another predictor: given 1 - wrong_i as its certainty and people's answers as verdicts, it returns the
share of right labels among those not checked, with an interval. Proposals that a person checked count as
chosen, random checks as drawn.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from everylabel.labelling.model.training import TrainingSet
from everylabel.labelling.quality.accuracy import Interval, Verdicts, accuracy_on_unlabelled
from everylabel.labelling.sources.consensus import out_of_sample
from everylabel.labelling.sources.reliability import Confusion, label_shares
from everylabel.labelling.state.types import GIVEN
from everylabel.selection.pool.features import LazyScaled

CAREFUL, OF = 9.0, 10.0  # prior: right labels, and the number of labels that this prior weighs
PASSES = 1  # further trainings after the first


def review(
    features: np.ndarray,
    given: np.ndarray,
    k: int,
    people: Mapping[int, int] = MappingProxyType({}),
    drawn: Mapping[int, float] = MappingProxyType({}),
) -> np.ndarray:
    """Return the probability that each label is wrong (n,).

    features : (n, d); given : the labels (n,); people : their answers to some of the items
    drawn : weights of items that were drawn at random for people to check
    """
    right = CAREFUL + sum(weight for i, weight in drawn.items() if people[i] == given[i])
    level = right / (OF + sum(drawn.values()))
    theta = Confusion(level * np.eye(k) + (1.0 - level) * label_shares(given, k), 0.0)
    checked = np.array(sorted(people), np.int64)
    known = np.eye(k)[[people[int(i)] for i in checked]]
    q = np.eye(k)[given]
    q[checked] = known
    for _ in range(1 + PASSES):
        probs = out_of_sample(features, q, k)
        q = probs * theta.likelihood(given)
        q /= q.sum(axis=1, keepdims=True)
        right_by_model = q[np.arange(len(given)), given]  # without people's answer to the item itself
        q[checked] = known
    return np.asarray(1.0 - right_by_model)


def number_wrong(
    wrong: np.ndarray, given: np.ndarray, people: Mapping[int, int], drawn: Mapping[int, float]
) -> Interval:
    """Return the number of wrong given labels, with an interval.

    wrong : the result of `review`; the other arguments are as there
    """
    checked = np.array(sorted(people), np.int64)
    right = np.array([people[int(i)] == given[i] for i in checked], bool)
    unchecked = np.setdiff1d(np.arange(len(given)), checked)
    if not len(unchecked):
        return Interval(*[float(np.sum(~right))] * 3)
    weights = np.array([drawn.get(int(i), 0.0) for i in checked])
    unseen = np.full(len(checked), np.nan)
    sure = 1.0 - wrong
    share = accuracy_on_unlabelled(Verdicts(sure[checked], right, unseen, right, weights), sure[unchecked])
    seen, n = int(np.sum(~right)), len(unchecked)
    low, high = np.floor(n * (1.0 - share.high)), np.ceil(n * (1.0 - share.low))  # whole labels
    return Interval(seen + n * (1.0 - share.estimate), seen + float(low), seen + float(high))


class Reviewed(NamedTuple):
    """The review of a project's given labels, by item of the pool."""

    items: np.ndarray  # (m,)
    wrong: np.ndarray  # (m,) probability that the label is wrong
    n_wrong: Interval  # number of given labels that are wrong
    n_corrected: int  # labels for which people gave another class
    checks: int  # random checks that `n_wrong` is based on

    def proposals(self, free: np.ndarray, n: int) -> list[int]:
        """Return up to n free items whose labels are most probably wrong; free : (items,) bool."""
        order = self.items[np.argsort(-self.wrong, kind="stable")]
        return [int(i) for i in order[free[order]][:n]]


def review_given(training: TrainingSet, features: "np.ndarray | LazyScaled") -> Reviewed | None:
    """Return the review of the labels of the source GIVEN; None if there are none."""
    given = next((one for one in training.sources() if one.source == GIVEN), None)
    if given is None or not len(given.items):
        return None
    rows = {item: row for row, item in enumerate(given.items.tolist())}
    people = {rows[item]: label for item, label in training.labels().items() if item in rows}
    drawn = {rows[item]: weight for item, weight in training.drawn.items() if rows.get(item) in people}
    wrong = review(features[given.items], given.classes, training.n_classes, people, drawn)
    n_wrong = number_wrong(wrong, given.classes, people, drawn)
    n_corrected = sum(int(label != given.classes[row]) for row, label in people.items())
    return Reviewed(given.items, wrong, n_wrong, n_corrected, len(drawn))
