"""LastLayer on tiny, randomly initialised Hugging Face classifiers: nothing is downloaded."""

from typing import Any

import pytest
import torch

import everylabel as el
from everylabel.torch import LastLayer

transformers = pytest.importorskip("transformers", reason="needs the extra everylabel[text]")

SMALL: dict[str, Any] = {"num_labels": 3, "vocab_size": 50}
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
VISION = {**BERT, "num_labels": 3, "image_size": 28, "patch_size": 14}
TEXT_MODELS: dict[str, Any] = {
    "BertForSequenceClassification": lambda: transformers.BertConfig(**SMALL, **BERT),
    "RobertaForSequenceClassification": lambda: transformers.RobertaConfig(**SMALL, **BERT),
    "DistilBertForSequenceClassification": lambda: transformers.DistilBertConfig(
        **SMALL, dim=16, n_layers=2, n_heads=2, hidden_dim=32
    ),
    "GPT2ForSequenceClassification": lambda: transformers.GPT2Config(
        **SMALL, n_embd=16, n_layer=2, n_head=2, pad_token_id=0
    ),
}
IMAGE_MODELS: dict[str, Any] = {
    "ViTForImageClassification": lambda: transformers.ViTConfig(**VISION),
    "Dinov2ForImageClassification": lambda: transformers.Dinov2Config(**VISION, mlp_ratio=2),
}


def build(name: str, configs: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, name)(configs[name]())


def check(model: Any, inputs: dict[str, torch.Tensor]) -> None:
    """Labels come from the batch, features and weights give the model's own logits, before and after."""
    n, model = len(next(iter(inputs.values()))), model.train()
    labels = torch.arange(n) % 3
    head = LastLayer(model)
    post = head.laplace([{**inputs, "labels": labels}])
    post = el.update(post, head.features(inputs), labels)
    assert model.training
    with torch.no_grad():
        before = model.eval()(**inputs).logits
        head.write(post)
        after = model(**inputs).logits
    assert not torch.allclose(before, after)
    torch.testing.assert_close(el.logits(post, head.features(inputs)).float(), after, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_sequence_classification(name: str) -> None:
    ids = torch.randint(2, 50, (12, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    for row in range(12):  # of all lengths, padded at the end
        ids[row, 3 + row % 5 :], mask[row, 3 + row % 5 :] = 0, 0
    check(build(name, TEXT_MODELS), {"input_ids": ids, "attention_mask": mask})


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_image_classification(name: str) -> None:
    pixels = torch.randn(12, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    check(build(name, IMAGE_MODELS), {"pixel_values": pixels})
