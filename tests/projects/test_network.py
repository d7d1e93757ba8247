"""The encoder of a project is fine-tuned beside the desk: generations of features, on disk and in the log."""

import csv
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.retrainer import Retrainer, retrain
from everylabel.labelling.service import Service
from everylabel.models.finetuning import job
from everylabel.projects import network
from everylabel.projects.folder import LogUse
from everylabel.projects.generations import FOLDER, load_generation
from everylabel.projects.network import PART, NetworkTrainer
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web.server import opened_project
from tests.models.tiny import some_texts, tiny_bert, tiny_vision

pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
QUICK = {"steps": 30, "batch_size": 32, "learning_rate": 5e-3}
TEXTS, TRUTH = some_texts(160)
IN_A_PROCESS = NetworkTrainer._run
LABELLED = 100


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


def write_source(folder: Path) -> Path:
    """Write the texts to a file and return it."""
    path = folder / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([f"t{i}", text] for i, text in enumerate(TEXTS))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path)


def by_hand(patch: pytest.MonkeyPatch) -> None:
    """Tests make attempts and train, not threads; attempts run here: a process takes ten seconds to load."""
    patch.setattr(Retrainer, "_is_due", lambda self: False)
    patch.setattr(NetworkTrainer, "start", lambda self: None)
    patch.setattr(NetworkTrainer, "recipe", QUICK)
    patch.setattr(NetworkTrainer, "_run", lambda self, part: job.run(part))


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand(monkeypatch)


@contextmanager
def opened(source: Path, bert: str, notes: list[str] | None = None, **settings: Any) -> Iterator[Service]:
    """Yield the service of a project, with its trainer as `service.trainer`."""
    columns: dict[str, Any] = {"text_column": "text", "id_column": "id", "classes": ["up", "down"]}
    use = LogUse(accept=settings.get("accept_changes", False))
    project = open_project(source, model=bert, log=use, **columns)
    options, told = LabelOptions(**settings), [] if notes is None else notes
    with opened_project(project, options, told.append, None) as (service, *_):
        yield service


def trainer_of(service: Service) -> NetworkTrainer:
    """Return the trainer behind a service."""
    status = service.views.network
    assert status is not None
    assert isinstance(status.trainer, NetworkTrainer)
    return status.trainer


def label(service: Service, n: int = LABELLED, wrong: bool = False) -> None:
    for i in range(n):
        number = int((TRUTH[i] == "down") ^ (wrong and i % 2))
        service.label("me", f"t{i}", number).result()


def width(service: Service) -> int:
    return int(service.desk.rows.features.shape[1])


class Tuned(NamedTuple):
    """A project whose encoder was fine-tuned once, and the results of its server."""

    source: Path
    frozen: int  # width of the features before
    probabilities: np.ndarray  # of item 150
    state: str


@pytest.fixture(scope="module")
def tuned_once(bert: str, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """Fine-tune once for all tests that only read the outcome; each works on a copy."""
    source = write_source(tmp_path_factory.mktemp("tuned"))
    with pytest.MonkeyPatch.context() as patch:
        by_hand(patch)
        with opened(source, bert) as service:
            label(service)
            frozen = width(service)
            assert trainer_of(service)._is_due()
            trainer_of(service)._attempt()
            assert width(service) == 2 * frozen
            (found,) = service.state.generations
            assert (found.labels, found.trusted) == (LABELLED, True)
            assert found.tuned_accuracy > found.frozen_accuracy
            assert not trainer_of(service)._is_due()  # before the labels have grown by half
            sentence = service.views.network.sentence(service.state) if service.views.network else ""
            assert f"Since label {LABELLED}" in sentence
            service.label("me", "t120", int(TRUTH[120] == "down")).result()  # learned at once by the new head
            probabilities = service.desk.learner.probabilities(150)
            return Tuned(
                source, frozen, probabilities, service.desk.read(service.views.fingerprint).result()["hash"]
            )


@pytest.fixture
def tuned(tuned_once: Tuned, tmp_path: Path) -> Tuned:
    """Return a copy of the project that was fine-tuned once."""
    shutil.copytree(tuned_once.source.parent, tmp_path / "copy")
    return tuned_once._replace(source=tmp_path / "copy" / tuned_once.source.name)


def test_fine_tuned_features_take_over_and_survive_a_restart(tuned: Tuned, bert: str) -> None:
    with opened(tuned.source, bert) as service:
        assert width(service) == 2 * tuned.frozen
        assert service.desk.read(service.views.fingerprint).result()["hash"] == tuned.state
        np.testing.assert_allclose(service.desk.learner.probabilities(150), tuned.probabilities, atol=1e-3)


def test_accuracy_figures_use_cross_fitted_predictions(tuned: Tuned, bert: str) -> None:
    with opened(tuned.source, bert) as service:
        known = service.desk.read(service.desk.cross_fitted).result()
        assert set(known) == set(range(LABELLED))
        retrain(service.desk)
        assessment = service.desk.assessment
        assert assessment is not None
        for item in known:
            verdict = assessment.left_out[item]
            assert verdict.own == pytest.approx(known[item][verdict.label], abs=1e-5)


def test_labels_that_cannot_be_learned_are_refused_and_leave_no_files(source: Path, bert: str) -> None:
    left = source.with_name("texts.csv.everylabel") / FOLDER / "1"
    with opened(source, bert) as service:
        label(service, wrong=True)
        frozen = width(service)
        left.mkdir(parents=True)  # of an attempt that was killed before its event was logged
        trainer_of(service)._attempt()
        (found,) = service.state.generations
        assert not found.trusted
        assert width(service) == frozen
        assert service.desk.generation is None
    assert list(left.parent.iterdir()) == []


@pytest.mark.parametrize("what", ["memory", "disk space"])
def test_an_attempt_without_room_is_refused_and_labelling_continues(
    source: Path, bert: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "memory":
        monkeypatch.setattr(network, "free_memory", lambda: 2.0**29)
    else:
        usage = shutil.disk_usage(source)._replace(free=2**28)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with opened(source, bert) as service:
        label(service)
        with pytest.raises(EverylabelError, match=rf"GB of {what} are free; fine-tuning needs"):
            trainer_of(service)._attempt()
        assert not (source.with_name("texts.csv.everylabel") / FOLDER).exists()
        service.label("me", "t120", 0).result()


def test_an_attempt_is_repeated_after_a_failure_whatever_the_number_of_answers_none(
    source: Path, bert: str
) -> None:
    with opened(source, bert) as service:
        label(service, 60)
        for i in range(60, 90):
            service.none_of_these("me", f"t{i}").result()
        trainer = trainer_of(service)
        trainer._failed("the disk is full")
        assert not trainer._is_due()
        for i in range(90, 97):  # a tenth more labels
            service.label("me", f"t{i}", int(TRUTH[i] == "down")).result()
        assert trainer._is_due()


def test_a_deleted_generation_falls_back_to_frozen_features(tuned: Tuned, bert: str) -> None:
    source, frozen = tuned.source, tuned.frozen
    shutil.rmtree(source.with_name("texts.csv.everylabel") / FOLDER)
    notes: list[str] = []
    with opened(source, bert, notes) as service:
        assert width(service) == frozen
        assert len(service.state.labels) == LABELLED + 1
    assert any("generation 1" in note for note in notes)


def test_the_setting_goes_back_to_frozen_features_and_forth(tuned: Tuned, bert: str) -> None:
    frozen = tuned.frozen
    with opened(tuned.source, bert) as service:
        service.change_settings("me", {"network": "frozen"}).result()
        trainer_of(service)._apply_setting()
        assert (width(service), service.desk.generation) == (frozen, None)
        assert not trainer_of(service)._is_due()
        service.change_settings("me", {"network": "auto"}).result()
        trainer_of(service)._apply_setting()
        assert width(service) == 2 * frozen


def test_a_killed_attempt_leaves_no_trace_but_a_message(
    source: Path, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NetworkTrainer, "_run", IN_A_PROCESS)
    folder = source.with_name("texts.csv.everylabel")
    with opened(source, bert) as service:
        label(service)
        monkeypatch.setattr(network, "JOB_MODULE", "everylabel.no_such_module")
        with pytest.raises(EverylabelError, match="no_such_module"):
            trainer_of(service)._attempt()
        assert service.state.generations == []
        assert list((folder / FOLDER).iterdir()) == []
    (folder / FOLDER / f"7{PART}").mkdir()  # of a server that was killed
    with opened(source, bert) as service:
        assert list((folder / FOLDER).iterdir()) == []
        assert len(service.state.labels) == LABELLED


def test_a_text_that_changed_is_embedded_again_by_the_generation(tuned: Tuned, bert: str) -> None:
    source = tuned.source
    with opened(source, bert) as service:
        before = np.array(service.desk.rows.features)
    lines = source.read_text().splitlines()
    lines[1 + 3], lines[1 + 130] = f"t3,{TEXTS[4]} w9", f"t130,{TEXTS[131]} w9"  # labelled, and not
    source.write_text("\n".join(lines) + "\n")
    with opened(source, bert, accept_changes=True) as service:
        after, generation = np.array(service.desk.rows.features), service.desk.generation
        assert generation is not None
        changed = np.flatnonzero(~np.isclose(after, before, atol=1e-6).all(axis=1))
        assert changed.tolist() == [3, 130]
        expected = generation.embed([f"{TEXTS[4]} w9", f"{TEXTS[131]} w9"])
        np.testing.assert_allclose(after[changed], expected, atol=1e-5)
        assert 3 not in service.desk.read(service.desk.cross_fitted).result()


def test_an_image_encoder_learns_behind_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkTrainer, "_run", IN_A_PROCESS)
    image = pytest.importorskip("PIL.Image")
    transformers = pytest.importorskip("transformers")
    model = tmp_path / "model"
    tiny_vision("convolutional").save_pretrained(model)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(model)
    rng, folder = np.random.default_rng(0), tmp_path / "pictures"
    folder.mkdir()
    truth = rng.integers(2, size=60)
    for i, number in enumerate(truth):
        pixels = rng.integers(0, 100, size=(16, 16, 3))
        pixels[8 * number : 8 * number + 4, :, 0] += 60
        image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02}.png")
    columns: dict[str, Any] = {"classes": ["up", "down"], "folder": tmp_path / "project"}

    def project() -> Any:
        return open_project(folder, model=str(model), log=LogUse(), **columns)

    with opened_project(project(), LabelOptions(), print, None) as (service, *_):
        frozen = width(service)
        for i in range(40):
            service.label("me", f"{i:02}.png", int(truth[i])).result()
        assert trainer_of(service).state.why_frozen == ""
        trainer_of(service)._attempt()
        (found,) = service.state.generations
        assert found.labels == 40
        if found.trusted:
            assert width(service) == 2 * frozen
    with opened_project(project(), LabelOptions(), print, None) as (service, *_):
        assert width(service) == (2 if found.trusted else 1) * frozen


def test_changed_files_are_no_generation(tuned: Tuned, bert: str) -> None:
    folder = tuned.source.with_name("texts.csv.everylabel")
    with opened(tuned.source, bert) as service:
        body = service.state.generation
    assert load_generation(folder, body) is not None
    features = folder / FOLDER / "1" / "features.npy"
    features.write_bytes(features.read_bytes()[:-4] + b"0000")
    assert load_generation(folder, body) is None


def test_items_without_a_pretrained_network_say_why(tmp_path: Path) -> None:
    project = open_project("digits", folder=tmp_path / "digits")
    assert "no network to train" in network.why_frozen(project)
