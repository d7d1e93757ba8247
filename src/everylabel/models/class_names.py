"""Class names as a prior: their vectors, by the texts' encoder, are weighted training rows before any label.

    embed_names     {"refund": ["refund", "money back"], ...} -> {"refund": vectors (2, d), ...}
    name_rows       vectors -> features, labels, weights, for `fit_map` and `laplace` beside real instances
    ClassNames      the names kept by `LaplaceClassifier`, with the test whether the labels confirm them

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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import betaincinv

from everylabel.core import fit_map, laplace
from everylabel.core.arrays import log_softmax
from everylabel.core.errors import EverylabelError, listed
from everylabel.core.leave_one_out import leave_one_out
from everylabel.models.embedding import embed
from everylabel.models.embedding.choose import knows_words
from everylabel.models.scaling import POOL_NORM, Scaling

LIGHTEST, HEAVIEST = 3.0, 10.0  # limits of the weight of a class's names, in labels
MOST_WORK = 3 * 10**6  # k (n + k)^2 up to which leave-one-out decides
AGREEMENT = 0.2  # least Cohen's kappa between names and labels, where leave-one-out is too much work
CONFIDENCE = 0.9  # of the upper bound of this agreement
FEW = 4  # labels below which names are used without a test
TEST_AGAIN = 1.25  # growth of the number of labels after which the names are tested again

Phrases = str | Sequence[str]


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

    def as_answers(self, k: int) -> Self:
        """Return these rows for several classes per item: yes for the name's class, no for all others."""
        return self._replace(labels=np.eye(k)[self.labels])


def phrase(name: str) -> str:
    """Return a class's name as words: card_not_working and CardNotWorking are "card not working"."""
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[_\-/.]+", " ", name))
    return " ".join(separated.split())


def phrases_of(name: str, more: Phrases) -> list[str]:
    """Return a class's name as words, and further phrases, each once."""
    return list(dict.fromkeys([phrase(name), *([more] if isinstance(more, str) else more)]))


def embed_names(
    names: Sequence[str] | Mapping[str, Phrases], model: str | None = None, **options: Any
) -> dict[str, np.ndarray]:
    """Return the vectors (m, d) of each class's phrases, by the model that embedded the texts.

    Parameters
    ----------
    names : sequence of str, or dict
        Class names; or one or several phrases for each: a description, keywords, examples. The name itself,
        as words ("card_lost" is "card lost"), is always the first.
    model, **options
        As in `embed`. The model must know the meaning of words, which TF-IDF does not.

    Examples
    --------
    >>> names = el.embed_names({"billing": "invoices and fees", "refund": ["money back", "send it back"]})
    >>> names["refund"].shape  # the name, and two phrases
    (3, 384)
    """
    given: Mapping[str, Phrases] = names if isinstance(names, Mapping) else dict.fromkeys(names, ())
    if isinstance(names, str) or not given:
        raise EverylabelError(f"names is {names!r}; expected class names, or phrases by class name")
    if not knows_words(model):
        raise EverylabelError(
            f"model is {model!r}: TF-IDF knows the words of its own texts only; expected a language model"
        )
    phrases = {name: phrases_of(name, more) for name, more in given.items()}
    rows = embed([words for some in phrases.values() for words in some], model, kind="text", **options)
    ends = np.cumsum([len(some) for some in phrases.values()])
    return dict(zip(phrases, np.split(rows, ends[:-1]), strict=True))


def name_rows(
    names: Mapping[Any, Any] | Sequence[Any], features: Any, classes: Sequence[Any] | None = None
) -> NameRows:
    """Return training rows for class names: features, labels (class numbers) and weights.

    Parameters
    ----------
    names : dict or sequence
        Vectors (m, d) or (d,) by class, as `embed_names` returns them; in a sequence, by class number.
    features : array (n, d)
        Instances such as the pool, embedded by the same model as the names and scaled as for training. The
        name vectors are moved to their centre and scaled to their norm.
    classes : sequence, optional
        The classes in the order of their numbers; by default the order of `names`.

    `rows.together_with(x, y)` returns labelled instances with these rows appended, and all weights.

    Examples
    --------
    >>> names = {"even": x[y % 2 == 0].mean(axis=0), "odd": x[y % 2 == 1].mean(axis=0)}  # any vectors
    >>> rows = el.name_rows(names, x)
    >>> features, labels, weights = rows.together_with(x[:10], y[:10] % 2)
    >>> features.shape
    (12, 64)
    """
    vectors = dict(names if isinstance(names, Mapping) else enumerate(names))
    order = list(vectors) if classes is None else list(classes)
    known = ClassNames.of(vectors, np.asarray(features, np.float64))
    rows = known.rows(np.asarray(order, object))
    if rows is None:
        raise EverylabelError(
            f"names has vectors of {listed([str(name) for name in order])}, which do not "
            "distinguish classes; expected at least two classes in `classes` whose vectors differ"
        )
    return rows


class ClassNames(NamedTuple):
    """Vectors of names by class, and the scaling of the instances to which they are matched."""

    vectors: dict[Any, np.ndarray]
    around: Scaling  # brings instances to a mean of 0 and a norm of POOL_NORM

    @classmethod
    def of(cls, names: Mapping[Any, Any], X: np.ndarray, around: Scaling | None = None) -> Self:
        """Return names matched to instances X, or to a pool's scaling."""
        if around is None:
            if not len(X):
                raise EverylabelError(
                    "names come without any instance to place them among; expected some: unlabelled=pool"
                )
            center = X.mean(axis=0)
            spread = float(np.sqrt(np.mean(np.sum((X - center) ** 2, axis=1))))
            size = (
                spread if spread > 0 else float(np.linalg.norm(center))
            )  # a single instance, or copies of it
            around = Scaling(center, POOL_NORM / size if size > 0 else 1.0)
        return cls(_checked(names, len(around.center)), around)

    def with_added(self, names: Mapping[Any, Any]) -> Self:
        """Return these names with others added; a new name replaces the old one of its class."""
        return self._replace(vectors={**self.vectors, **_checked(names, len(self.around.center))})

    def rows(self, classes: np.ndarray) -> NameRows | None:
        """Return rows on the scale of unscaled instances; None if the names carry no information."""
        numbers = {c: self.vectors[name] for c, name in enumerate(classes.tolist()) if name in self.vectors}
        rows = rows_of_names(numbers, self.around)
        return None if rows is None else rows._replace(features=self.around.back(rows.features))

    def rows_if_confirmed(
        self, classes: np.ndarray, X: np.ndarray, numbers: np.ndarray, scaling: Scaling, precision: float
    ) -> NameRows | None:
        """Return rows on the scale of the training features X; None if the labels contradict the names."""
        rows = self.rows(classes)
        if rows is None:
            return None
        rows = rows._replace(features=scaling(rows.features))
        if numbers.ndim == 2:
            rows = rows.as_answers(len(classes))
        return rows if are_confirmed(rows, X, numbers, len(classes), precision) else None


def rows_of_names(vectors: Mapping[int, np.ndarray], scaling: Scaling) -> NameRows | None:
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


def _checked(names: Mapping[Any, Any], d: int) -> dict[Any, np.ndarray]:
    """Return finite vectors (m, d) by class."""
    if not isinstance(names, Mapping):
        raise EverylabelError(
            f"names is a {type(names).__name__}; expected a dict of vectors by class: embed_names"
        )
    found = {}
    for name, some in names.items():
        try:
            vectors = np.atleast_2d(np.asarray(some, np.float64))
        except (TypeError, ValueError) as error:
            raise EverylabelError(
                f"names[{name!r}] is {some!r:.60}; expected vectors: embed_names makes them of phrases"
            ) from error
        if vectors.ndim != 2 or vectors.shape[1] != d or not len(vectors) or not np.all(np.isfinite(vectors)):
            raise EverylabelError(
                f"names[{name!r}] has shape {np.shape(some)}; expected finite vectors of {d} features, by "
                "the model that embedded the instances"
            )
        found[name] = vectors
    return found
