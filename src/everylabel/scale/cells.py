"""Cells of an experiment on a Ray cluster: by joblib, which Ray serves as one of its backends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import joblib

from everylabel.core.errors import need
from everylabel.scale.cluster import connect

ALL = -1  # joblib's number for as many processes as there are cores


@contextmanager
def on_ray(address: str, note: Callable[[str], Any] | None = None) -> Iterator[None]:
    """Have joblib run all that it is given in this block on a cluster."""
    connect(address, note)
    need("ray.util.joblib", "ray", f"--ray {address}").register_ray()
    with joblib.parallel_config(backend="ray"):
        yield
