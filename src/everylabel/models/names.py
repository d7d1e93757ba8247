"""Class names as a prior: their vectors, by the texts' encoder, are weighted training rows before any label.

k classes, each with some phrases (name, description, keywords, examples); v_cj the vector of phrase j of c.
    h_cj = POOL_NORM u / |u|,   u = (v_cj - center) matrix,   center the mean of the classes' mean vectors
Each class's rows together weigh as much as k / 2 labels, at least 3 and at most 10: with few classes a label
is more informative. The labels decide whether the names are used (`are_confirmed`): names that are shuffled
among the classes, or mere codes, must not mislead for long.
Measured on Banking-77, DBpedia-14, TREC-6 and MPQA: with many classes 10 is at least as good as 1 and 3 from
0 to 400 labels, with two 3 is better by one to two points; a weight chosen by leave-one-out from five is
no better than all or nothing, and testing each class's name separately costs correct names 2 to 4 points.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from everylabel.core import fit_map, laplace
from everylabel.core.arrays import log_softmax
from everylabel.core.leave_one_out import leave_one_out
from everylabel.models.scaling import POOL_NORM, Scaling

LIGHTEST, HEAVIEST = 3.0, 10.0  # limits of the weight of a class's names, in labels
MOST_WORK = 3 * 10**6  # k (n + k)^2 up to which leave-one-out decides
AGREEMENT = 0.2  # least Cohen's kappa between names and labels, where leave-one-out is too much work
CONFIDENCE = 0.9  # of the upper bound of this agreement
FEW = 4  # labels below which names are used without a test


class NameRows(NamedTuple):
    """Rows for the names of classes, learned like labelled instances."""

    features: np.ndarray  # (r, d), scaled
    labels: np.ndarray  # (r,), or answers (r, k)
    weights: np.ndarray  # (r,)

    def together_with(
        self, features: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labelled instances with these rows appended, and all weights."""
        weights = np.r_[np.ones(len(labels)), self.weights]
        return np.r_[features, self.features], np.r_[labels, self.labels], weights


def phrase(name: str) -> str:
    """Return a class's name as words: card_not_working and CardNotWorking are "card not working"."""
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[_\-/.]+", " ", name))
    return " ".join(separated.split())


def name_rows(vectors: Mapping[int, np.ndarray], scaling: Scaling) -> NameRows | None:
    """Return rows for classes whose phrases have these vectors (m, d); None unless two classes have some."""
    if len(vectors) < 2:
        return None
    numbers = sorted(vectors)
    parts = [np.atleast_2d(np.asarray(vectors[c], np.float64)) for c in numbers]
    center = np.mean([part.mean(axis=0) for part in parts], axis=0)
    rows = scaling(np.concatenate(parts) - center + scaling.center)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    kept = norms[:, 0] > 1e-9 * max(
        float(norms.max()), 1e-300
    )  # a name equal to the mean of all carries no information
    if not kept.any():
        return None
    sizes = np.array([len(part) for part in parts])
    weight = min(max(len(numbers) / 2, LIGHTEST), HEAVIEST)
    labels, weights = np.repeat(numbers, sizes), np.repeat(weight / sizes, sizes)
    rows = POOL_NORM * rows[kept] / norms[kept]
    return NameRows(rows, labels[kept], weights[kept])


def are_confirmed(
    names: NameRows, features: np.ndarray, labels: np.ndarray, n_classes: int, prior_precision: float
) -> bool:
    """Return whether the labels confirm the names; True while there are fewer than FEW labels.

    The test is whether the left-out labels are more probable with the names than without. With too many
    classes or labels for that, a model trained on the names alone must agree with the labels far beyond
    chance (of names shuffled among 77 classes, some are right).
    """
    n = len(labels)
    if n < FEW:
        return True
    if labels.ndim == 1 and n_classes * (n + len(names.labels)) ** 2 > MOST_WORK:
        return _agree(names, features, labels, n_classes, prior_precision)
    if labels.ndim == 2:  # with several classes per item, as many labels as the work allows
        n = min(n, max(FEW, int((MOST_WORK / n_classes) ** 0.5) - len(names.labels)))
        some = np.linspace(0, len(labels) - 1, n).astype(np.int64)
        features, labels = features[some], labels[some]
    plain = features, labels, np.ones(n)
    with_names = _left_out(names.together_with(features, labels), n, n_classes, prior_precision)
    return with_names > _left_out(plain, n, n_classes, prior_precision)


def _agree(
    names: NameRows, features: np.ndarray, labels: np.ndarray, n_classes: int, prior_precision: float
) -> bool:
    """Return whether names alone and labels may agree: kappa = (hits - chance) / (1 - chance) (Cohen 1960).

    hits is an upper confidence bound of the share on which both agree: with five labels of 150 classes,
    one hit or none says little, and without names the model knows five classes at most.
    """
    n = len(labels)
    alone = fit_map(*names[:2], n_classes, prior_precision, weights=names.weights, tol=1e-4)
    guesses = np.argmax(features @ alone[:-1] + alone[-1], axis=1)
    shares = (np.bincount(numbers, minlength=n_classes) / n for numbers in (guesses, labels))
    chance = max(float(np.dot(*shares)), 1.0 / n_classes)  # agreement if guesses and labels were independent
    same = int(np.sum(guesses == labels))
    hits = float(betaincinv(same + 1, n - same, CONFIDENCE)) if same < n else 1.0  # Clopper and Pearson
    return hits - chance > AGREEMENT * (1.0 - chance)


def _left_out(
    given: tuple[np.ndarray, np.ndarray, np.ndarray], n: int, n_classes: int, precision: float
) -> float:
    """Return the leave-one-out log likelihood of the first n labels of `given`, made by `together_with`."""
    features, labels, weights = given
    mean = fit_map(features, labels, n_classes, precision, weights=weights, tol=1e-4)
    likelihood = "bernoulli" if labels.ndim == 2 else "gaussian"
    posterior = laplace(mean, features, likelihood, precision, weights=weights, labels=labels)
    left = np.asarray(leave_one_out(posterior))[:n]
    if labels.ndim == 2:
        return -float(
            np.nansum(np.logaddexp(0.0, left) - labels[:n] * left)
        )  # NaN where nothing was answered
    return float(np.sum(log_softmax(left)[np.arange(n), labels[:n]]))
