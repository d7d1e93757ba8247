"""A Gaussian posterior over a last layer, as an immutable value.

d features (with the bias, if there is one), k classes.
    mean (d, k) mu_hat: one column of weights a class; its last row is the bias
    cov Sigma_hat, by likelihood:
        "gaussian", "categorical"   (d, d), shared by all classes
        "binary"                    (d, d); the mean has the one column of the positive class
        "matrix_normal"             (d, d) between features, with class_cov (k, k) between classes
        "per_class"                 (k, d, d), one a class
        "full"                      (k*d, k*d), weight j of class c at c*d + j
    data: the labelled instances behind it, if they are kept; an exact update needs them
An update returns another posterior and leaves the one given as it was. What an exact update adds to a shared
covariance is noted (`Later`) and made when somebody asks for it: its mean does not depend on that.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from everylabel.core.arrays import Array, array_namespace
from everylabel.core.kernel import condition_cov_many
from everylabel.core.labelled import Data

AT_ONCE = 32  # instances that a covariance takes in at once, when so many have been noted


class Later(NamedTuple):
    """A covariance (d, d), and instances that it has not taken in: inv(inv(cov) + sum_x c_x h_x h_x')."""

    cov: Array
    features: Array  # (m, d) h_x
    curvature: Array  # (m,) c_x

    def has_room(self, features: Array) -> bool:
        """Return whether some more can wait; where they are many, the covariance takes in those before them.

        When that is depends on what was learned and not on who has asked: the same labels, the same bits.
        """
        return bool(self.features.shape[0] + features.shape[0] <= AT_ONCE)

    def and_then(self, features: Array, curvature: Array) -> Later:
        """Return it with some more."""
        xp: Any = array_namespace(features)
        both = xp.concat([self.features, features]), xp.concat([self.curvature, curvature])
        return Later(self.cov, *both)

    def made(self) -> Array:
        """Return the covariance with all of them."""
        return condition_cov_many(self.cov, self.features, self.curvature)


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
    later: Later | None = None  # what the covariance is made of, where it was not when this posterior was

    def __post_init__(self) -> None:
        if self.cov is not None:
            object.__setattr__(self, "later", None)
        elif self.later is not None:
            object.__delattr__(self, "cov")  # `__getattr__` makes it

    def __getattr__(self, name: str) -> Any:
        if name != "cov":
            raise AttributeError(f"'Posterior' object has no attribute {name!r}")
        assert self.later is not None
        object.__setattr__(self, "cov", self.later.made())
        return self.cov

    def __getstate__(self) -> list[Any]:
        return [None if name == "later" else getattr(self, name) for name in self.__slots__]

    @property
    def n_features(self) -> int:
        """Features of an instance as it comes, without the bias."""
        return int(self.mean.shape[0]) - self.bias

    @property
    def n_classes(self) -> int:
        return 2 if self.likelihood == "binary" else int(self.mean.shape[1])

    def replace(self, **changes: Any) -> Posterior:
        """Return a copy with some fields changed."""
        if self.later is None or "cov" in changes:
            return replace(self, **{"later": None, **changes})
        made = Posterior(**{name: getattr(self, name) for name in _BUT_COV} | {"cov": None} | changes)
        with suppress(AttributeError):  # it has not been asked for
            if made.later is self.later:
                object.__setattr__(made, "cov", object.__getattribute__(self, "cov"))
        return made

    def __repr__(self) -> str:
        return (
            f"Posterior(likelihood={self.likelihood!r}, n_features={self.n_features}, "
            f"n_classes={self.n_classes}, prior_precision={self.prior_precision:g}, bias={self.bias})"
        )


_BUT_COV = tuple(name for name in Posterior.__slots__ if name != "cov")


def conditioned_later(posterior: Posterior, features: Array, curvature: Array) -> Posterior:
    """Return a copy whose shared covariance is to take in these instances, when somebody asks for it."""
    if posterior.later is None or not posterior.later.has_room(features):
        xp: Any = array_namespace(features)
        own = xp.asarray(features, copy=True)  # it may be the caller's, who goes on with it
        return posterior.replace(cov=None, later=Later(posterior.cov, own, curvature))
    return posterior.replace(later=posterior.later.and_then(features, curvature))
