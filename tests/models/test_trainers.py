"""Functions that retrain a network by another library, within the active learner."""

import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra everylabel[torch]")
import torch

import everylabel as el
from everylabel.models.trainers import LabelledItems
from everylabel.torch import ActiveLearner, train_with

RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=90)
X = torch.tensor(RNG.normal(size=(90, 6)) + 2 * np.eye(6)[Y], dtype=torch.float32)
NEEDS = {"skorch": "skorch", "lightning": "lightning", "lora": "peft"}


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def accuracy(model: torch.nn.Module) -> float:
    with torch.no_grad():
        return float((model(X).argmax(1).numpy() == Y).mean())


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("library", list(NEEDS))
def test_network_learns_and_keeps_its_form(library: str) -> None:
    pytest.importorskip(NEEDS[library])
    labelled = LabelledItems(X, np.arange(60), Y[:60])
    trained = train_with(library, epochs=100, learning_rate=0.02)(network(), labelled)
    assert trained is not None
    assert accuracy(trained) > max(0.7, accuracy(network()))
    assert not trained.training
    assert [name for name, _ in trained.named_parameters()] == [
        name for name, _ in network().named_parameters()
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", list(NEEDS))
def test_learner_retrains_by_it(library: str) -> None:
    pytest.importorskip(NEEDS[library])
    learner = ActiveLearner(network(), X, train=train_with(library, epochs=3))
    for batch in learner.rounds(n=2, batch_size=6):
        for i in batch:
            batch.label(i, int(Y[i]))
    assert [row["labels"] for row in learner.history] == [6, 12]


@pytest.mark.filterwarnings("ignore")
def test_trainer_of_transformers_takes_a_dict_of_tensors() -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=20, max_position_embeddings=8, num_labels=2, **sizes)
    ids = torch.randint(2, 20, (40, 5))
    labels = (ids[:, 0] > 10).long().numpy()
    pool = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    model = transformers.BertForSequenceClassification(config)
    learner = ActiveLearner(model, pool, train=train_with("transformers", epochs=2))
    for batch in learner.rounds(n=1, batch_size=8):
        for i in batch:
            batch.label(i, int(labels[i]))
    assert learner.predict_proba(pool).shape == (40, 2)


def test_library_that_is_missing_or_unknown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning", None)
    with pytest.raises(el.EverylabelError, match="pip install lightning"):
        train_with("lightning")(network(), LabelledItems(X, np.arange(9), Y[:9]))
    with pytest.raises(el.EverylabelError, match="library is 'keras'"):
        train_with("keras")


def test_lora_needs_a_layer_below_the_last() -> None:
    pytest.importorskip("peft")
    labelled = LabelledItems(X, np.arange(9), Y[:9])
    with pytest.raises(el.EverylabelError, match="no linear layer below the last"):
        train_with("lora")(torch.nn.Sequential(torch.nn.Linear(6, 3)), labelled)
