"""LastLayer on small networks and tiny transformers, and its errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import everylabel as el
from everylabel.models.forward import _to
from everylabel.torch import LastLayer


class Cnn(nn.Module):
    """Like torchvision's: features, pooling, dropout and a classifier."""

    def __init__(self, k: int = 5, bias: bool = True) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2)
        )
        self.classifier = nn.Sequential(
            nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, k, bias=bias)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).flatten(1))


class Vit(nn.Module):
    """A transformer on patches, with a class token."""

    def __init__(self, k: int = 5) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, k)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], dim=1)
        return self.head(self.encoder(tokens)[:, 0])


class Lightning(nn.Module):
    """Duck-typed: a module that holds a network and answers with a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Cnn()

    def training_step(self, batch: Any, index: int) -> None: ...

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.net(x), "other": x}


NETWORKS: dict[str, Callable[[], Any]] = {
    "cnn": Cnn,
    "cnn without a bias": lambda: Cnn(bias=False),
    "vit": Vit,
    "lightning": Lightning,
    "parallel": lambda: nn.DataParallel(Cnn()),
    "compiled": lambda: torch.compile(Cnn(), backend="eager"),
    "probabilities": lambda: nn.Sequential(Cnn(), nn.Softmax(1)),
    "log probabilities": lambda: nn.Sequential(Cnn(), nn.LogSoftmax(1)),
    "several inputs squeezed to one logit": lambda: nn.Sequential(Cnn(1), nn.Flatten(0)),
}


def images(n: int = 20, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, 8, 8, generator=generator), torch.arange(n) % 5


def logits(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        output = model(x)
    return output["logits"] if isinstance(output, dict) else output


@pytest.mark.parametrize("name", NETWORKS)
def test_features_times_mean_are_the_models_logits(name: str) -> None:
    torch.manual_seed(0)
    model, (x, _) = NETWORKS[name](), images()
    head = LastLayer(model)
    post = el.laplace(head.mean(), head.features(x), "binary" if head.layer.out_features == 1 else "gaussian")
    ours, theirs = el.logits(post, head.features(x)).float(), logits(model, x)
    if "probabilities" in name:
        ours = ours.log_softmax(1) if name.startswith("log") else ours.softmax(1)
    torch.testing.assert_close(ours.reshape(theirs.shape), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in NETWORKS if "squeezed" not in name])
def test_updated_weights_go_back_into_the_model(name: str) -> None:
    torch.manual_seed(0)
    model, (x, y) = NETWORKS[name](), images()
    head = LastLayer(model)
    rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=7)
    post = el.update(head.laplace(rows), head.features(x[:3]), y[:3])
    head.write(post)
    ours = el.logits(post, head.features(x)).float().log_softmax(1)
    theirs = logits(model, x)
    theirs = theirs.log() if name == "probabilities" else theirs.log_softmax(1)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_all_kinds_of_data_give_the_same_posterior() -> None:
    torch.manual_seed(0)
    x, y = images()
    head = LastLayer(Cnn())
    dataset = torch.utils.data.TensorDataset(x, y)
    sources = [
        (x, y),
        (x.numpy(), y.numpy()),
        (torch.utils.data.DataLoader(x, batch_size=6), y),  # type: ignore[arg-type]
        dataset,
        torch.utils.data.DataLoader(dataset, batch_size=6),
        [(x[:4], y[:4]), (x[4:], y[4:])],
        x,
    ]
    posteriors = [head.laplace(source, prior_precision=0.3, batch_size=8) for source in sources]
    for post in posteriors[1:]:
        torch.testing.assert_close(post.cov, posteriors[0].cov)
    assert posteriors[0].prior_precision == 0.3


def test_every_module_keeps_its_mode_even_after_an_error() -> None:
    model = Cnn().train()
    model.features[1].eval()  # a frozen batch norm
    head = LastLayer(model)
    head.features(images()[0])
    with pytest.raises(RuntimeError):
        head.features(torch.zeros(2, 7, 8, 8))
    modes = [module.training for module in (model, model.features, model.features[1], model.classifier)]
    assert modes == [True, True, False, True]
    assert not head.layer._forward_hooks
    assert head.features(images()[0]).requires_grad is False


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision_is_kept(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(dtype)
    x, y = torch.randn(30, 4, dtype=dtype), torch.arange(30) % 3
    head = LastLayer(model)
    assert head.features(x).dtype == dtype
    post = el.update(head.laplace((x, y)), head.features(x[:1]), y[:1])
    head.write(post)
    assert head.layer.weight.dtype == dtype
    torch.testing.assert_close(head.mean(), post.mean, atol=2e-2, rtol=2e-2)


def test_a_head_with_one_output_is_binary() -> None:
    torch.manual_seed(0)
    model, (x, y) = Cnn(1), images()
    head = LastLayer(model)
    post = head.laplace((x, y % 2))
    assert post.likelihood == "binary"
    post = el.update(post, head.features(x), y % 2, step_size=1.0)
    head.write(post)
    positive = torch.sigmoid(logits(model, x))[:, 0]
    torch.testing.assert_close(el.predict_proba(post, head.features(x), "mean")[:, 1].float(), positive)
    with pytest.raises(el.EverylabelError, match="expected 'binary'"):
        head.laplace((x, y), likelihood="gaussian")


def test_a_binary_posterior_of_two_outputs_goes_back_into_both() -> None:
    torch.manual_seed(0)
    model, (x, y) = Cnn(2), images()
    head = LastLayer(model)
    post = head.laplace((x, y % 2), likelihood="binary")
    middle = head.mean().mean(dim=1)
    post = el.update(post, head.features(x), y % 2, step_size=1.0)
    head.write(post)
    probs = el.predict_proba(post, head.features(x), "mean").float()
    torch.testing.assert_close(logits(model, x).softmax(1), probs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(head.mean().mean(dim=1), middle, atol=1e-6, rtol=1e-6)


def test_several_last_layers_are_listed() -> None:
    model = nn.Module()
    model.topic, model.tone = nn.Linear(8, 3), nn.Linear(8, 2)
    with pytest.raises(el.EverylabelError, match=r"several last layers: topic, tone; expected layer= one of"):
        LastLayer(model)
    assert LastLayer(model, "topic").layer is model.topic
    assert LastLayer(model, model.tone).name == "tone"


def test_a_layer_that_is_not_the_output_is_noticed() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.body = nn.Linear(8, 3), nn.Linear(4, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.body(x)))

    with pytest.raises(el.EverylabelError, match=r"not that of layer 'body'.*'head' \(8 to 3\)"):
        LastLayer(Backwards()).features(torch.randn(2, 4))
    assert LastLayer(Backwards(), "head").features(torch.randn(2, 4)).shape == (2, 8)
    with pytest.raises(el.EverylabelError, match=r"layer is 'body', after which the model runs 'head'"):
        LastLayer(Backwards(), "body").laplace((torch.randn(2, 4), [0, 1]))


def test_a_head_beside_others_can_be_named() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.topic, self.tone = nn.Linear(4, 3), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"topic": self.topic(x), "tone": self.tone(x)}

    for name in ("topic", "tone"):
        assert LastLayer(Heads(), name).features(torch.randn(2, 4)).shape == (2, 4)


def test_numbers_of_numpy_come_in_the_precision_of_the_model() -> None:
    x, model = np.random.default_rng(0).normal(size=(5, 4)), nn.Sequential(nn.Linear(4, 3))
    assert LastLayer(model).features(x).dtype == torch.float32
    torch.testing.assert_close(LastLayer(model).features((x, [0] * 5)), torch.as_tensor(x).float())


def test_numbers_of_numpy_stay_fractions_where_weights_are_quantised() -> None:
    x = np.array([[0.25, -1.5]], np.float32)
    torch.testing.assert_close(_to(x, torch.zeros(1, dtype=torch.uint8)), torch.as_tensor(x))


def test_bad_input_is_named() -> None:
    x, y = images()
    with pytest.raises(el.EverylabelError, match="model is a str"):
        LastLayer("resnet")  # type: ignore[arg-type]
    with pytest.raises(el.EverylabelError, match=r"no torch\.nn\.Linear"):
        LastLayer(nn.Conv2d(1, 1, 1))
    with pytest.raises(el.EverylabelError, match="layer is 'fc', no linear layer"):
        LastLayer(Cnn(), "fc")
    with pytest.raises(el.EverylabelError, match="no weights yet"):
        LastLayer(nn.Sequential(nn.LazyLinear(3)))
    with pytest.raises(el.EverylabelError, match="parametrised"):
        LastLayer(nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))))
    head = LastLayer(Cnn())
    with pytest.raises(el.EverylabelError, match="tuple of 3"):
        head.features((x, y, y))
    with pytest.raises(el.EverylabelError, match="data is a int"):
        head.features(3)
    with pytest.raises(el.EverylabelError, match="no batches"):
        head.features([])
    other = el.laplace(np.zeros((33, 6)), np.zeros((2, 32)))
    before = head.mean()
    with pytest.raises(el.EverylabelError, match=r"6 classes and bias=True; layer 'classifier\.3'"):
        head.write(other)
    with pytest.raises(el.EverylabelError, match="not finite"):
        head.write(other.replace(mean=np.full((33, 5), np.nan)))
    assert torch.equal(head.mean(), before)


class Text(nn.Module):
    """Two linear layers that see tokens, one that the model never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.unused = nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x)


def test_unused_layers_and_tokens_are_named() -> None:
    with pytest.raises(el.EverylabelError, match="layer 'unused' was not run"):
        LastLayer(Text()).features(torch.randn(2, 4))
    with pytest.raises(el.EverylabelError, match=r"is given shape \(2, 5, 4\)"):
        LastLayer(Text(), "head").features(torch.randn(2, 5, 4))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    model, (x, y) = Cnn().cuda(), images()
    head = LastLayer(model)
    post = el.update(head.laplace((x, y)), head.features(x), y.cuda())
    head.write(post)
    assert head.layer.weight.is_cuda


class Cosine(torch.nn.Linear):
    """A head that is no linear layer, though it is one by its class."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(torch.nn.functional.normalize(input), self.weight)


class Tied(torch.nn.Module):
    def __init__(self, head: torch.nn.Linear) -> None:
        super().__init__()
        self.first, self.head = torch.nn.Linear(4, 4), head
        head.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.first(x)))


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.head(x))


class TokenMean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(input=x).mean(dim=1)


@pytest.mark.filterwarnings("ignore")
def test_layers_that_cannot_be_written_into_are_refused() -> None:
    x = torch.ones(5, 4) + torch.arange(5)[:, None]
    old: list[Any] = [torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm]
    for wrap in old:
        with pytest.raises(el.EverylabelError, match="parametrised"):
            LastLayer(torch.nn.Sequential(wrap(torch.nn.Linear(4, 3))))
    with pytest.raises(el.EverylabelError, match="expected a plain"):
        LastLayer(torch.nn.Sequential(torch.nn.Linear(4, 4), Cosine(4, 3)), layer="1").features(x)
    with pytest.raises(el.EverylabelError, match="shares its weights"):
        LastLayer(Tied(torch.nn.Linear(4, 4)))
    with pytest.raises(el.EverylabelError, match="is run 2 times"):
        LastLayer(Twice()).features(x)
    with pytest.raises(el.EverylabelError, match="none of the tokens"):
        LastLayer(TokenMean(), layer="head").features(torch.randn(5, 2, 4))


def test_labels_of_another_number_are_refused() -> None:
    head = LastLayer(torch.nn.Sequential(torch.nn.Linear(4, 3)))
    with pytest.raises(el.EverylabelError, match="5 inputs and 4 labels"):
        head.laplace((torch.ones(5, 4), torch.zeros(4)))
    with pytest.raises(el.EverylabelError, match="no numbers"):
        head.laplace((torch.ones(1, 4), ["a"]))


def test_labels_beside_a_loader_that_shuffles_are_refused() -> None:
    model, x = nn.Linear(3, 2), torch.randn(8, 3)
    y = (x[:, 0] > 0).long()
    rows = torch.utils.data.TensorDataset(x, y)
    layer = LastLayer(model)
    with pytest.raises(el.EverylabelError, match=r"loader that shuffles, and labels .* shuffle=False"):
        layer.laplace(torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True), labels=y)
    in_order = layer.laplace(torch.utils.data.DataLoader(rows, batch_size=4), labels=y)
    assert in_order.data is not None
    assert torch.equal(in_order.data.labels, y)
    layer.laplace(torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True))  # no order is needed
