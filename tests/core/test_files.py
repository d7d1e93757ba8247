"""Saved posteriors load unchanged; other files give a clear error."""

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.core import files
from tests.conftest import LIKELIHOODS


def _posterior(likelihood: str = "gaussian") -> el.Posterior:
    rng = np.random.default_rng(0)
    k = 2 if likelihood == "binary" else 3
    mean, names = rng.normal(size=(4, 1 if k == 2 else k)), ["ü", "b", "c"][:k]
    return el.laplace(mean, rng.normal(size=(5, 3)), likelihood, 0.3, classes=names)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_round_trip(likelihood: str, tmp_path: Path) -> None:
    post = _posterior(likelihood)
    el.save(post, tmp_path / "head.npz")
    back = el.load(tmp_path / "head.npz")
    for name in ("likelihood", "prior_precision", "bias", "classes"):
        assert getattr(back, name) == getattr(post, name)
    for name in ("mean", "cov", "class_cov"):
        if getattr(post, name) is not None:
            np.testing.assert_array_equal(getattr(back, name), getattr(post, name))
    assert [file.name for file in tmp_path.iterdir()] == ["head.npz"]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_labelled_instances_go_along(library: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    convert = torch.as_tensor if library == "torch" else np.asarray
    x, y = convert(rng.normal(size=(9, 3))), convert(rng.integers(3, size=9))
    post = el.laplace(el.fit_map(x[:6], y[:6], 3), x[:6], labels=y[:6])
    post = el.update(el.update(post, x[6:7], y[6:7], "exact"), x[7:8], y[7:8])
    el.save(post, tmp_path / "head.npz")
    back = el.load(tmp_path / "head.npz", like=x)
    expected = el.update(post, x[8:], y[8:], "exact").mean
    np.testing.assert_allclose(el.update(back, x[8:], y[8:], "exact").mean, expected, atol=1e-3)
    el.save(post, tmp_path / "small.npz", data=False)
    assert el.load(tmp_path / "small.npz").data is None
    with np.load(tmp_path / "head.npz") as file:
        broken = {key: file[key] for key in file.files if key != "data_weights"}
    np.savez(tmp_path / "broken.npz", **broken)
    with pytest.raises(el.EverylabelError, match="is damaged"):
        el.load(tmp_path / "broken.npz")


def test_tensors_come_back_as_asked(tmp_path: Path) -> None:
    post = el.laplace(torch.zeros(4, 2), torch.ones(2, 3))
    el.save(post, tmp_path / "head.npz")
    assert isinstance(el.load(tmp_path / "head.npz").cov, np.ndarray)
    assert isinstance(el.load(tmp_path / "head.npz", like=torch.zeros(1)).cov, torch.Tensor)


def test_damaged_foreign_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "head.npz"
    el.save(_posterior(), path)
    whole = path.read_bytes()
    for damage in (b"", b"nonsense", whole[:-40], whole[:200] + bytes([whole[200] ^ 255]) + whole[201:]):
        path.write_bytes(damage)
        with pytest.raises(el.EverylabelError, match="damaged or no everylabel posterior"):
            el.load(path)
    np.savez(path, weights=np.zeros(3))
    with pytest.raises(el.EverylabelError, match="no everylabel posterior"):
        el.load(path)
    with pytest.raises(el.EverylabelError, match="cannot be read: No such file"):
        el.load(tmp_path / "none.npz")
    np.save(path.with_suffix(".npy"), np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(el.EverylabelError, match="damaged"):
        el.load(path.with_suffix(".npy"))


def test_other_versions_and_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from everylabel.core import files

    monkeypatch.setattr(files, "VERSION", 2)
    el.save(_posterior(), tmp_path / "new.npz")
    monkeypatch.undo()
    with pytest.raises(el.EverylabelError, match="has version 2; this everylabel reads version 1"):
        el.load(tmp_path / "new.npz")
    for odd in (_posterior().replace(prior_precision=-1.0), _posterior().replace(likelihood="other")):
        el.save(odd, tmp_path / "odd.npz")
        with pytest.raises(el.EverylabelError, match="is damaged"):
            el.load(tmp_path / "odd.npz")


def test_any_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "head.npz"
    el.save(_posterior(), path)
    whole, post = path.read_bytes(), el.load(path)
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        try:
            back = el.load(path)
        except el.EverylabelError:
            continue
        np.testing.assert_array_equal(back.mean, post.mean)
        np.testing.assert_array_equal(back.cov, post.cov)
        assert back.classes == post.classes


def test_a_saved_file_is_readable_by_others(tmp_path: Path) -> None:
    el.save(_posterior(), tmp_path / "head.npz")
    (tmp_path / "plain").touch()
    assert (tmp_path / "head.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "head.npz"
    el.save(_posterior(), path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        el.save(_posterior().replace(classes=(object(),)), path)
    with pytest.raises(el.EverylabelError, match="cannot be written"):
        el.save(_posterior(), tmp_path / "no folder" / "head.npz")
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    files.write_atomically(tmp_path / "x", lambda file: file.write(b"1"), mode=0o600)
    with pytest.raises(ZeroDivisionError):
        files.write_atomically(tmp_path / "x", lambda file: 1 / 0)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600


def test_a_file_that_unpacks_to_more_than_it_is_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, arrays = files.packed(_posterior())
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    stored: dict[str, Any] = {"header": text, **arrays, "more": np.zeros(100_000)}
    np.savez_compressed(tmp_path / "head.npz", **stored)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("it was read"))
    with pytest.raises(el.EverylabelError, match="is damaged or no everylabel posterior"):
        el.load(tmp_path / "head.npz")


def test_arrays_of_another_file_are_not_read(tmp_path: Path) -> None:
    files.write_file(tmp_path / "x.npz", {"format": "other", "version": 1}, {"x": np.zeros(3, object)})
    with pytest.raises(el.EverylabelError, match="is no everylabel posterior"):  # not: it holds a pickle
        el.load(tmp_path / "x.npz")
