"""A kept model gives what a replay from zero gives, to the bit; one that does not fit is left alone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling import kept as module
from everylabel.labelling import learner
from everylabel.labelling.kept import packed_names, unpacked_names
from everylabel.labelling.refit import Refitter, refit
from everylabel.labelling.replay import replay
from everylabel.projects.model_file import ModelFile
from tests.labelling.desks import FEATURES, fingerprint, label, service, until
from tests.labelling.test_replay import busy


@pytest.fixture(autouse=True)
def not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", 0)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def shelf(tmp_path: Path, notes: list[str]) -> ModelFile:
    return ModelFile(tmp_path, notes.append)


@pytest.mark.parametrize("strategy", ["herding", "lookahead"])
@pytest.mark.parametrize("seed", range(3))
def test_a_start_from_a_kept_model_equals_a_replay_from_zero(
    tmp_path: Path, shelf: ModelFile, notes: list[str], strategy: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    with service(tmp_path / "log", strategy=strategy, check_every=4, annotators_per_item=2) as made:
        made.desk.shelf = shelf
        busy(made, rng, 8)
        if seed:
            refit(made.desk)
        busy(made, rng, 8)
        made.desk.keep()
        kept_at = made.desk.ledger.seq
        busy(made, rng, 6)
        before = fingerprint(made)
    with service(tmp_path / "log", shelf=shelf) as made:
        assert shelf.get() is not None
        assert made.desk.changes_since(0)[0].seq > kept_at  # it was indeed taken
        assert fingerprint(made) == before
        busy(made, rng, 2)
        live = fingerprint(made)
        np.testing.assert_array_equal(
            replay(made.desk.log.read(), made.desk.rows)[1].pool.logits(), made.desk.learner.pool.logits()
        )
    with service(tmp_path / "log") as made:  # from zero
        assert fingerprint(made) == live
    assert notes == []


def test_the_file_is_its_owners_only(tmp_path: Path, shelf: ModelFile) -> None:
    with service(tmp_path / "log", shelf=shelf) as made:
        label(made, 3)
        made.desk.keep()
    assert shelf.path().stat().st_mode & 0o777 == 0o600


def test_a_model_is_kept_when_the_server_stops(tmp_path: Path, shelf: ModelFile) -> None:
    with service(tmp_path / "log", shelf=shelf) as made:
        refitter = Refitter(made.desk)
        label(made, 5)
        until(lambda: bool(made.desk.ledger.assessed))
        refitter.close()
        last = made.desk.ledger.seq
    kept = shelf.get()
    assert kept is not None
    assert kept.seq == last


def test_nothing_is_kept_where_labels_are_exact(
    tmp_path: Path, shelf: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "EXACT_UP_TO", 10**8)
    with service(tmp_path / "log", shelf=shelf) as made:
        label(made, 3)
        made.desk.keep()
    assert not shelf.path().exists()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def other(path: Path) -> None:
    path.write_text("no model at all")


@pytest.mark.parametrize("damage", [flip, shorten, other])
def test_a_damaged_model_is_left_alone(
    tmp_path: Path, shelf: ModelFile, notes: list[str], damage: Callable[[Path], None]
) -> None:
    with service(tmp_path / "log", shelf=shelf) as made:
        label(made, 8)
        made.desk.keep()
        before = fingerprint(made)
    damage(shelf.path())
    with service(tmp_path / "log", shelf=shelf) as made:
        assert fingerprint(made) == before
    assert len(notes) == 1
    assert "left alone" in notes[0]


def test_a_model_of_another_log_version_or_training_is_left_alone(
    tmp_path: Path, shelf: ModelFile, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path / "log", shelf=shelf) as made:
        label(made, 8)
        made.desk.keep()
        shutil.copy(shelf.path(), tmp_path / "old")
        refit(made.desk)
        label(made, 2)
        before = fingerprint(made)
    with service(tmp_path / "log", shelf=shelf) as made:  # trained since: of no use, and no news
        assert fingerprint(made) == before
        assert notes == []
        made.desk.keep()
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    with service(tmp_path / "log", shelf=shelf) as made:
        assert fingerprint(made) == before
        assert f"made by version {module.FORMAT - 1}" in notes.pop()
    monkeypatch.setattr(module, "FORMAT", module.FORMAT - 1)
    with service(tmp_path / "another", shelf=shelf) as made:
        label(made, 20, "ben")
        before = fingerprint(made)
        notes.clear()
    with service(tmp_path / "another", shelf=shelf) as made:
        assert fingerprint(made) == before
        assert "another log" in notes.pop()


def test_a_model_of_other_features_is_left_alone(tmp_path: Path, shelf: ModelFile) -> None:
    with service(tmp_path / "log", shelf=shelf) as made:
        label(made, 8)
        made.desk.keep()
    turned = np.ascontiguousarray(FEATURES[:, ::-1])
    with service(tmp_path / "log", features=turned) as made:
        before = fingerprint(made)
    with service(tmp_path / "log", features=turned, shelf=shelf) as made:
        assert fingerprint(made) == before


def test_vectors_of_names_are_arrays_and_back() -> None:
    names = {3: np.ones((2, 4)), 0: np.zeros((1, 5))}
    back = unpacked_names({"mean": np.ones(1), **packed_names(names)})
    assert {column: some.shape for column, some in back.items()} == {3: (2, 4), 0: (1, 5)}
