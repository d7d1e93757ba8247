"""Checks of user input. Each returns clean float64 / int64 arrays or raises an error that says what to do."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from array_api_compat import device

from everylabel.core.arrays import Array, as_array, float64, from_numpy, is_real, namespace, to_numpy
from everylabel.core.errors import EverylabelError, EverylabelWarning, counted, listed
from everylabel.core.posterior import Posterior

_LARGEST = 1e100  # its square, and sums of such squares, are finite
_HEAVIEST = 1e15  # beside a larger weight, a weight of 1 is lost in double precision
FAR = 1000  # a row this many times as large as the median is most likely wrong
LOOKED_AT = 10**8  # numbers checked for such rows; checking more would delay the start
COMPARED = 1000  # learned rows with which the rows of an update are compared; more would delay each label
_INSTANCES = "(n, d): one row per instance, one column per feature"
_warns = ContextVar("warns of outliers", default=True)


def check_choice(value: str, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise EverylabelError(
            f"{name} is {described(value)}; expected one of {', '.join(map(repr, choices))}"
        )
    return value


def described(value: Any) -> str:
    """Describe a value for an error message: an array by its shape, others by their first 80 characters."""
    shape = tuple(getattr(value, "shape", ()))
    return f"an array of shape {shape}" if shape else f"{value!r:.80}"


def check_positive(value: Any, name: str, *, zero: bool = False) -> float:
    """Return a finite number above zero (with `zero`, at least zero) as a float."""
    bound = "of at least 0" if zero else "above 0"
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise EverylabelError(f"{name} is {described(value)}; expected one number {bound}") from error
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise EverylabelError(f"{name} is {value!r}; expected a finite number {bound}")
    return number


def check_count(value: Any, name: str) -> int:
    """Return a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise EverylabelError(f"{name} is {value!r}; expected a whole number of at least 1")
    return int(value)


def check_fraction(value: Any, name: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    number = check_positive(value, name)
    if number >= 1.0:
        raise EverylabelError(f"{name} is {value!r}; expected a number between 0 and 1")
    return number


def check_positions(values: Any, n: int, name: str) -> np.ndarray:
    """Return different positions 0 .. n - 1 as int64."""
    array = np.asarray(to_numpy(values) if hasattr(values, "detach") else values)
    if array.dtype == bool:
        raise EverylabelError(
            f"{name} is a mask of shape {array.shape}; expected positions in the pool: np.flatnonzero({name})"
        )
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise EverylabelError(f"{name} is {described(values)}; expected positions in the pool, whole numbers")
    if array.size and (array.min() < 0 or array.max() >= n):
        raise EverylabelError(
            f"{name} runs from {array.min()} to {array.max()}; expected positions 0 to {n - 1}"
        )
    if len(np.unique(array)) < array.size:
        raise EverylabelError(f"{name} names some instance twice; expected each once")
    return array.astype(np.int64)


def check_rng(rng: Any) -> np.random.Generator:
    """Return a NumPy random generator; the same one serves every array library."""
    if not isinstance(rng, np.random.Generator):
        raise EverylabelError(
            f"rng is a {type(rng).__name__}; expected a numpy.random.Generator, "
            "for example numpy.random.default_rng(0)"
        )
    return rng


def check_posterior(posterior: Any) -> Posterior:
    """Return `posterior` if it is a Posterior; otherwise raise an error that names its type."""
    if not isinstance(posterior, Posterior):
        raise EverylabelError(
            f"posterior is a {type(posterior).__name__}; expected a posterior from laplace or update"
        )
    return posterior


def check_matrix(
    values: Any, name: str, like: Array | None = None, like_name: str = "posterior", axes: str = _INSTANCES
) -> Array:
    """Return a finite float64 matrix with at least one column, of `like`'s library if given."""
    if hasattr(values, "toarray"):
        raise EverylabelError(f"{name} is a sparse {type(values).__name__}; pass {name}.toarray()")
    if isinstance(values, np.ma.MaskedArray):
        raise EverylabelError(
            f"{name} is a masked array; pass {name}.filled(...), or the rows without a mask"
        )
    if getattr(values, "is_sparse", False):
        raise EverylabelError(f"{name} is a sparse tensor; pass {name}.to_dense()")
    array = as_array(values, name, like)
    if len(array.shape) != 2:
        raise EverylabelError(f"{name} has shape {tuple(array.shape)}; expected two axes {axes}")
    xp = namespace(**{name: array} if like is None else {name: array, like_name: like})
    if isinstance(array, np.ndarray) and array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise EverylabelError(f"{name} has dtype object; expected real numbers ({error})") from error
    if not is_real(array):
        raise EverylabelError(f"{name} has dtype {array.dtype}; expected real numbers")
    if array.shape[1] == 0:
        raise EverylabelError(
            f"{name} has shape {tuple(array.shape)}, that is 0 feature(s); expected at least one"
        )
    array = float64(array)
    if array.shape[0] == 0 or float(xp.max(xp.abs(array))) <= _LARGEST:
        return array
    if not bool(xp.all(xp.isfinite(array))):
        n_bad = int(xp.sum(xp.astype(~xp.isfinite(array), xp.int64)))
        raise EverylabelError(
            f"{name} holds {n_bad} NaN or infinite value(s); "
            + ("impute or drop those instances first" if axes == _INSTANCES else "expected finite numbers")
        )
    raise EverylabelError(
        f"{name} holds numbers beyond {_LARGEST:g}, whose squares overflow; scale them to a norm of about 10"
    )


def outlying_rows(features: Array, learned: Array | None = None) -> np.ndarray:
    """Return the rows with a finite number more than FAR times as large as most rows have.

    learned : other rows that count among the most
    """
    n, d = features.shape
    if not n or not d or n * d > LOOKED_AT:
        return np.zeros(0, np.int64)
    sizes = _sizes(features)
    every = sizes
    if learned is not None and learned.shape[0]:
        every = np.append(sizes, _sizes(learned[:: max(1, learned.shape[0] // COMPARED), :]))
    usual = float(np.median(every))
    if len(every) < 3 or not usual > 0.0:
        return np.zeros(0, np.int64)
    return np.flatnonzero(
        (sizes > FAR * usual) & np.isfinite(sizes)
    )  # infinite numbers are refused elsewhere


def _sizes(features: Array) -> np.ndarray:
    """Return the largest absolute number of each row."""
    xp = namespace(features=features)
    largest, smallest = (to_numpy(bound(features, axis=1)).astype(np.float64) for bound in (xp.max, xp.min))
    return np.maximum(largest, -smallest)


@contextmanager
def outliers_known() -> Iterator[None]:
    """Context manager and decorator: warn of no outliers, since the caller has checked the features."""
    token = _warns.set(False)
    try:
        yield
    finally:
        _warns.reset(token)


def warn_of_outliers(features: Array, name: str, learned: Array | None = None) -> None:
    """Warn of rows so large that the model can hardly distinguish the others; `learned` as above."""
    far = outlying_rows(features, learned) if _warns.get() else ()
    if len(far):
        rows = listed([str(i) for i in far])
        warnings.warn(
            f"{name} has {counted(len(far), 'row')} with numbers more than {FAR:,} times as large as most: "
            f"row {rows}; expected numbers of one scale, since the model can hardly tell the other rows "
            "apart. Correct or remove what is wrong",
            EverylabelWarning,
            stacklevel=3,
        )


def with_bias(features: Array) -> Array:
    """Return the features with the constant 1 of the bias appended as the last column."""
    xp = namespace(features=features)
    one = xp.ones((features.shape[0], 1), dtype=features.dtype, device=device(features))
    return xp.concat([features, one], axis=1)


def check_features(features: Any, mean: Array, bias: bool, name: str = "features") -> Array:
    """Return features as the posterior's design matrix: float64, with the bias column."""
    array = check_matrix(features, name, like=mean)
    expected = int(mean.shape[0]) - bias
    if array.shape[1] != expected:
        raise EverylabelError(
            f"{name} has {array.shape[1]} columns; expected {expected}, the number the posterior "
            f"was made with (shape (n, {expected}), without a bias column)"
        )
    return with_bias(array) if bias else array


def check_labels(labels: Any, n: int, n_classes: int, like: Array, name: str = "labels") -> Array:
    """Return n class numbers 0 .. n_classes - 1 as int64."""
    numbers = f"class numbers 0 to {n_classes - 1}"
    expected = f"{numbers} (LaplaceClassifier takes strings)"
    each = f"label for each of the {n} instances"
    if len(getattr(labels, "shape", ())) == 2:
        each += (
            " (several classes per item need likelihood='bernoulli'; of soft targets, give an instance once "
            "for each class, with its share in weights)"
        )
    array, xp = _one_each(labels, n, like, name, each, expected)
    if n == 0:
        return xp.astype(array, xp.int64)
    if not _is_whole(array, xp):
        raise EverylabelError(f"{name} holds fractions or NaN; expected {numbers}")
    low, high = (float(bound) for bound in (xp.min(array), xp.max(array)))
    if low < 0 or high >= n_classes:
        raise EverylabelError(
            f"{name} runs from {low:g} to {high:g}; expected {numbers} (add_class makes room for a new class)"
        )
    return xp.astype(array, xp.int64)


def check_shares(shares: Any, n: int, k: int, like: Array, name: str = "labels") -> Array:
    """Return the class probabilities (n, k) of n instances as float64; each row sums to 1."""
    array = check_matrix(shares, name, like, "features", f"({n}, {k}): a probability for each class")
    xp = namespace(**{name: array, "features": like})
    if tuple(array.shape) != (n, k):
        raise EverylabelError(
            f"{name} has shape {tuple(array.shape)}; expected ({n},) class numbers "
            f"or ({n}, {k}) probabilities"
        )
    if n and (float(xp.min(array)) < 0.0 or float(xp.max(xp.abs(xp.sum(array, axis=1) - 1.0))) > 1e-6):
        raise EverylabelError(
            f"{name} holds rows that are no probabilities; expected numbers from 0 on that sum to 1 "
            "in each row"
        )
    return array


def check_answers(answers: Any, n: int, k: int, like: Array, name: str = "labels") -> Array:
    """Return the answers (n, k) to "is it of this class?" as float64: 1, 0, or NaN where none was given."""
    array = as_array(answers, name, like)
    xp = namespace(**{name: array, "features": like})
    if tuple(array.shape) != (n, k):
        raise EverylabelError(
            f"{name} has shape {tuple(array.shape)}; expected ({n}, {k}): a row for each instance, 1 (of "
            "this class), 0 (not of it) or NaN (not answered) for each class"
        )
    if isinstance(array, np.ndarray) and array.dtype == object:  # None among numbers
        array = array.astype(np.float64)
    if not is_real(array):
        raise EverylabelError(f"{name} has dtype {array.dtype}; expected 0, 1 or NaN for each class")
    array = xp.astype(array, xp.float64)  # a copy: posteriors keep it
    if not bool(xp.all((array == 0.0) | (array == 1.0) | xp.isnan(array))):
        raise EverylabelError(
            f"{name} holds other numbers than 0, 1 and NaN; expected 1 (of this class), 0 (not of it) or NaN "
            "(not answered); fit_map takes probabilities that sum to 1 with soft=True"
        )
    return array


def _is_whole(array: Array, xp: Any) -> bool:
    """Return whether real numbers are whole."""
    if type(array) is np.ndarray and array.dtype.kind in "biu":
        return True
    return not xp.isdtype(array.dtype, "real floating") or bool(xp.all(array == xp.floor(array)))


def check_weights(
    weights: Any, n: int, like: Array, name: str = "weights", what: str = "weight per instance"
) -> Array:
    """Return n finite weights of at least 0; None stands for all ones."""
    if weights is None:
        return from_numpy(np.ones(n), like)
    array, xp = _one_each(weights, n, like, name, what, "real numbers")
    array = xp.astype(array, xp.float64)  # a copy: posteriors keep it
    if not bool(xp.all(xp.isfinite(array) & (array >= 0))):
        raise EverylabelError(
            f"{name} holds negative, NaN or infinite values; expected finite numbers from 0 on"
        )
    if n and float(xp.max(array)) > _HEAVIEST:
        raise EverylabelError(
            f"{name} holds {float(xp.max(array)):g}, too large beside other labels in double precision; "
            f"expected weights of at most {_HEAVIEST:g}"
        )
    return array


def _one_each(values: Any, n: int, like: Array, name: str, what: str, expected: str) -> tuple[Array, Any]:
    """Return real numbers (n,), one `what`, and the namespace they share with `like`."""
    array = as_array(values, name, like)
    xp = namespace(**{name: array, "features": like})
    if tuple(array.shape) != (n,):
        raise EverylabelError(f"{name} has shape {tuple(array.shape)}; expected ({n},), one {what}")
    if not is_real(array):
        raise EverylabelError(f"{name} has dtype {array.dtype}; expected {expected}")
    return array, xp


def check_mean(mean: Any, features: Array, binary: bool = False) -> tuple[Array, bool]:
    """Return a last layer's weights (d, k), and whether its last row is a bias."""
    array = as_array(mean, "mean", features)
    if binary and len(array.shape) == 1:
        array = array[:, None]
    array = check_matrix(array, "mean", features, "features", "(d+1, k): one column a class, the bias last")
    d = int(features.shape[1])
    if array.shape[0] not in (d, d + 1):
        raise EverylabelError(
            f"mean has {array.shape[0]} rows and features has {d} columns; expected {d + 1} rows "
            f"(the last is the bias) or {d} (no bias)"
        )
    if binary and array.shape[1] == 2:
        array = array[:, 1:] - array[:, :1]  # only the difference of two softmax columns matters
    if binary and array.shape[1] != 1:
        raise EverylabelError(
            f"mean has shape {tuple(array.shape)}; expected (d+1, 1) or (d+1, 2) for likelihood='binary'"
        )
    return array, bool(array.shape[0] == d + 1)
