"""The likelihoods, by the name a user gives."""

from everylabel.core.likelihoods.full import full
from everylabel.core.likelihoods.likelihood import Likelihood
from everylabel.core.likelihoods.matrix_normal import matrix_normal
from everylabel.core.likelihoods.per_class import bernoulli_per_class, per_class
from everylabel.core.likelihoods.shared import bernoulli, binary, categorical, gaussian

LIKELIHOODS: dict[str, Likelihood] = {
    "gaussian": gaussian,
    "categorical": categorical,
    "matrix_normal": matrix_normal,
    "full": full,
    "per_class": per_class,
    "binary": binary,
    "bernoulli": bernoulli,
    "bernoulli_per_class": bernoulli_per_class,
}

__all__ = ["LIKELIHOODS", "Likelihood"]
