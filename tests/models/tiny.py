"""Tiny random encoders of texts and images, and texts that no linear head on its features can tell apart."""

from pathlib import Path
from typing import Any

import numpy as np

WORDS = [f"w{i}" for i in range(40)]
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def tiny_bert(folder: Path) -> str:
    """Write a sentence-transformers model of four blocks that knows forty words; return its folder."""
    import sentence_transformers
    import torch
    import transformers

    torch.manual_seed(0)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    plain = folder / "plain"
    sizes: dict[str, Any] = {
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 32,
        "initializer_range": 0.3,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    transformers.BertModel(transformers.BertConfig(**sizes, **SIZES)).save_pretrained(plain)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(plain)
    model = sentence_transformers.SentenceTransformer(str(plain), device="cpu")
    model.save(str(folder / "model"), create_model_card=False)
    return str(folder / "model")


def tiny_vision(kind: str) -> Any:
    """Return a random encoder of images of 16 x 16 pixels."""
    import torch
    import transformers

    torch.manual_seed(0)
    if kind == "vit":
        blocks = transformers.ViTConfig(image_size=16, patch_size=8, **SIZES)
        return transformers.ViTModel(blocks, add_pooling_layer=False)
    stages = transformers.ConvNextConfig(
        patch_size=2, image_size=16, hidden_sizes=[8, 16, 32], depths=[1, 2, 1], num_stages=3
    )
    return transformers.ConvNextModel(stages)


def some_texts(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return texts whose class is the exclusive or of two words, and their classes."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        first, second = rng.integers(2, size=2)
        words = [*rng.choice(WORDS[4:6], 2), WORDS[first], WORDS[2 + second]]
        texts.append(" ".join(rng.permutation(words)))
        labels.append("up" if first != second else "down")
    return texts, labels
