"""`embed` and `predict` for one partition: a data frame in, a data frame out.

For engines that split a table into data frames themselves: `dask.dataframe.map_partitions`, Spark's
`mapInPandas` (docs/scale.md has an example of each). A process loads a model once for all its partitions.
"""

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.cells import text_of
from everylabel.data.readers.rows import check_columns
from everylabel.data.readers.table import image_paths
from everylabel.models.embedding.backend import Backend
from everylabel.models.embedding.choose import How
from everylabel.models.embedding.chunks import Chunks
from everylabel.models.embedding.embed import NoImage, encoded_rows
from everylabel.scale.embedding import pretrained

FEATURES, LABEL, PROBABILITY = "features", "label", "probability"


def embed_partition(
    frame: Any,
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    model: str | None = None,
    fit: str | os.PathLike[str] | None = None,
    column: str = FEATURES,
    threads: int = 1,
    device: str | None = None,
    trust_model_code: bool = False,
) -> Any:
    """Return a data frame with a column of features: an array of float32 per row.

    Parameters
    ----------
    frame : pandas.DataFrame
        One partition, possibly empty.
    text_column, image_column : str
        The column of texts, or of paths of images; give one of them.
    model, fit, device, trust_model_code
        As in `everylabel.embed`; the model is pretrained, or fitted on other items (`fit`).
    column : str
        The name of the new column.
    threads : int
        For computing; one suits engines that run one partition per core.

    The features of an unreadable image are None.

    Examples
    --------
    >>> import pandas as pd
    >>> from everylabel.scale import embed_partition
    >>> _ = el.embed(["good", "bad", "good and bad"], model="tfidf", fit_out="embedder.npz")
    >>> table = pd.DataFrame({"body": ["good", "worse"]})
    >>> embed_partition(table, text_column="body", fit="embedder.npz").columns.tolist()
    ['body', 'features']
    """
    if (text_column is None) == (image_column is None):
        raise EverylabelError("text_column or image_column is needed, and one only; expected a column's name")
    kind, name = ("text", text_column) if text_column is not None else ("image", image_column)
    check_columns("the partition", [str(one) for one in frame.columns], [str(name)])
    how = How(device=device, trust_code=trust_model_code, threads=threads)
    backend = _encoder(kind, model, None if fit is None else _file(fit), how)
    values = frame[name].tolist()
    items = [text_of(value) for value in values] if kind == "text" else image_paths(values, Path())
    features = np.full(len(items), None, object)
    with suppress(NoImage):  # not one can be read
        chunks = encoded_rows(Chunks(items, kind), backend, False, [], None) if items else ()
        for i, row in enumerate(row for chunk in chunks for row in chunk):
            features[i] = None if np.isnan(row).all() else row.astype(np.float32)
    return frame.assign(**{column: features})


def predict_partition(frame: Any, model: str | os.PathLike[str], *, column: str = FEATURES) -> Any:
    """Return a data frame with two more columns: the predicted class, and its probability.

    Parameters
    ----------
    frame : pandas.DataFrame
        One partition with a column of features from `embed_partition`.
    model : path
        A file of `everylabel export --what model -o model.npz`, or of `everylabel.save_classifier`.
    column : str
        The column of features.

    A row without features has no label.

    Examples
    --------
    >>> import pandas as pd
    >>> from everylabel.scale import predict_partition
    >>> el.save_classifier(el.LaplaceClassifier().fit(x[:100], y[:100]), "model.npz")
    >>> table = pd.DataFrame({"features": list(x[100:103])})
    >>> predict_partition(table, "model.npz").columns.tolist()
    ['features', 'label', 'probability']
    """
    check_columns("the partition", [str(one) for one in frame.columns], [column])
    classifier = _classifier(_file(model))
    features = frame[column].tolist()
    there = [i for i, row in enumerate(features) if row is not None]
    label, sure = np.full(len(features), None, object), np.full(len(features), np.nan)
    if there:
        probs = classifier.predict_proba(np.stack([np.asarray(features[i], np.float64) for i in there]))
        best = probs.argmax(axis=1)
        label[there] = [str(name) for name in classifier.classes_[best]]
        sure[there] = probs[np.arange(len(there)), best]
    told = frame.assign(**{LABEL: label, PROBABILITY: sure})
    return told.astype({LABEL: "string"})  # Dask can write it


def _file(place: str | os.PathLike[str]) -> tuple[str, int]:
    """Return the path of a file and the time of its last change: a changed file is loaded again."""
    path = Path(place).absolute()
    return str(path), path.stat().st_mtime_ns if path.exists() else 0


@lru_cache(maxsize=2)
def _encoder(kind: str, model: str | None, fit: tuple[str, int] | None, how: How) -> Backend:
    return pretrained(kind, model, None if fit is None else Path(fit[0]), how)


@lru_cache(maxsize=2)
def _classifier(file: tuple[str, int]) -> Any:
    from everylabel.models.classifier_files import load_classifier

    return load_classifier(file[0])
