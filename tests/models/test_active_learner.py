"""ActiveLearner: Algorithm 1 around a tiny network, killed and resumed."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import everylabel as el
from everylabel.models.finetuning import Recipe
from everylabel.models.trainers import LabelledItems
from everylabel.torch import ActiveLearner, LastLayer, train_network
from tests.models.test_finetuning import bert
from tests.models.tiny import some_texts

__all__ = ["bert"]
X, Y = load_digits(return_X_y=True)
IMAGES = torch.tensor(X / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
TRAIN = partial(train_network, epochs=60, learning_rate=0.02)


def cnn(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)
    )


def label_all(learner: ActiveLearner, n: int, batch_size: int) -> list[int]:
    picked = []
    for batch in learner.rounds(n=n, batch_size=batch_size):
        for i in batch:
            picked.append(i)
            batch.label(i, Y[i])
    return picked


@pytest.mark.parametrize("update", ["exact", "second_order"])
def test_network_learns_round_by_round(update: str) -> None:
    test = IMAGES[1000:1300], Y[1000:1300]
    learner = ActiveLearner(cnn(), IMAGES[:600], update=update, train=TRAIN, test=test)
    picked = label_all(learner, 4, 15)
    assert len(set(picked)) == 60
    assert [row["labels"] for row in learner.history] == [15, 30, 45, 60]
    assert learner.history[-1]["accuracy"] > max(0.5, learner.history[0]["accuracy"])
    proba = learner.predict_proba(IMAGES[:5])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    frame = learner.history.frame()
    assert list(frame["labels"]) == [15, 30, 45, 60]


def test_each_pick_uses_the_last_label() -> None:
    learner = ActiveLearner(cnn(), IMAGES[:200], train=TRAIN)
    label_all(learner, 1, 10)
    before = learner.predict_proba(IMAGES[:200])
    i = learner.pick()
    assert i == el.select(learner.pool, "margin", rng=np.random.default_rng(0))[0]
    learner.label(i, Y[i])
    after = learner.predict_proba(IMAGES[:200])
    assert after[i, Y[i]] > before[i, Y[i]]
    assert learner.pick() != i


def test_paper_update_begins_at_the_networks_own_layer() -> None:
    learner = ActiveLearner(cnn(), IMAGES[:100], update="second_order", train=TRAIN)
    label_all(learner, 1, 10)
    mean = LastLayer(learner.network.model).mean()  # type: ignore[union-attr]
    np.testing.assert_allclose(learner.pool.posterior.mean, mean, atol=1e-12)
    assert learner.pool.step_size == 10.0


@pytest.fixture(scope="module")
def never_killed() -> tuple[ActiveLearner, list[int]]:
    """Return a learner after three rounds, and its picks."""
    whole = ActiveLearner(cnn(), IMAGES[:200], train=TRAIN)
    return whole, label_all(whole, 3, 10)


@pytest.mark.parametrize("killed_after", [4, 10, 13])
def test_killed_run_continues_as_if_it_had_not_been(
    tmp_path: Path, killed_after: int, never_killed: tuple[ActiveLearner, list[int]]
) -> None:
    whole, picked = never_killed
    learner = ActiveLearner(cnn(), IMAGES[:200], train=TRAIN)
    learner.save(tmp_path / "run")
    first: list[int] = []
    for batch in learner.rounds(n=3, batch_size=10):
        for i in batch:
            batch.label(i, Y[i])
            first.append(i)
            if len(first) == killed_after:
                break
        if len(first) == killed_after:
            break  # killed: nothing is written any more
    with (tmp_path / "run" / "labels.jsonl").open("a") as file:
        file.write('{"item": 3, "la')  # and a line that was not whole
    again = ActiveLearner.load(tmp_path / "run", cnn(3), IMAGES[:200], train=TRAIN)
    assert list(again.labels) == first
    assert first + label_all(again, 3, 10) == picked
    assert [row["labels"] for row in again.history] == [10, 20, 30]
    np.testing.assert_allclose(again.predict_proba(IMAGES[:9]), whole.predict_proba(IMAGES[:9]), atol=1e-6)
    third = ActiveLearner.load(tmp_path / "run", cnn(5), IMAGES[:200], train=TRAIN)
    np.testing.assert_allclose(third.predict_proba(IMAGES[:9]), whole.predict_proba(IMAGES[:9]), atol=1e-6)
    assert len(list((tmp_path / "run").glob("weights-*"))) == 1


def test_unlabelled_picks_are_skipped(tmp_path: Path) -> None:
    learner = ActiveLearner(cnn(), IMAGES[:50], train=TRAIN)
    learner.save(tmp_path)
    [batch] = learner.rounds(n=1, batch_size=3)
    picks = []
    for i in batch:
        picks.append(i)
        if len(picks) > 2:
            batch.label(i, Y[i])
    assert len(picks) == 5
    assert learner.skipped == set(picks[:2])
    assert ActiveLearner.load(tmp_path, cnn(), IMAGES[:50]).skipped == set(picks[:2])


def test_pool_of_a_dataset_or_of_dicts() -> None:
    plain = torch.utils.data.TensorDataset(IMAGES[:80], torch.tensor(Y[:80]))
    learner = ActiveLearner(cnn(), plain, train=TRAIN)
    assert len(label_all(learner, 1, 5)) == 5

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = cnn()

        def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.inner(pixels)}

    learner = ActiveLearner(Named(), {"pixels": IMAGES[:80]}, train=TRAIN)
    assert len(label_all(learner, 1, 5)) == 5


def test_train_function_of_the_users() -> None:
    seen: list[Any] = []

    def train(model: torch.nn.Module, labelled: LabelledItems) -> torch.nn.Module:
        seen.append((labelled.idx.tolist(), labelled.labels.tolist(), labelled[0]))
        return train_network(model, labelled, layers="last", epochs=5)

    learner = ActiveLearner(cnn(), IMAGES[:50], train=train)
    picked = label_all(learner, 2, 4)
    idx, labels, (image, label) = seen[1]
    assert idx == sorted(picked)
    assert labels == Y[idx].tolist()
    assert torch.equal(image, IMAGES[idx[0]])
    assert int(label) == Y[idx[0]]


def test_skorch_trains_on_labelled() -> None:
    skorch = pytest.importorskip("skorch")

    def train(model: torch.nn.Module, labelled: LabelledItems) -> torch.nn.Module:
        net = skorch.NeuralNetClassifier(
            model, criterion=torch.nn.CrossEntropyLoss, max_epochs=3, train_split=None, verbose=0
        )
        return net.fit(labelled, y=None).module_

    assert len(label_all(ActiveLearner(cnn(), IMAGES[:50], train=train), 1, 4)) == 4


def test_last_layer_alone() -> None:
    model = cnn()
    before = [value.clone() for value in model.parameters()]
    labelled = LabelledItems(IMAGES[:50], np.arange(50), Y[:50])
    after = list(train_network(model, labelled, layers="last", epochs=3).parameters())
    same = [torch.equal(a, b) for a, b in zip(before, after, strict=True)]
    assert same == [True, True, False, False]
    with pytest.raises(el.EverylabelError, match="layers is 'first'"):
        train_network(model, labelled, layers="first")


def test_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    learner = ActiveLearner(cnn(), IMAGES[:50], train=TRAIN, test=(IMAGES[100:150], Y[100:150]))
    label_all(learner, 2, 4)
    axes = learner.history.plot()
    assert [line.get_label() for line in axes.lines] == ["held-out items", "guesses before the answer"]
    assert axes.lines[0].get_xdata().tolist() == [4, 8]


def test_encoder_is_tuned_and_resumed(bert: str, tmp_path: Path) -> None:
    texts, labels = some_texts(40)
    learner = ActiveLearner(bert, texts, classes=["down", "up"], names=False, recipe=Recipe(steps=4))
    learner.save(tmp_path)
    for batch in learner.rounds(n=2, batch_size=8):
        for i in batch:
            batch.label(i, labels[i])
    assert [row["labels"] for row in learner.history] == [8, 16]
    i = learner.pick()
    learner.label(i, labels[i])
    again = ActiveLearner.load(tmp_path)
    assert again.labels == learner.labels
    np.testing.assert_allclose(again.predict_proba(texts), learner.predict_proba(texts), atol=1e-4)
    with pytest.raises(el.EverylabelError, match="label is 'sideways'"):
        learner.label(learner.pick(), "sideways")
    with pytest.raises(el.EverylabelError, match="classes is None"):
        ActiveLearner(bert, texts)
