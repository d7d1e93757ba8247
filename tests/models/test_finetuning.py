"""Fine-tuning of a tiny, randomly initialised BERT and ViT: nothing is downloaded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import everylabel as el
from everylabel.models.finetuning import Cancelled, Encoder, Finetuned, Recipe, TunedEncoder, Tuner
from everylabel.models.finetuning.encoder import States
from everylabel.models.finetuning.recipe import train_blocks
from everylabel.models.finetuning.tuning import calibrated_losses, is_better
from tests.models.tiny import some_texts, tiny_bert, tiny_vision

transformers = pytest.importorskip("transformers", reason="needs the extra everylabel[text]")
sentence_transformers = pytest.importorskip(
    "sentence_transformers", reason="needs the extra everylabel[text]"
)

QUICK = Recipe(steps=30, batch_size=32, learning_rate=5e-3)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def tuned(bert: str) -> Finetuned:
    texts, labels = some_texts(80)
    return el.finetune(bert, texts, labels, unlabelled=some_texts(30, 1)[0], recipe=QUICK)


def test_states_give_the_features_of_the_whole_network(bert: str) -> None:
    texts = [text + " w7" * (i % 5) for i, text in enumerate(some_texts(50)[0])]
    encoder = Encoder(bert)
    states = States(encoder, texts)
    assert len(encoder.lower) == len(encoder.upper) == 2
    assert len(set(states.lengths)) == 5
    np.testing.assert_allclose(states.features, encoder.embed(texts), atol=1e-6)
    np.testing.assert_allclose(states.embed(), states.features, atol=5e-3)  # states are float16
    with pytest.raises(el.EverylabelError, match="cache_bytes is 1,000"):
        States(encoder, texts, most_bytes=1000)


def test_loss_falls(bert: str) -> None:
    texts, labels = some_texts(80)
    encoder = Encoder(bert)
    states, y = States(encoder, texts), np.array([label == "up" for label in labels]).astype(int)
    below = {name: value.clone() for name, value in encoder.model.state_dict().items()}
    head = np.zeros((32, 2)), np.zeros(2)
    losses = train_blocks(states, np.arange(80), y, head, None, QUICK, 0)
    assert np.mean(losses[-5:]) < 0.85 * np.mean(losses[:5])
    changed = {
        name for name, value in encoder.model.state_dict().items() if not torch.equal(value, below[name])
    }
    assert changed
    assert all(".layer.2." in name or ".layer.3." in name for name in changed)


def test_lora_changes_linear_layers_by_matrices_of_low_rank(bert: str) -> None:
    texts, labels = some_texts(80)
    encoder = Encoder(bert)
    states, y = States(encoder, texts), np.array([label == "up" for label in labels]).astype(int)
    before = encoder.weights()
    recipe = QUICK._replace(rank=2, learning_rate=2e-2)
    losses = train_blocks(states, np.arange(80), y, (np.zeros((32, 2)), np.zeros(2)), None, recipe, 0)
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    after = encoder.weights()
    assert after.keys() == before.keys()  # merged: the network is as before in form
    linear = {name for name, value in before.items() if value.ndim == 2}
    for name, value in after.items():
        rank = torch.linalg.matrix_rank(value - before[name], tol=1e-4) if name in linear else 0
        assert rank == (2 if name in linear else 0)
    assert all(weight.requires_grad for weight in encoder.upper.parameters())


def test_learnable_classes_are_trusted(tuned: Finetuned) -> None:
    assert tuned.trusted
    assert tuned.log_loss["tuned"] < tuned.log_loss["frozen"]
    assert tuned.accuracy["tuned"] > tuned.accuracy["frozen"]
    assert tuned.features.shape == (80, 64)
    assert tuned.unlabelled.shape == (30, 64)
    assert tuned.proba.shape == (80, 2)
    np.testing.assert_allclose(tuned.proba.sum(axis=1), 1)
    texts, labels = some_texts(100, 2)
    head = tuned.classifier()
    assert np.mean(head.predict(tuned.embed(texts)) == labels) > 0.65


def test_overconfidence_alone_does_not_refuse_better_predictions() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    right = {"frozen": rng.random(200) < 0.6, "tuned": rng.random(200) < 0.75}
    sure = {"frozen": 0.62, "tuned": 0.999}  # probability of the class that is said
    losses = {}
    for how, hit in right.items():
        p = np.where(hit, sure[how], 1 - sure[how])
        losses[how] = calibrated_losses(np.where(y[:, None] == [0, 1], p[:, None], 1 - p[:, None]), y)
        share = hit.mean()
        assert np.mean(losses[how]) == pytest.approx(
            -share * np.log(share) - (1 - share) * np.log(1 - share), abs=0.03
        )
    assert is_better(losses["tuned"], losses["frozen"])
    assert not is_better(losses["frozen"], losses["tuned"])
    assert not is_better(losses["frozen"] + rng.normal(size=200), losses["frozen"])  # chance


def test_random_labels_are_refused(bert: str) -> None:
    texts, _ = some_texts(60)
    labels = np.random.default_rng(1).choice(["a", "b"], 60).tolist()
    refused = el.finetune(bert, texts, labels, recipe=QUICK)
    assert not refused.trusted
    assert refused.features.shape == (60, 32)
    np.testing.assert_array_equal(refused.proba, refused.frozen_proba)
    np.testing.assert_allclose(refused.embed(texts), refused.features, atol=1e-5)


def test_cross_fitted_predictions_do_not_use_their_own_label(bert: str) -> None:
    texts, labels = some_texts(24)
    tuner = Tuner(Encoder(bert), texts, ["down", "up"])
    known = {i: int(label == "up") for i, label in enumerate(labels)}
    quick = Recipe(steps=4, learning_rate=3e-3)
    before = tuner.tune(known, recipe=quick, folds=3)
    after = tuner.tune({**known, 5: 1 - known[5]}, recipe=quick, folds=3)
    for name in ("frozen_proba", "tuned_proba"):
        was, now = getattr(before, name), getattr(after, name)
        np.testing.assert_array_equal(was[5], now[5])
        assert np.any(was != now)  # the label is learned for others


def test_same_seed_gives_the_same(bert: str) -> None:
    texts, labels = some_texts(20)
    quick = Recipe(steps=3)
    first, again, other = (el.finetune(bert, texts, labels, recipe=quick, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.tuned, again.tuned)
    np.testing.assert_array_equal(first.tuned_proba, again.tuned_proba)
    assert np.any(first.tuned != other.tuned)


def test_saved_folder_opens_in_sentence_transformers(tuned: Finetuned, tmp_path: Path) -> None:
    folder = tuned.save(tmp_path / "tuned")
    assert (folder / "model.safetensors").is_file()
    texts = some_texts(80)[0]
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(model.encode(texts), tuned.encoder.embed_tuned(texts), atol=1e-5)
    np.testing.assert_allclose(el.embed(texts, str(folder), cache=False), model.encode(texts), atol=1e-4)
    again = TunedEncoder.load(folder)
    np.testing.assert_allclose(again.embed(texts), tuned.embed(texts), atol=1e-5)
    np.testing.assert_allclose(again.embed(texts), tuned.features, atol=5e-3)
    assert json.loads((folder / "finetuned.json").read_text())["trusted"] is True


def test_cancelled_leaves_nothing(bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    texts, labels = some_texts(30)
    told: list[tuple[float, str]] = []
    encoder = Encoder(bert)
    tuner = Tuner(encoder, texts, ["down", "up"], cancelled=lambda: len(told) > 5)
    before = encoder.weights()
    with pytest.raises(Cancelled, match="cancelled"):
        tuner.tune(dict(enumerate([int(label == "up") for label in labels])), progress=_into(told))
    assert told[-1][0] < 0.5
    for name, value in encoder.weights().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert list(tmp_path.iterdir()) == []


def test_progress_rises_to_one(bert: str) -> None:
    texts, labels = some_texts(20)
    told: list[tuple[float, str]] = []
    el.finetune(bert, texts, labels, recipe=Recipe(steps=2), progress=_into(told))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_given_model_stays_as_it_is(bert: str) -> None:
    model = sentence_transformers.SentenceTransformer(bert, device="cpu")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts, labels = some_texts(20)
    el.finetune(model, texts, labels, names={"up": "w0 w1", "down": ["w1 w0"]}, recipe=Recipe(steps=2))
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["vit", "convolutional"])
def test_images_by_the_same_code(tmp_path: Path, kind: str) -> None:
    processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=40)
    pixels = rng.integers(0, 100, size=(40, 16, 16, 3))
    pixels[labels == 1, :8, :8] += 100
    images = [image.fromarray(some.astype(np.uint8)) for some in pixels]
    model = tiny_vision(kind)
    found = el.finetune(
        (processor, model), images, labels.tolist(), kind="image", recipe=QUICK._replace(steps=10)
    )
    assert found.frozen.shape == (40, 32)
    assert not np.allclose(found.frozen, found.tuned, atol=1e-2)
    folder = found.save(tmp_path / "vision")
    again = type(model).from_pretrained(folder).eval()
    with torch.inference_mode():
        rows = again(**processor(images, return_tensors="pt")).last_hidden_state
    rows = rows[:, 0] if kind == "vit" else rows.mean((2, 3))
    np.testing.assert_allclose(rows.numpy(), found.tuned, atol=2e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["a"] * 20}, "expected at least 8, of two"),
        ({"labels": ["a", "b"]}, "expected the same number"),
        ({"folds": 1}, "folds is 1"),
        ({"blocks": 4}, "blocks is 4"),
        ({"encoder": 3}, "encoder is a int"),
    ],
)
def test_errors_say_what_to_do(bert: str, change: dict[str, Any], message: str) -> None:
    texts, labels = some_texts(20)
    given: dict[str, Any] = {"encoder": bert, "texts": texts, "labels": labels, "folds": 2, **change}
    with pytest.raises(el.EverylabelError, match=message):
        el.finetune(**given)


def test_encoder_without_blocks() -> None:
    with pytest.raises(el.EverylabelError, match="without a list of blocks"):
        Encoder((None, torch.nn.Linear(2, 2)), "image")


def _into(told: list[tuple[float, str]]) -> Any:
    return lambda share, message: told.append((share, message))
