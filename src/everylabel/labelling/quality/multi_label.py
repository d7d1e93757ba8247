"""Quality of a multi-label model: F1, exact match, and precision and recall by class.

n items drawn at random have answers (n, k) of 1, 0 and nan, and predictions with their own answers left out
(`core.leave_one_out`), by thresholds that the pool chose. m are the weights of `accuracy.py`. Of an item's
k pairs of item and class, h are present and predicted, and u are present, predicted or both:
    J = sum m h / sum m u,   F1 = 2 J / (1 + J)
F1 grows with J, so an interval of J gives one of F1. The pairs of one item depend on each other, so the
interval is Wilson's (1927) for J (1 - J) / v pairs, v = sum (m h - J m u)^2 / (sum m u)^2. For one class u is
at most 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from everylabel.core.posterior import Posterior
from everylabel.labelling.model.learner import Learner, predicted
from everylabel.labelling.model.training import TrainingSet, targets, train
from everylabel.labelling.quality.accuracy import FEWEST, FEWEST_OF_CLASS, share, wilson
from everylabel.labelling.quality.assessment import Assessment, Evidence, LeftOut
from everylabel.labelling.quality.suspects import probably_wrong
from everylabel.labelling.state.types import ClassSet
from everylabel.log.events import Assessed
from everylabel.models.names import NameRows
from everylabel.models.thresholds import left_out
from everylabel.selection.pool.features import Scaled


def assess_sets(
    training: TrainingSet, posterior: Posterior, learner: Learner, evidence: Evidence
) -> Assessment:
    """Return the quality of a model trained on these labels, on random checks and on the test set."""
    k, labels = training.n_classes, training.labels()
    idx, truth = targets(labels, k, True)
    drawn = np.array([evidence.drawn.get(int(i), 0.0) for i in idx])
    at = np.flatnonzero(drawn)
    said = left_out(posterior)[0][: len(idx)] >= learner.limits(training.columns)  # then rows of names
    checks = set_figures(truth[at], said[at], drawn[at], training.columns)
    column = {number: j for j, number in enumerate(training.columns)}
    known = {i: label.numbered(column) for i, label in evidence.test.items() if isinstance(label, ClassSet)}
    tested = None
    if known:
        rows, answers = targets(known, k, True)
        logits = np.asarray(learner.pool.rows(rows) @ np.asarray(posterior.mean))[:, :k]
        said = predicted(learner.link(logits), learner.limits(training.columns))
        tested = set_figures(answers, said, np.ones(len(rows)), training.columns)
        tested = {
            "n": len(rows),
            **(tested["micro"] or {"estimate": None, "low": None, "high": None}),
            **tested,
        }
    figures: dict[str, float] = {}
    if checks["micro"] is not None:
        figures = {name: round(value, 6) for name, value in checks["micro"].items()}
    body = Assessed(
        labels=len(labels),
        checks=len(at),
        expected=round(learner.expected(), 6),
        **figures,  # type: ignore
    )
    return Assessment(body, checks, tested)


def suspect_sets(
    features: np.ndarray | Scaled,
    labels: Mapping[int, ClassSet],
    columns: Sequence[int],
    names: NameRows | None = None,
    init: np.ndarray | None = None,
) -> dict[int, LeftOut]:
    """Return the verdict on each item's most doubtful answer, by a model trained without the item's answers.

    Each pair of item and class is a label of two classes, yes and no, and `suspects.py` takes all of them
    together. labels : by column; columns : class of each column
    """
    if not labels:
        return {}
    k, numbers = len(columns), dict(enumerate(columns))
    idx, truth = targets(labels, k, True)
    yes = left_out(train(features, labels, k, names, init=init, multi_label=True))[0][: len(idx)]
    known, wrong = ~np.isnan(truth), np.zeros(truth.shape)
    said = truth[known].astype(np.int64)
    wrong[known] = probably_wrong(np.stack([1.0 - yes[known], yes[known]], axis=1), said)
    found = {}
    for i, c, answers, p, w in zip(
        idx.tolist(), wrong.argmax(axis=1).tolist(), truth, yes, wrong, strict=True
    ):
        there, label = bool(answers[c] == 1.0), labels[i].numbered(numbers)
        other = ClassSet((), (columns[c],)) if there else ClassSet((columns[c],), ())
        own = float(p[c] if there else 1.0 - p[c])
        found[i] = LeftOut(label, own, label.then(other), 1.0 - own, float(w[c]))
    return found


def set_figures(
    truth: np.ndarray, guess: np.ndarray, weights: np.ndarray, classes: Sequence[int]
) -> dict[str, Any]:
    """Return F1 over all pairs (micro), the mean F1 of classes (macro), exact match, and figures by class.

    truth : (n, k) of 1, 0 and nan; guess : (n, k) whether each class is predicted
    """
    known = ~np.isnan(truth)
    there, said = (truth == 1.0) & known, guess & known
    rows = [_of_class(c, there[:, j], said[:, j], known[:, j], weights) for j, c in enumerate(classes)]
    each = [row["f1"]["estimate"] for row in rows if row["f1"] is not None]
    whole = known.all(axis=1)
    right = (there == said).all(axis=1)
    return {
        "micro": f1(there, said, weights) if len(truth) >= FEWEST else None,
        "macro": {"estimate": float(np.mean(each)), "classes": len(each)} if each else None,
        "exact": _exact(right[whole], weights[whole]),
        "classes": rows,
        "confusion": [],
    }


def f1(there: np.ndarray, said: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return F1 over pairs (n, k) of items and classes with its interval; None if there are no pairs."""
    hits = weights * (there & said).sum(axis=1)
    pairs = weights * (there | said).sum(axis=1)
    total = float(pairs.sum())
    if not total:
        return None
    j = float(hits.sum()) / total
    v = float(np.sum((hits - j * pairs) ** 2)) / total**2
    n = np.count_nonzero(pairs)
    of = wilson(j, min(j * (1.0 - j) / v, total) if v > 0.0 and 0.0 < j < 1.0 else float(n))
    return {name: 2.0 * value / (1.0 + value) for name, value in of._asdict().items()}


def _of_class(
    number: int, there: np.ndarray, said: np.ndarray, known: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    """Return the figures of one class, from the items with an answer for it."""
    there, said, weights = there[known], said[known], weights[known]
    either = int(np.count_nonzero(there | said))
    return {
        "class": number,
        "predicted": int(said.sum()),
        "precision": share(there, said, weights),
        "true": int(there.sum()),
        "recall": share(said, there, weights),
        "true_or_predicted": either,
        "f1": f1(there[:, None], said[:, None], weights) if either >= FEWEST_OF_CLASS else None,
    }


def _exact(right: np.ndarray, weights: np.ndarray) -> dict[str, float] | None:
    """Return the share of items whose classes are all correct."""
    if len(right) < FEWEST:
        return None
    n = float(weights.sum() ** 2 / (weights @ weights))
    return wilson(float(weights @ right / weights.sum()), n)._asdict()
