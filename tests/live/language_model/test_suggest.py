"""`everylabel suggest` asks a real language model, and a project starts from its suggestions.

Runs where `make test-language-model` has installed the model (250 MB), and is skipped elsewhere.
"""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everylabel.cli import app
from tests.live.language_model.server import served

WHERE = "EVERYLABEL_LANGUAGE_MODEL"
TEXTS = {
    "sports": [
        "The striker scored twice before half-time.",
        "She won the marathon in a new record.",
        "The coach changed the goalkeeper after the match.",
        "Our team lost the final of the basketball cup.",
    ],
    "cooking": [
        "Fry the onions in butter until they are golden.",
        "Add two eggs and a cup of flour to the dough.",
        "Let the soup simmer for an hour and season with salt.",
        "Bake the bread at 220 degrees until the crust is brown.",
    ],
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if not os.environ.get(WHERE):
        pytest.skip(f"needs a language model: run make test-language-model (it sets {WHERE})")
    with served() as url:
        yield url


def test_a_language_model_names_classes_with_scores(endpoint: str, tmp_path: Path) -> None:
    source, out = tmp_path / "texts.csv", tmp_path / "llm.jsonl"
    rows = [(f"{name}-{i}", text, name) for name, some in TEXTS.items() for i, text in enumerate(some)]
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text", "topic"), *rows])
    arguments = ["suggest", str(source), "--text-column", "text", "--classes", ",".join(TEXTS)]
    arguments += [
        "--endpoint",
        endpoint,
        "--model",
        "gemma-3-270m",
        "-o",
        str(out),
        "--yes",
        "--parallel",
        "1",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    said = {row["id"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert said.keys() == {name for name, _, _ in rows}
    assert all(row["label"] in TEXTS and 0.5 <= row["score"] <= 1.0 for row in said.values())
    right = sum(said[name]["label"] == topic for name, _, topic in rows)
    print(f"{right} of {len(rows)} right")
    assert right > len(rows) / 2, "better than chance"
