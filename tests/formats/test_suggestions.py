"""Suggestions from files, tables in memory and columns are matched to items; errors are reported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Options
from everylabel.formats.suggestions import read_suggestions
from everylabel.projects.folder import Remembered
from everylabel.projects.log import Proposed
from everylabel.projects.options import LabelOptions
from tests.formats.items import TEXTS, project

ROWS: list[dict[str, Any]] = [
    {"id": "a", "label": "card", "score": 0.75, "source": "llm"},
    {"id": "b", "label": "transfer", "score": None, "source": "llm"},
    {"id": "-c", "label": "card", "score": 0.25, "source": "rules"},
]
FOUND = [
    Proposed("a", "card", "llm", 0.75),
    Proposed("b", "transfer", "llm"),
    Proposed("-c", "card", "rules", 0.25),
]


def read(given: Any = None, told: list[str] | None = None, **options: Any) -> list[Proposed]:
    notes = [] if told is None else told
    columns = options.pop("columns", {})
    options.setdefault("store", "no such folder/log.sqlite")
    own = replace(project(), columns=columns, classes=options.pop("classes", ()))
    return read_suggestions(own, LabelOptions(suggestions=given, **options), notes.append)


def test_all_table_formats_give_the_same_suggestions(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    frame.to_csv(tmp_path / "s.csv", index=False)
    frame.to_parquet(tmp_path / "s.parquet")
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "s.json").write_text(json.dumps(ROWS))
    files = [tmp_path / f"s.{ending}" for ending in ("csv", "parquet", "jsonl", "json")]
    for given in [*files, str(files[0]), frame, ROWS]:
        assert read(given) == FOUND, given


def test_suggestions_are_matched_by_text_and_named_after_the_file(tmp_path: Path) -> None:
    path = tmp_path / "gpt.jsonl"
    path.write_text("\n".join(json.dumps({"text": text, "class": "card"}) for text in TEXTS[:2]))
    assert read(path) == [Proposed("a", "card", "gpt"), Proposed("b", "card", "gpt")]
    assert read([{"text": TEXTS[0], "label": "card"}]) == [Proposed("a", "card", "suggestions")]


def test_predictions_of_label_studio(tmp_path: Path) -> None:
    def task(text: str, *predictions: dict[str, Any]) -> dict[str, Any]:
        return {"id": 9, "data": {"text": text}, "predictions": list(predictions)}

    def prediction(label: str, **more: Any) -> dict[str, Any]:
        value = {"choices": [label]}
        return {"result": [{"from_name": "k", "type": "choices", "value": value}], **more}

    tasks = [
        task(TEXTS[0], prediction("card", score=0.5, model_version="bert"), prediction("transfer")),
        task("unknown words", prediction("card")),
        task(TEXTS[1], {"result": []}),
    ]
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(tasks))
    told: list[str] = []
    assert read(path, told) == [Proposed("a", "card", "bert", 0.5), Proposed("a", "transfer", "tasks")]
    assert "1 matches no item: task 9 (items are named as 'a'); 1 skipped (no class)" in told[0]


def test_records_of_argilla() -> None:
    record = {"text": TEXTS[0], "label.suggestion": "card", "label.suggestion.score": 0.5}
    assert read([record | {"label.suggestion.agent": "gpt"}]) == [Proposed("a", "card", "gpt", 0.5)]
    with pytest.raises(EverylabelError, match=r"several questions: label.sugg.*, tone.sugg.*; expected one"):
        read([record | {"tone.suggestion": "angry"}])


def test_nested_records_of_argilla(tmp_path: Path) -> None:
    said = {"label": {"value": "card", "score": 0.5, "agent": "gpt"}}
    records = [
        {"id": "1", "fields": {"text": TEXTS[0]}, "responses": {}, "suggestions": said, "metadata": {}},
        {"id": "2", "fields": {"text": TEXTS[1]}, "responses": {}, "suggestions": {}},
    ]
    path = tmp_path / "records.json"
    path.write_text(json.dumps(records))
    told: list[str] = []
    assert read(path, told) == [Proposed("a", "card", "gpt", 0.5)]
    assert "1 skipped (no class)" in told[0]


def test_columns_of_the_source() -> None:
    columns = {"guess": ["card", "", "transfer", "card"], "sure": [0.5, 0.1, None, 1.0]}
    found = read(columns=columns, suggestion_column="guess", suggestion_score_column="sure")
    assert [(one.id, one.label, one.score) for one in found] == [
        ("a", "card", 0.5),
        ("-c", "transfer", None),
        ("d", "card", 1.0),
    ]
    assert {one.source for one in found} == {"guess"}
    named = read(
        columns=columns | {"by": ["x"] * 4}, suggestion_column="guess", suggestion_source_column="by"
    )
    assert {one.source for one in named} == {"x"}


def test_unmatched_and_repeated_suggestions_are_reported() -> None:
    told: list[str] = []
    read([*ROWS, {"id": "nobody", "label": "card"}, {**ROWS[0], "label": "transfer"}], told)
    assert (
        "4 suggestions of 3 items by llm, rules; 1 matches no item: nobody (items are named as 'a')"
        in told[0]
    )
    assert "1 item has several suggestions of one source, the later counts: a" in told[0]


def test_unknown_classes_are_refused_with_an_offer_and_added_where_there_are_none() -> None:
    told: list[str] = []
    read(ROWS, told)
    assert told[1] == "suggestions adds 2 classes: card, transfer"
    with pytest.raises(EverylabelError, match=r"suggests 1 class .*: transfer.* --classes"):
        read(ROWS, classes=("card", "loan"))
    assert read(ROWS, classes=("card", "transfer")) == FOUND


def test_a_probability_for_each_class_becomes_a_class_and_a_score() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "probabilities": {"card": 0.7, "transfer": 0.1}},
        {"id": "-c", "probabilities": '{"card": 0.2, "transfer": 0.8}'},
        {"id": "d", "probabilities": None},
    ]
    found = read(rows)
    assert [(one.id, one.label) for one in found] == [("a", "card"), ("-c", "transfer")]
    assert [one.score for one in found] == pytest.approx([0.875, 0.8])
    for odd in ({"card": 1.5}, {}, "no", 3):
        with pytest.raises(
            EverylabelError, match=r"^probabilities is .* \(suggestions, row 1\); expected classes"
        ):
            read([{"id": "a", "probabilities": odd}])


def test_lines_may_have_different_columns_and_nested_objects(tmp_path: Path) -> None:
    path = tmp_path / "bert.jsonl"
    rows: list[dict[str, Any]] = [
        {"id": "a", "probabilities": {"card": 0.7}},
        {"id": "-c", "probabilities": {"card": 0.2, "transfer": 0.8}, "source": "gpt"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = [(one.id, one.label, one.source, one.probabilities) for one in read(path)]
    assert found == [
        ("a", "card", "bert", {"card": 0.7}),
        ("-c", "transfer", "gpt", {"card": 0.2, "transfer": 0.8}),
    ]
    record = {"fields": {"text": TEXTS[1]}, "suggestions": {"label": {"value": "card", "score": 0.5}}}
    path.write_text(json.dumps(record) + "\n")
    assert read(path) == [Proposed("b", "card", "bert", 0.5)]
    own = replace(project(), about=Remembered("p", "p", Options(text_column="message.body")))
    path.write_text(json.dumps({"message": {"body": TEXTS[1]}, "label": "card"}) + "\n")
    options = LabelOptions(suggestions=path, store="no such folder/log.sqlite")
    assert read_suggestions(own, options, lambda _: None) == [Proposed("b", "card", "bert")]


def test_a_hugging_face_dataset_is_read_with_the_names_of_its_classes() -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["card", "transfer"])
    features = datasets.Features(
        {"id": datasets.Value("string"), "label": names, "source": datasets.Value("string")}
    )
    rows = {"id": ["a", "-c"], "label": [1, 0], "source": ["llm", "llm"]}
    found = read(datasets.Dataset.from_dict(rows, features=features))
    assert [(one.id, one.label, one.source) for one in found] == [
        ("a", "transfer", "llm"),
        ("-c", "card", "llm"),
    ]


@pytest.mark.parametrize("score", [1.5, -0.1, "high", float("inf")])
def test_scores_outside_0_to_1_are_refused(score: Any) -> None:
    with pytest.raises(EverylabelError, match=r"^score is .* \(suggestions, row 1\); expected a number"):
        read([{"id": "a", "label": "card", "score": score}])


def test_an_empty_list_is_reported(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("[]")
    with pytest.raises(EverylabelError, match=r"s\.json.*is empty; expected objects"):
        read(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": "missing.csv"}, r"^--suggestions 'missing.csv' does not exist; expected"),
        ({"given": 7}, r"^--suggestions is a int; expected"),
        ({"given": [{"id": "a", "score": 1}]}, r"has columns id, score; expected one of classes"),
        ({"given": [{"label": "card"}]}, r"columns label; expected one of ids .*; rename .* --id-column"),
        ({"given": "."}, r"^--suggestions '.' is a folder; expected .* el.label"),
        ({"suggestion_column": "guess"}, r"^--suggestion-column is 'guess'; expected one of the columns"),
        ({"suggestion_score_column": "sure"}, r"go with --suggestion-column"),
    ],
)
def test_unreadable_suggestions_are_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EverylabelError, match=message):
        read(**options)
