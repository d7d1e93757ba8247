"""The Laplace approximation of a last layer (Eq. 3, App. C)."""

from collections.abc import Sequence
from typing import Any

from everylabel.core.arrays import array_namespace, as_array
from everylabel.core.checks import (
    check_choice,
    check_matrix,
    check_mean,
    check_positive,
    check_weights,
    with_bias,
)
from everylabel.core.errors import EverylabelError
from everylabel.core.likelihoods import LIKELIHOODS
from everylabel.core.likelihoods.likelihood import Instances
from everylabel.core.posterior import Posterior, first_data


def laplace(
    mean: Any,
    features: Any,
    likelihood: str = "gaussian",
    prior_precision: float = 1.0,
    *,
    weights: Any = None,
    classes: Sequence[str] | None = None,
    labels: Any = None,
    keep_data: bool = True,
) -> Posterior:
    """Put a Gaussian posterior on a trained last layer: p(w | D) is about N(mean, H^-1) (Eq. 3).

    Parameters
    ----------
    mean : array (d+1, k)
        The trained weights, one column per class, the bias in the last row; (d, k) for a layer
        without a bias. With likelihood="binary" (d+1,), (d+1, 1), or two softmax columns, whose
        difference is used.
    features : array (n, d)
        The features the layer was trained on, without the bias column, which is added here.
    likelihood : {"gaussian", "categorical", "matrix_normal", "full", "per_class", "binary", \
            "bernoulli", "bernoulli_per_class"}
        The curvature of the loss and the shape of the covariance; see docs/maths.md. The last two are for
        several classes per item.
    prior_precision : float
        Precision of the Gaussian prior on every weight; use the value that `fit_map` trained with.
    weights : array (n,), optional
        How often each instance counts.
    classes : sequence of str, optional
        Names of the k classes, kept with the posterior.
    labels : array (n,) or (n, k), optional
        Class numbers of the instances; with "bernoulli" and "bernoulli_per_class" answers (n, k), 1, 0 or NaN
        where a class was not answered. `update` with method="exact" uses them: with labels it retrains
        on exactly these, without labels it assumes that `mean` is their optimum.
    keep_data : bool
        Keep the instances, which method="exact" and an exact `forget` need. False gives a
        posterior whose size does not depend on n.

    Returns
    -------
    Posterior
        With `.mean` and `.cov` in float64, of the library and on the device of `features`.

    Examples
    --------
    >>> mean = el.fit_map(x[:100], y[:100], n_classes=10)
    >>> posterior = el.laplace(mean, x[:100], labels=y[:100])
    >>> posterior.mean.shape, posterior.cov.shape
    ((65, 10), (65, 65))
    """
    kind = LIKELIHOODS[check_choice(likelihood, "likelihood", list(LIKELIHOODS))]
    prior_precision = check_positive(prior_precision, "prior_precision")
    like = as_array(mean, "mean") if hasattr(mean, "shape") else None
    array = check_matrix(features, "features", like=like, like_name="mean")
    mean, bias = check_mean(mean, array, binary=likelihood == "binary")
    design = with_bias(array) if bias else array
    weights = check_weights(weights, design.shape[0], design)
    k = 2 if likelihood == "binary" else int(mean.shape[1])
    names = None if classes is None else tuple(str(name) for name in classes)
    if names is not None and (len(names) != k or len(set(names)) != k):
        raise EverylabelError(f"classes holds {len(names)} names ({len(set(names))} different); expected {k}")
    if labels is not None:
        labels = kind.check(labels, design.shape[0], k, design)
    mean = array_namespace(mean).asarray(mean, copy=True)  # shares no memory with the caller
    counts = weights if labels is None else kind.counts(labels, weights)
    fields = kind.fit(Instances(design, kind.link(design @ mean), counts), prior_precision)
    if keep_data:
        answers = likelihood.startswith("bernoulli")
        fields["data"] = first_data(
            design, weights, labels, mean, prior_precision, kind.link, kind.targets, answers
        )
    return Posterior(
        mean=mean,
        likelihood=likelihood,
        prior_precision=prior_precision,
        bias=bias,
        classes=names,
        **fields,
    )
