"""Texts of rows in shards, one by one, are those that the whole pass reads."""

import json
from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.options import Options
from everylabel.scale.filed import FiledFeatures
from everylabel.scale.shards import find_shards
from everylabel.scale.shown import SourceCells, SourceImages
from everylabel.scale.sources import open_source
from tests.scale.test_pool import written

TEXTS = [f'row {i}, "quoted"\nover lines é' if i % 3 else f"row {i}" for i in range(333)]


def _written(folder: Path, kind: str) -> str:
    path = folder / f"big.{kind}"
    if kind == "parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame({"body": TEXTS}).to_parquet(path, row_group_size=50)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"body": text}) + "\n" for text in TEXTS))
    else:
        path.write_text("body\n" + "".join('"' + text.replace('"', '""') + '"\n' for text in TEXTS))
    return str(path)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_each_text_is_found(kind: str, tmp_path: Path) -> None:
    source = open_source(_written(tmp_path, kind), Options("body"))
    parts, _ = source.planned(100)
    cells = SourceCells(source, parts)
    slow = [value for part in parts for value in source.values(part)]
    assert slow == TEXTS
    assert len(cells) == len(slow)
    for i in [*np.random.default_rng(0).permutation(len(slow))[:60].tolist(), 0, 63, 64, 99, 100, 332]:
        assert cells[i] == slow[i]
    assert cells[-1] == slow[-1]
    assert cells[120:123] == slow[120:123]
    with pytest.raises(IndexError):
        cells[333]


def test_rows_are_read_from_their_files(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float16)
    filed = FiledFeatures(find_shards(written(features, tmp_path, (7, 30))))
    assert filed.shape == (50, 4)
    some = [49, 0, 6, 7, 29, 30, 7]
    np.testing.assert_array_equal(filed[some], features[some])
    np.testing.assert_array_equal(filed[::9], features[::9])
    np.testing.assert_array_equal(filed[31], features[31])
    np.testing.assert_array_equal(np.asarray(filed), features)


def test_images_from_elsewhere_are_not_shown(tmp_path: Path) -> None:
    shown = SourceImages([tmp_path / "in" / "a.png", tmp_path / "b.png"], tmp_path / "in")
    assert shown.text(0) == "a.png"
    with pytest.raises(EverylabelError, match="lies outside"):
        shown.picture(1)
