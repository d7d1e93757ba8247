"""Readers of the official image files: CIFAR-10 (the binary version: no pickle), Snacks, DTD."""

from pathlib import Path

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.data.datasets.archives import locate
from everylabel.data.datasets.dataset import Dataset, Split, numbered

RECORD = 1 + 3 * 32 * 32  # a label and 32 x 32 pixels, all red, all green, all blue


def read_cifar10(folder: Path) -> Dataset:
    """data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt."""
    root = locate(folder, "data_batch_1.bin", "test_batch.bin", "batches.meta.txt")
    classes = tuple((root / "batches.meta.txt").read_text().split())
    train = [_records(path, len(classes)) for path in sorted(root.glob("data_batch_*.bin"))]
    labels, pixels = (np.concatenate(part) for part in zip(*train, strict=True))
    test_labels, test_pixels = _records(root / "test_batch.bin", len(classes))
    splits = {"train": Split(labels, pixels), "test": Split(test_labels, test_pixels)}
    return Dataset("cifar10", "image", classes, splits)


def read_snacks(folder: Path) -> Dataset:
    """Folders train, val and test, in each a folder a class."""
    root = locate(folder, "train", "val", "test")
    classes = tuple(sorted(path.name for path in (root / "train").iterdir() if path.is_dir()))
    splits = {}
    for part in ("train", "val", "test"):
        paths = sorted((root / part).glob("*/*.jpg"))
        splits[part] = Split(numbered([path.parent.name for path in paths], classes), paths)
    return Dataset("snacks", "image", classes, splits)


def read_dtd(folder: Path) -> Dataset:
    """Folders images and labels; the first of the ten official splits: train1.txt, val1.txt, test1.txt."""
    root = locate(folder, "labels/train1.txt", "labels/val1.txt", "labels/test1.txt", "images")
    names = {
        part: (root / "labels" / f"{part}1.txt").read_text().split() for part in ("train", "val", "test")
    }
    classes = tuple(sorted({name.partition("/")[0] for part in names.values() for name in part}))
    splits = {
        part: Split(
            numbered([name.partition("/")[0] for name in names[part]], classes),
            [root / "images" / name for name in names[part]],
        )
        for part in names
    }
    return Dataset("dtd", "image", classes, splits)


def _records(path: Path, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels (n,) and pixels (n, 32, 32, 3) of one file."""
    stored = np.fromfile(path, dtype=np.uint8)
    if not stored.size or stored.size % RECORD:
        raise EverylabelError(f"path {str(path)!r} has {stored.size} bytes; expected a multiple of {RECORD}")
    records = stored.reshape(-1, RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= k:
        raise EverylabelError(f"path {str(path)!r} holds label {labels.max()}; expected 0 to {k - 1}")
    return labels, np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
