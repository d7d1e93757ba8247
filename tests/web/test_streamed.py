"""JSON in pieces is the JSON of the whole."""

import json

import numpy as np
import pytest

from everylabel.core.arrays import softmax
from everylabel.labelling import queues
from everylabel.labelling.queues import Page
from everylabel.web.routes.reading import pieces


@pytest.mark.parametrize("n", [0, 1, 7])
def test_pieces_are_one_reply(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "AT_ONCE", 6)
    logits = np.random.default_rng(0).normal(size=(n, 3))
    page = Page([f'"{i}\u2028' for i in range(n)], ["a", "b"], logits, softmax, [2, 0], 9, None)
    parts = list(pieces(page))
    found = json.loads(b"".join(parts))
    assert len(parts) == 2 + -(-n // 2)
    odds = np.exp(logits[:, [2, 0]])  # given that one of these classes fits
    assert np.allclose(
        np.reshape(found.pop("probabilities"), (n, 2)),
        odds / odds.sum(axis=1, keepdims=True),
        atol=1e-6,
    )
    assert found == {"ids": page.ids, "classes": ["a", "b"], "total": 9, "after": None}
