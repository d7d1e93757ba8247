"""Revise a posterior: condition without a label, take a label back, add a class.

b points, d features, k classes; r_x = w_x (p_x - e_y).
    condition          Sigma^-1 += sum_x w_x q_x h_x h_x'      no label is needed for the covariance
    forget             Sigma^-1 -= sum_x w_x q_x h_x h_x'      the same with the opposite sign;
                       mu = argmin J without the labels        if the labelled instances are kept, else
                       mu += Sigma h_x r_x'                    one Newton step without the label
    undo_label         mu += Sigma h_x r_x'                    r_x times the step size when it was learned
    add_class          a new column at the prior; nothing else moves
"""

from typing import Any

from jaxtyping import Float

from everylabel.core.arrays import Array, array_namespace, as_columns, float64, zeros
from everylabel.core.checks import check_count, check_features, check_posterior, check_weights
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances, apply_cov, condition_many
from everylabel.core.posterior import Labelled, Posterior
from everylabel.core.updates import exact


def condition(posterior: Posterior, features: Any, *, weights: Any = None) -> Posterior:
    """Return the posterior with the covariance it would have after labelling these instances; the mean stays.

    Use it for instances leased to an annotator, so that similar ones are not picked too.

    Parameters
    ----------
    posterior : Posterior
        Any except `Samples`; it is not changed.
    features : array (b, d)
        The instances, without a bias column.
    weights : array (b,), optional
        How often each label will count.

    Examples
    --------
    >>> surer = el.condition(post, x[[500]])
    >>> bool((el.logit_variance(surer, x[[500]]) < el.logit_variance(post, x[[500]])).all())
    True
    >>> bool((surer.mean == post.mean).all())
    True
    """
    posterior = check_posterior(posterior)
    design = check_features(features, posterior.mean, posterior.bias)
    weights = check_weights(weights, design.shape[0], design)
    if design.shape[0] == 0:
        return posterior
    kind = LIKELIHOODS[posterior.likelihood]
    at = Instances(design, kind.link(design @ posterior.mean), weights)
    return condition_many(kind, posterior, at, 1)


def condition_at(posterior: Posterior, features: Any, probs: Array, sign: int) -> Posterior:
    """Return the posterior with the curvature of instances at `probs` (b, k) added, or taken away (-1)."""
    design = check_features(features, posterior.mean, posterior.bias)
    at = Instances(design, probs, check_weights(None, design.shape[0], design))
    return condition_many(LIKELIHOODS[posterior.likelihood], posterior, at, sign)


def forget(posterior: Posterior, features: Any, labels: Any = None, *, weights: Any = None) -> Posterior:
    """Return the posterior without these instances, the latest first.

    Covariance: it is restored to its value before `update` (or before `condition`, if labels is None). With
    the Gaussian likelihood this is exact in any order. With the others the curvature is taken at the present
    mean, which is exact for the latest label only.
    Mean: if the posterior keeps its labelled instances, the mean is that of retraining without these labels.
    Otherwise the mean takes one Newton step on the objective without the label. This undoes little of an
    update with step size 10.

    Parameters
    ----------
    posterior : Posterior
        One that has learned these instances; it is not changed.
    features : array (b, d)
        The instances, without a bias column, in the precision in which they were learned.
    labels : array (b,) or (b, k), optional
        Their labels, as given to `update`; None to take back `condition`.
    weights : array (b,), optional
        Their weights, as given to `update`.

    Examples
    --------
    >>> more = el.update(post, x[100:101], y[100:101], method="exact")
    >>> less = el.forget(more, x[100:101], y[100:101])
    >>> bool(np.allclose(less.mean, post.mean, atol=0.01))
    True
    """
    posterior = check_posterior(posterior)
    design = check_features(features, posterior.mean, posterior.bias)
    n = int(design.shape[0])
    weights = check_weights(weights, n, design)
    if labels is not None:
        labels = LIKELIHOODS[posterior.likelihood].check(labels, n, posterior.n_classes, design)
    if n == 0:
        return posterior
    if labels is None or posterior.data is None:  # without the data there is nothing to retrain on
        counts = weights if labels is None else LIKELIHOODS[posterior.likelihood].counts(labels, weights)
        return _step_back(posterior, design, labels, counts)
    kind = LIKELIHOODS[posterior.likelihood]
    data = posterior.data.take_back(Labelled(design, labels, weights), kind.targets)
    try:
        conditioned = _step_back(posterior, design, None, kind.counts(labels, weights))
    except EverylabelError:  # the labels were learned at another curvature than the present one
        design = float64(data.features)
        left = Instances(design, kind.link(design @ posterior.mean), kind.counts(data.labels, data.weights))
        conditioned = posterior.replace(**kind.fit(left, posterior.prior_precision))
    return exact.retrain(conditioned, data)


def undo_label(posterior: Posterior, features: Any, residual: Array, weight: float) -> Posterior:
    """Return the posterior without one label that a second-order step learned, at the cost of that step.

    residual : step_size w (p - e_y), (1, k), at the mean before the label
    Sigma must not depend on the mean. The result is exact for the latest label, and to first order for an
    earlier one: the residuals of later labels are not computed again.
    """
    design = check_features(features, posterior.mean, posterior.bias)
    change = apply_cov(LIKELIHOODS[posterior.likelihood], posterior, design, residual)
    return forget(posterior.replace(mean=posterior.mean + change), features, weights=[weight])


def _step_back(
    posterior: Posterior,
    design: Float[Array, "n d"],
    labels: Array | None,
    weights: Float[Array, "n ..."],
) -> Posterior:
    """Return the posterior with instances (and their labels) taken back one by one in closed form."""
    kind = LIKELIHOODS[posterior.likelihood]
    targets = None if labels is None else kind.targets(labels, posterior.mean.shape[1])
    for i in reversed(range(design.shape[0])):  # the latest first: exact, since nothing was learned after it
        row = slice(i, i + 1)
        probs = kind.link(design[row, :] @ posterior.mean)
        at = Instances(design[row, :], probs, weights[row, ...])
        posterior = kind.condition(posterior, kind.project(posterior, at), -1)
        if targets is not None:
            residual = as_columns(weights[row, ...]) * (probs - targets[row, :])
            mean = posterior.mean + apply_cov(kind, posterior, design[row, :], residual)
            posterior = posterior.replace(mean=mean)
    return posterior


def add_class(
    posterior: Posterior, n: int = 1, *, names: str | tuple[str, ...] | list[str] | None = None
) -> Posterior:
    """Return the posterior with n more classes, whose weights are at the prior.

    If the posterior has class names, `names` must name the new ones.

    Examples
    --------
    >>> el.add_class(post).n_classes
    11
    """
    posterior, n = check_posterior(posterior), check_count(n, "n")
    names = [names] if isinstance(names, str) else names
    if posterior.likelihood == "binary":
        raise EverylabelError(
            "posterior has likelihood 'binary', which has room for two classes; "
            "fit it with likelihood='gaussian' to add a third"
        )
    if (posterior.classes is None) != (names is None) or (names is not None and len(names) != n):
        came = "nothing" if names is None else f"{len(names)} name(s)"
        expected = (
            "nothing, since the posterior names no classes" if posterior.classes is None else f"{n} name(s)"
        )
        raise EverylabelError(f"names is {came}; expected {expected}")
    classes = None if names is None else (*(posterior.classes or ()), *map(str, names))
    if classes is not None and len(set(classes)) < len(classes):
        raise EverylabelError(
            f"names holds {list(names or ())}, some of which exist already; expected new names"
        )
    xp = array_namespace(posterior.mean)
    column = zeros((posterior.mean.shape[0], n), posterior.mean)
    kind = LIKELIHOODS[posterior.likelihood]
    fields = kind.extend(posterior, n)
    if posterior.data is not None:
        fields["data"] = posterior.data.add_classes(n)
    return posterior.replace(mean=xp.concat([posterior.mean, column], axis=1), classes=classes, **fields)
