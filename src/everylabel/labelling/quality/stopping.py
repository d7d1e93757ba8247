"""The advice to stop: what the last labels brought, and what more labels would bring.

p is the model on all n labels, q the model without the last m: a fifth of those that the model did not
foretell. (Confirmations and near copies bring nothing, whatever other labels would bring.) y and z are the
classes that p and q predict:
    gain = mean over unlabelled items of p(y) - p(z)       expected accuracy that the last m labels brought
    next = gain log(1 + AHEAD / n) / log(n / (n - m))      the same for AHEAD more, if it grows with log n
The page suggests to stop if next is below LITTLE in two estimates at least APART labels apart; how often this
comes in time: docs/how-labelling-works.md. The mean of p(y) - q(y), which also counts that the model grows
surer, came in time less often.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from everylabel.core.arrays import softmax
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.training import CLASSIFIES, TrainingSet, train
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import FirstAnswer
from everylabel.log.events import Assessed

AHEAD = 100  # further labels whose gain is predicted
LITTLE = 0.002  # gain below which labels bring little; at .004 four of 9 pieces of advice came too early
APART = 10  # labels between two estimates that both count
STOP_AFTER = 60  # labels before which the page does not suggest to stop
FORETOLD = 0.9  # probability from which the model has foretold a label that it guessed
UNKNOWN = FirstAnswer(0)


def last_labels(
    labels: Mapping[int, int], first: Mapping[int, FirstAnswer], drawn: Collection[int]
) -> set[int]:
    """Return the items of the last m labels; those that were drawn at random always count.

    labels : class of each item; first : the first answer to each
    """

    def is_foretold(item: int) -> bool:
        _, guess, sure = first.get(item, UNKNOWN)
        return guess == labels[item] and (sure or 0.0) >= FORETOLD and item not in drawn

    taught = sorted((i for i in labels if not is_foretold(i)), key=lambda i: first.get(i, UNKNOWN).seq)
    return {*taught[-max(10, len(taught) // 5) :]}


def gain(
    training: TrainingSet, learner: Learner, last: Collection[int], items: np.ndarray, probs: np.ndarray
) -> float | None:
    """Return the expected accuracy that the last labels brought; None if too few labels are left without.

    items, probs : unlabelled items, and their class probabilities (m, k) by all labels
    """
    kept = {item: label for item, label in training.labels().items() if item not in last}
    if len(set(kept.values())) < 2:
        return None
    ruled_out = training.ruled_out()
    without = train(
        learner.pool.features, kept, training.n_classes, learner.names, ruled_out=ruled_out, tol=CLASSIFIES
    )
    then = softmax(learner.pool.rows(items) @ np.asarray(without.mean))
    rows = np.arange(len(items))
    return float(np.mean(probs.max(axis=1) - probs[rows, then.argmax(axis=1)]))


def stop(state: State) -> dict[str, Any]:
    """Return whether to suggest stopping because more labels would bring little, and a sentence."""
    known = (look for look in reversed(state.assessed) if look.gain is not None)
    looks = (look for look in known if look.labels <= len(state.labels))  # the latest first
    last = next(looks, None)
    if last is None:
        return {"suggest": False, "gain": None, "without_last": None, "sentence": ""}
    before = next((look for look in looks if look.labels <= last.labels - APART), None)
    suggest = last.labels >= STOP_AFTER and is_little(last) and before is not None and is_little(before)
    points = round(100.0 * max(last.gain or 0.0, 0.0), 1)
    by = (
        f"raised the expected accuracy by {points} points"
        if points
        else "did not raise the expected accuracy"
    )
    sentence = f"The last {last.without} labels {by}."
    if suggest:
        sentence += " More labels bring little: you may stop here."
    return {"suggest": suggest, "gain": last.gain, "without_last": last.without, "sentence": sentence}


def is_little(look: Assessed) -> bool:
    """Return whether AHEAD more labels would bring little."""
    if look.gain is None or not look.without or look.without >= look.labels:
        return False
    span = np.log(look.labels / (look.labels - look.without))
    return bool(look.gain * np.log1p(AHEAD / look.labels) / span < LITTLE)
