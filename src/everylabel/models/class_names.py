"""Class names in the library: phrases become vectors, and vectors become rows to learn from.

    embed_names     {"refund": ["refund", "money back"], ...} -> {"refund": vectors (2, d), ...}
    name_rows       vectors -> features, labels, weights, for `fit_map` and `laplace` beside real instances
    ClassNames      the names kept by `LaplaceClassifier`, with the test whether the labels confirm them
`names.py` explains how rows are made and when they are used.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from everylabel.core.errors import EverylabelError, listed
from everylabel.models import names as scaled
from everylabel.models.embedding import embed
from everylabel.models.embedding.choose import knows_words
from everylabel.models.labels import name_answers
from everylabel.models.names import NameRows, are_confirmed, phrase
from everylabel.models.scaling import POOL_NORM, Scaling

TEST_AGAIN = 1.25  # growth of the number of labels after which the names are tested again

Phrases = str | Sequence[str]


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
    phrases = {
        name: list(dict.fromkeys([phrase(name), *([more] if isinstance(more, str) else more)]))
        for name, more in given.items()
    }
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
        rows = scaled.name_rows(numbers, self.around)
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
            rows = rows._replace(labels=name_answers(rows.labels, len(classes)))
        return rows if are_confirmed(rows, X, numbers, len(classes), precision) else None


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
