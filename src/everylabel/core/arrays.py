"""The array shim: everything that depends on the caller's array library.

NumPy arrays and torch tensors (and anything else that speaks the array API) go in, the same
kind comes out. torch is never imported here; it is only recognised when a tensor arrives.

softmax(f)_c = exp(f_c) / sum_j exp(f_j)          log_softmax(f) = f - logsumexp(f)
Both are over the last axis and shifted by the largest logit, so that nothing overflows.
"""

from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import device, is_array_api_obj
from jaxtyping import Float

from everylabel.core.errors import EverylabelError

Array = Any  # an array of any library that speaks the array API
_NUMPY = array_api_compat.array_namespace(np.empty(0))
CHUNK = 2**20  # numbers a chunked loop may hold at once (8 MB of float64)


def array_namespace(*arrays: Array) -> Any:
    """Return the array API namespace of these arrays, with a fast path for NumPy."""
    if all(type(array) is np.ndarray for array in arrays):
        return _NUMPY
    return array_api_compat.array_namespace(*arrays)


def as_array(values: Any, name: str, like: Array | None = None) -> Array:
    """Return `values` as an array; plain Python values become `like`'s kind, or NumPy's."""
    if is_array_api_obj(values):
        return values.detach() if hasattr(values, "detach") else values  # a posterior holds no autograd graph
    try:
        plain = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise EverylabelError(
            f"{name} cannot be made an array ({error}); expected rows of one length"
        ) from error
    return plain if like is None or plain.dtype == object else from_numpy(plain, like)


def namespace(**arrays: Array) -> Any:
    """Return the array API namespace shared by all named arrays; raise an error naming any that differ."""
    try:
        xp = array_namespace(*arrays.values())
    except TypeError as error:
        kinds = ", ".join(f"{name} is a {kind(array)}" for name, array in arrays.items())
        raise EverylabelError(
            f"arrays of different libraries cannot be mixed: {kinds}; convert them to one kind"
        ) from error
    if xp is not _NUMPY and len({str(device(array)) for array in arrays.values()}) > 1:
        places = ", ".join(f"{name} is on {device(array)}" for name, array in arrays.items())
        raise EverylabelError(f"arrays on different devices cannot be mixed: {places}; move them to one")
    return xp


def is_real(array: Array) -> bool:
    """Return whether an array holds real numbers (integers included)."""
    if type(array) is np.ndarray:  # the most frequent case, many times faster
        return array.dtype.kind in "biuf"
    return bool(array_namespace(array).isdtype(array.dtype, ("bool", "integral", "real floating")))


def kind(array: Array) -> str:
    """Name an array's library and type for an error message."""
    return f"{type(array).__module__.split('.')[0]} {type(array).__name__}"


def to_numpy(array: Array) -> np.ndarray:
    """Return a NumPy array with the same numbers (a copy when it lives on another device)."""
    if not hasattr(array, "detach"):
        return np.asarray(array)
    here = array.detach().cpu()
    return np.asarray(here.float() if str(here.dtype) == "torch.bfloat16" else here)  # NumPy has none


def from_numpy(array: np.ndarray, like: Array) -> Array:
    """Return NumPy numbers as an array of `like`'s library, on `like`'s device."""
    if type(like) is np.ndarray:
        return array
    return array_namespace(like).asarray(array, device=device(like))


def float64(array: Array) -> Array:
    """Return the array in double precision (the same object if it already is)."""
    if type(array) is np.ndarray:
        return array.astype(np.float64, copy=False)
    xp = array_namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def as_columns(weights: Array) -> Array:
    """Return weights (n,) as one column (n, 1) for all classes; weights (n, k) are returned unchanged."""
    return weights[:, None] if len(weights.shape) == 1 else weights


def eye(d: int, like: Array) -> Array:
    """Return the d x d identity of `like`'s library, on `like`'s device."""
    xp = array_namespace(like)
    return xp.eye(d, dtype=xp.float64, device=device(like))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return float64 zeros of `like`'s library, on `like`'s device."""
    xp = array_namespace(like)
    return xp.zeros(shape, dtype=xp.float64, device=device(like))


def softmax(logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """Return probabilities of the logits' own kind and precision."""
    xp = array_namespace(logits)
    grown = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return grown / xp.sum(grown, axis=-1, keepdims=True)


def log_softmax(logits: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """Return log probabilities; extreme logits do not underflow."""
    xp = array_namespace(logits)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
