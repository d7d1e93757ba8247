"""A small project whose labels are imported and exported."""

from pathlib import Path

import numpy as np

from everylabel.data.display import Display, Pictures, Rows, Texts
from everylabel.data.items import Options
from everylabel.projects.folder import Remembered
from everylabel.projects.project import Project

TEXTS = ("my card is lost", "send money", "=hello", "again")


def project(
    kind: str = "text", ids: tuple[str, ...] = ("a", "b", "-c", "d"), texts: tuple[str, ...] = TEXTS
) -> Project:
    paths = [Path("photos") / f"{name}.png" for name in ids]
    shown: dict[str, Display] = {
        "text": Texts(texts),
        "image": Pictures(paths, [str(path) for path in paths]),
        "features": Rows(ids),
    }
    n = len(ids)
    return Project(
        items=texts,
        kind=kind,
        ids=ids,
        labels=np.full(n, -1),
        features=np.eye(n),
        display=shown[kind],
        digests=["x"] * n,
        own_ids=ids,
        folder=Path("p"),
        about=Remembered("p", "p", Options()),
    )
