"""Shapes are checked at run time in tests of the core only; small random problems for all tests.

The checks more than double the time of a call. A property test makes them for its first examples only,
a test with the mark `unchecked_shapes`, of hundreds of updates, not at all.
"""

from jaxtyping import config, install_import_hook

# The modules behind the checks of user input; those in front must see what users pass.
CHECKED = [
    "likelihoods",
    "kernel",
    "arrays",
    "newton",
    "candidates",
    "posterior",
    "updates.second_order",
    "updates.first_order",
    "updates.exact",
    "updates.partial",
]
install_import_hook([f"everylabel.core.{name}" for name in CHECKED], "beartype.beartype")

import functools  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

hypothesis.settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
# to see that a broken formula fails, the smallest failing example is not needed
phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
hypothesis.settings.register_profile(
    "mutants", deadline=None, max_examples=25, derandomize=True, phases=phases
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# models that were named for a project are noted among the user's own files, not here
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="everylabel-tests-")

LIKELIHOODS = ["gaussian", "categorical", "matrix_normal", "full", "per_class", "binary"]
CORE = Path(__file__).parent / "core"
CHECKED_EXAMPLES = 5  # of a property test, per set of parameters
examples = 0  # that the running property test has had


def pytest_configure(config: pytest.Config) -> None:
    """Declare our mark."""
    config.addinivalue_line("markers", "unchecked_shapes: a test of the core too long to check shapes in")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Check shapes only for the first examples of a property test of the core."""
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if CORE in item.path.parents and handle and not hasattr(handle.inner_test, "__wrapped__"):
        handle.inner_test = _checked_at_first(handle.inner_test)


def _checked_at_first(test: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(test)
    def example(*args: Any, **kwargs: Any) -> None:
        global examples
        examples += 1
        if examples > CHECKED_EXAMPLES:
            config.update("jaxtyping_disable", True)
        test(*args, **kwargs)

    return example


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes where the core's own tests run."""
    global examples
    examples = 0
    checked = CORE in item.path.parents and not item.get_closest_marker("unchecked_shapes")
    config.update("jaxtyping_disable", not checked)


class Case(NamedTuple):
    """A posterior's ingredients and some new labels, away from every default."""

    features: Any
    labels: Any
    mean: Any
    new_features: Any
    new_labels: Any
    weights: Any
    prior_precision: float
    step_size: float
    k: int


@st.composite
def cases(draw: st.DrawFn, binary: bool = False, max_new: int = 4) -> Case:
    """Small problems with random sizes, prior precision, step and weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    k = 2 if binary else draw(st.integers(2, 4))
    b = draw(st.integers(1, max_new))
    return Case(
        features=rng.normal(size=(n, d)) * draw(st.sampled_from([0.3, 1.0, 3.0])),
        labels=rng.integers(k, size=n),
        mean=rng.normal(size=(d + 1, 1 if binary else k)),
        new_features=rng.normal(size=(b, d)),
        new_labels=rng.integers(k, size=b),
        weights=rng.uniform(0.2, 3.0, size=b),
        prior_precision=draw(st.sampled_from([0.1, 0.7, 5.0])),
        step_size=draw(st.sampled_from([0.5, 1.0, 10.0])),
        k=k,
    )


def design(features: Any) -> Any:
    """Return features with the bias column."""
    return np.c_[features, np.ones(len(features))]
