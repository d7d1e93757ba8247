"""Argilla's records as JSON, both directions: a response for each person's answer to a question.

`Dataset.records.from_json` reads them once `user_id` holds ids of Argilla's users. Argilla has no response
without a label: "none of these" and "cannot tell" are records without one. An answer about some of the
classes is a draft.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.items import Items
from everylabel.formats.label_tables import NamedColumns
from everylabel.formats.records import Given
from everylabel.labelling.state.types import ClassSet, classes_of

QUESTION = "label"


def argilla_records(
    items: Items, answers: Iterable[Given], classes: Sequence[str], show: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return a record for each answered item, with its text or image as field and the person as user."""
    field = "image" if items.kind == "image" else "text"
    records: dict[int, dict[str, Any]] = {}
    for answer in answers:
        i = answer.item
        record = {"id": str(items.known_as(i)), "fields": {field: show(i)}, "responses": {QUESTION: []}}
        said = records.setdefault(i, record)["responses"][QUESTION]
        names = [] if answer.label is None else [classes[number] for number in classes_of(answer.label)]
        if not names:
            continue
        value: str | list[str] = names[0]
        status = "submitted"
        if isinstance(answer.label, ClassSet):
            value = names
            status = "submitted" if answer.label.answers_all(len(classes)) else "draft"
        said.append({"value": value, "user_id": answer.person, "status": status})
    return list(records.values())


def argilla_rows(
    records: list[dict[str, Any]], given: NamedColumns
) -> tuple[list[dict[str, Any]], NamedColumns]:
    """Return a row for each submitted response of Argilla's records, and its columns; others as they are.

    Records are nested (`responses: {question: [{value, user_id}]}`) or flat (`question.responses`). A value
    of a label question is a text, of a multi-label question a list. given.label : the question
    """
    said = [_responses(record) for record in records]
    questions = list(dict.fromkeys(name for each in said for name in each))
    if not questions:
        return records, given
    if given.label not in questions and (given.label is not None or len(questions) > 1):
        raise EverylabelError(
            f"the records have responses to {listed(questions)}; expected one of these questions "
            "(label_column, --import-label-column)"
        )
    question = given.label or questions[0]
    rows = [
        {**_fields(record), "label": value, "person": user}
        for record, each in zip(records, said, strict=True)
        for value, user in each.get(question, ())
    ]
    return rows, given._replace(label="label", person="person")


def flat_suggestions(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its nested suggestions as columns `question.suggestion`, `.score` and `.agent`."""
    nested = record.get("suggestions")
    if not isinstance(nested, dict):
        return record
    flat = _fields(record)
    for question, said in nested.items():
        if isinstance(said, dict):
            name = f"{question}.suggestion"
            flat |= {name: said.get("value")}
            flat |= {f"{name}.{part}": said.get(part) for part in ("score", "agent")}
    return flat


def _responses(record: Mapping[str, Any]) -> dict[str, list[tuple[Any, str]]]:
    """Return values and users of a record's submitted responses, by question."""
    nested = record.get("responses")
    found: dict[str, list[tuple[Any, str]]] = {}
    if isinstance(nested, dict):
        for name, each in nested.items():
            sent = [one for one in each or () if one.get("status", "submitted") in ("submitted", None)]
            found[name] = [(one.get("value"), str(one.get("user_id") or "")) for one in sent]
    for name in record:
        if name.endswith(".responses"):
            values = record[name] or []
            users = record.get(f"{name}.users") or [""] * len(values)
            states = record.get(f"{name}.status") or [None] * len(values)
            all_sent = zip(values, map(str, users), states, strict=True)
            question = name.removesuffix(".responses")
            found[question] = [(v, user) for v, user, state in all_sent if state in ("submitted", None)]
    return found


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's id and fields, without responses and suggestions."""
    fields = record.get("fields")
    inner = fields if isinstance(fields, dict) else {}
    flat = {name: value for name, value in record.items() if not isinstance(value, dict | list)}
    return {**flat, **inner}
