"""Make a classifier from a posterior, save it and load it: `as_classifier`, `save_classifier` and
`load_classifier`.

The file is a posterior's (core/files.py) with the scaling of the features, the labels' names and the
estimator's parameters added; plain arrays and a JSON header, never pickle.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core import EverylabelError, Posterior
from everylabel.core.arrays import to_numpy
from everylabel.core.files import packed, read_file, unpacked, write_file
from everylabel.core.posterior import Data
from everylabel.models.class_names import ClassNames
from everylabel.models.classifier import LaplaceClassifier, from_posterior, with_names
from everylabel.models.labels import Examples
from everylabel.models.scaling import Scaling

FORMAT = "everylabel classifier"


def as_classifier(
    posterior: Posterior,
    scaling: Scaling,
    classes: Sequence[Any] | np.ndarray | None = None,
    *,
    from_pool: bool | None = None,
    **parameters: Any,
) -> LaplaceClassifier:
    """Return a scikit-learn estimator that predicts as the posterior does and can continue to learn.

    Parameters
    ----------
    posterior : Posterior
        Over scaled features; for an exact `partial_fit` it must keep its labelled instances.
    scaling : Scaling
        Maps features, as they will be passed, to the posterior's scale.
    classes : sequence, optional
        The labels, in the order of the posterior's columns; None takes the posterior's names, or numbers.
    from_pool : bool, optional
        Whether the scaling comes from unlabelled instances; None assumes so if it has a matrix.
    parameters
        Of `LaplaceClassifier`; prior_precision is by default the one the posterior was trained with.

    `forget` works only for labels learned from now on.
    """
    names = _classes(posterior, classes)
    if scaling.center.shape != (posterior.n_features,):
        raise EverylabelError(
            f"scaling is for {len(scaling.center)} features; expected the posterior's {posterior.n_features}"
        )
    posterior = _plain(posterior)
    examples = _examples(posterior, scaling, names)
    from_pool = scaling.matrix is not None if from_pool is None else from_pool
    return from_posterior(posterior, scaling, names, examples, parameters, from_pool)


def save_classifier(classifier: LaplaceClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to `path` (.npz); `load_classifier` reads it back.

    Examples
    --------
    >>> clf = el.LaplaceClassifier().fit(x[:100], y[:100])
    >>> el.save_classifier(clf, "clf.npz")
    >>> bool((el.load_classifier("clf.npz").predict(x) == clf.predict(x)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(classifier, LaplaceClassifier):
        last = "; pass its last step, and keep the others beside it" if hasattr(classifier, "steps") else ""
        raise EverylabelError(
            f"classifier is a {type(classifier).__name__}; expected a LaplaceClassifier{last}"
        )
    check_is_fitted(classifier)
    labels = classifier.classes_
    if labels.dtype.kind not in "OUSiufb":
        raise EverylabelError(f"classes_ have dtype {labels.dtype}; expected text or numbers")
    names = labels.astype(str) if labels.dtype.kind in "OUS" else labels
    posterior = classifier.posterior_.replace(classes=tuple(map(str, names.tolist())))
    header, arrays = packed(posterior)
    parameters = classifier.get_params()
    if isinstance(parameters["class_weight"], dict):
        raise EverylabelError("class_weight is a dict; expected None or 'balanced' to save the classifier")
    if isinstance(parameters["thresholds"], np.ndarray):
        parameters["thresholds"] = parameters["thresholds"].tolist()
    header |= {"format": FORMAT, "parameters": parameters, "from_pool": classifier.from_pool_}
    arrays |= {"center": classifier.center_, "scale": np.array(classifier.scale_), "labels": names}
    arrays |= {} if classifier.matrix_ is None else {"matrix": classifier.matrix_}
    arrays |= _name_arrays(classifier)
    header |= {"names_hold": classifier.names_hold_, "untold": classifier._scaling_pending}
    write_file(Path(path), header, arrays, follow_links=True)


def load_classifier(path: str | os.PathLike[str]) -> LaplaceClassifier:
    """Read a classifier written by `save_classifier` or `everylabel export --what model`.

    Examples
    --------
    >>> el.save_classifier(el.LaplaceClassifier().fit(x[:100], y[:100]), "clf.npz")
    >>> clf = el.load_classifier("clf.npz").partial_fit(x[100:101], y[100:101])  # learns on
    """
    place = Path(path)
    header, arrays = read_file(place, FORMAT, "classifier", "save_classifier")
    posterior = unpacked(place, header, arrays)
    try:
        parameters = {str(name): value for name, value in header["parameters"].items()}
        from_pool = header.get("from_pool")  # missing in older files, which mixed up the two precisions
        for known in ("likelihood",) if from_pool is not None else ("prior_precision", "likelihood"):
            parameters.pop(known, None)
        scaling = Scaling(arrays["center"], float(arrays["scale"]), arrays.get("matrix"))
        _check_scaling(scaling)
        classifier = as_classifier(posterior, scaling, arrays["labels"], from_pool=from_pool, **parameters)
        classifier._scaling_pending = bool(header.get("untold", False))  # missing in older files
        names = _names(arrays, scaling)
        return classifier if names is None else with_names(classifier, names, bool(header["names_hold"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EverylabelError(
            f"path {str(place)!r} is damaged ({error}); expected a file written by save_classifier"
        ) from error


def _name_arrays(classifier: LaplaceClassifier) -> dict[str, np.ndarray]:
    """Return class names as arrays: vectors, the class of each, and the scaling of the instances."""
    names = classifier.names_
    if names is None:
        return {}
    of = [label for label, some in names.vectors.items() for _ in some]
    found = {"name_vectors": np.concatenate(list(names.vectors.values())), "name_labels": np.asarray(of)}
    if classifier.from_pool_:
        return found
    return {**found, "name_center": names.around.center, "name_scale": np.array(names.around.scale)}


def _names(arrays: dict[str, np.ndarray], scaling: Scaling) -> ClassNames | None:
    """Return class names from arrays, or None."""
    if "name_labels" not in arrays:
        return None
    around = scaling
    if "name_center" in arrays:
        around = Scaling(arrays["name_center"], float(arrays["name_scale"]))
    of, vectors = arrays["name_labels"], arrays["name_vectors"]
    return ClassNames({label: vectors[of == label] for label in dict.fromkeys(of.tolist())}, around)


def _classes(posterior: Posterior, classes: Sequence[Any] | np.ndarray | None) -> np.ndarray:
    k = posterior.n_classes
    names = np.asarray(posterior.classes if classes is None and posterior.classes else classes)
    names = np.arange(k) if classes is None and not posterior.classes else names
    if names.shape != (k,) or len(np.unique(names)) < k:
        raise EverylabelError(f"classes is {classes!r:.80}; expected {k} different names")
    return names


def _plain(posterior: Posterior) -> Posterior:
    """Return the posterior in NumPy."""
    arrays = {name: getattr(posterior, name) for name in ("mean", "cov", "class_cov")}
    posterior = posterior.replace(**{n: to_numpy(array) for n, array in arrays.items() if array is not None})
    if posterior.data is None:
        return posterior
    data = posterior.data
    features, labels, weights = map(to_numpy, (data.features, data.labels, data.weights))
    return posterior.replace(data=Data(features, labels, weights, to_numpy(data.label_sums)))


def _examples(posterior: Posterior, scaling: Scaling, names: np.ndarray) -> Examples:
    """Return the labelled instances on the original scale of the features."""
    data = posterior.data
    if data is None or np.any(data.labels < 0):
        none = np.empty((0, len(names))) if posterior.multi_label else names[:0]
        return np.empty((0, posterior.n_features)), none, np.empty(0)
    rows = np.asarray(data.features, np.float64)[:, : posterior.n_features]
    labels = data.labels if posterior.multi_label else names[data.labels]
    return scaling.back(rows), labels, np.asarray(data.weights, np.float64)


def _check_scaling(scaling: Scaling) -> None:
    center, scale, matrix = scaling
    whole = np.all(np.isfinite(center)) and 0 < scale < np.inf
    if matrix is not None:
        whole = whole and matrix.shape == (len(center),) * 2 and bool(np.all(np.isfinite(matrix)))
    if not whole:
        raise ValueError("its scaling is no number")
