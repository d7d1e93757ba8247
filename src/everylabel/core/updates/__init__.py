"""Learning from new labels: one function, `update`, and the methods behind it."""

from collections.abc import Callable
from typing import Any, TypeVar

from everylabel.core.checks import (
    check_choice,
    check_features,
    check_positive,
    check_weights,
    warn_of_outliers,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.posterior import Labelled, Posterior
from everylabel.core.updates import exact, first_order, monte_carlo, second_order
from everylabel.core.updates.monte_carlo import Samples

Method = Callable[[Posterior, Labelled, float, bool], Posterior]  # new labels, step size, joint
METHODS: dict[str, Method] = {
    "second_order": second_order.second_order,
    "first_order": first_order.first_order,
}
DEFAULT_STEPS = {
    "second_order": second_order.DEFAULT_STEP,
    "first_order": first_order.DEFAULT_STEP,
    "monte_carlo": monte_carlo.DEFAULT_STEP,
}


def default_step(method: str, likelihood: str) -> float:
    """Return the default step size of a method."""
    if method == "second_order" and likelihood != "gaussian":
        return second_order.NEWTON_STEP
    return DEFAULT_STEPS.get(method, 1.0)


State = TypeVar("State", Posterior, Samples)


def update(
    posterior: State,
    features: Any,
    labels: Any,
    method: str | None = None,
    step_size: float | None = None,
    joint: bool = False,
    *,
    weights: Any = None,
    report: Callable[[exact.Report], Any] | None = None,
    covariance: bool = True,
) -> State:
    """Return the posterior after new labels; the given posterior is not changed.

    Parameters
    ----------
    posterior : Posterior or Samples
        From `laplace`, `update`, or (for method="monte_carlo") from `sample`.
    features : array (b, d)
        The new instances, without a bias column.
    labels : array (b,) or (b, k)
        Their class numbers; for a multi-label posterior one row of 1, 0 or NaN (not answered) each.
    method : {"second_order", "first_order", "exact", "monte_carlo"}, optional
        "second_order" (the default for a Posterior) is the paper's Gauss-Newton step,
        "first_order" a gradient step, "exact" retrains on all labels (as fast as a few passes over
        them; it has no step size), "monte_carlo" (the only method for Samples) reweights samples.
    step_size : float, optional
        The paper's gamma. None takes the paper's value: 10 for second order with the Gaussian
        likelihood (1, Newton's own step, with the other likelihoods), 0.001 for first order, and
        0.01 as the exponent of Monte Carlo.
    joint : bool
        Learn all labels in one step, with residuals at the old mean, instead of one by one.
    weights : array (b,), optional
        How often each label counts, for example the number of annotators that agree.
    report : callable, optional
        Called with a `Report` of how method="exact" ended: Newton steps, squared decrement of the last,
        whether the search succeeded.
    covariance : bool
        False, with method="first_order" only, leaves the covariance unchanged: a label then costs no more
        than its gradient.

    Examples
    --------
    >>> after = el.update(post, x[100:110], y[100:110])  # the paper's step, label by label
    >>> after = el.update(post, x[100:110], y[100:110], method="exact")  # equals retraining
    >>> retrained = el.fit_map(x[:110], y[:110], n_classes=10)
    >>> bool(np.allclose(after.mean, retrained, atol=0.01))
    True
    """
    if not isinstance(posterior, (Posterior, Samples)):
        raise EverylabelError(f"posterior is a {type(posterior).__name__}; expected a Posterior or Samples")
    known = ["monte_carlo"] if isinstance(posterior, Samples) else list(METHODS)
    method = known[0] if method is None else method
    check_choice(method, "method", [*METHODS, "exact", "monte_carlo"])
    if method == "exact" and step_size is not None:
        raise EverylabelError(f"step_size is {step_size!r}; method='exact' has none: leave it out")
    if method != "exact" and report is not None:
        raise EverylabelError(f"report is given, but method is {method!r}; only method='exact' reports")
    if method != "first_order" and not covariance:
        raise EverylabelError(
            f"covariance is False, but method is {method!r}, which needs it; "
            "only method='first_order' does without"
        )
    step_size = check_positive(
        default_step(method, posterior.likelihood) if step_size is None else step_size, "step_size", zero=True
    )
    if isinstance(posterior, Samples):
        if method != "monte_carlo":
            raise EverylabelError(f"method is {method!r}; samples are updated by 'monte_carlo' only")
        return monte_carlo.monte_carlo(posterior, features, labels, weights, step_size)
    if method == "monte_carlo":
        raise EverylabelError(
            "method is 'monte_carlo', which reweights samples; pass sample(posterior, 10_000, rng) "
            "instead of the posterior"
        )
    design = check_features(features, posterior.mean, posterior.bias)
    labels = LIKELIHOODS[posterior.likelihood].check(labels, design.shape[0], posterior.n_classes, design)
    weights = check_weights(weights, design.shape[0], design)
    if design.shape[0] == 0:
        return posterior
    d, data = posterior.n_features, posterior.data
    warn_of_outliers(design[:, :d], "features", None if data is None else data.features[:, :d])
    new = Labelled(design, labels, weights)
    if method == "exact":
        return exact.exact(posterior, new, report)
    if covariance:
        updated = METHODS[method](posterior, new, step_size, joint)
    else:
        updated = first_order.first_order(posterior, new, step_size, joint, covariance=False)
    if data is None:
        return updated
    return updated.replace(data=data.append(new, LIKELIHOODS[posterior.likelihood].targets))


__all__ = ["DEFAULT_STEPS", "METHODS", "Samples", "default_step", "update"]
