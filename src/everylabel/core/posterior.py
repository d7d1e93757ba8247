"""A Gaussian posterior over a last layer, as an immutable value.

d features (with the bias, if there is one), k classes.
    mean (d, k) mu_hat: one column of weights a class; its last row is the bias
    cov Sigma_hat, by likelihood:
        "gaussian", "categorical"   (d, d), shared by all classes
        "binary"                    (d, d); the mean has the one column of the positive class
        "matrix_normal"             (d, d) between features, with class_cov (k, k) between classes
        "per_class"                 (k, d, d), one a class
        "full"                      (k*d, k*d), weight j of class c at c*d + j
        "bernoulli"                 (d, d), shared by all classes; several classes per item
        "bernoulli_per_class"       (k, d, d), one a class; several classes per item
    data: the labelled instances behind it, if they are kept; an exact update needs them
An update returns another posterior and leaves the one given as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from everylabel.core.arrays import Array
from everylabel.core.labelled import Data


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Posterior:
    """The weights of a last layer and how sure we are of them; see the module's head.

    Examples
    --------
    >>> post.n_features, post.n_classes
    (64, 10)
    >>> post.replace(classes=tuple("0123456789")).classes[3]
    '3'
    """

    mean: Array
    cov: Array
    likelihood: str = "gaussian"
    prior_precision: float = 1.0
    bias: bool = True
    class_cov: Array = None
    classes: tuple[str, ...] | None = None
    data: Data | None = None

    @property
    def n_features(self) -> int:
        """Features of an instance as it comes, without the bias."""
        return int(self.mean.shape[0]) - self.bias

    @property
    def n_classes(self) -> int:
        return 2 if self.likelihood == "binary" else int(self.mean.shape[1])

    @property
    def multi_label(self) -> bool:
        """Whether an instance may have several classes: labels are then answers (n, k)."""
        return self.likelihood.startswith("bernoulli")

    def replace(self, **changes: Any) -> Posterior:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        return (
            f"Posterior(likelihood={self.likelihood!r}, n_features={self.n_features}, "
            f"n_classes={self.n_classes}, prior_precision={self.prior_precision:g}, bias={self.bias})"
        )
