"""Answers as Label Studio's JSON: tasks with annotations of Choices, one for each person's answer."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from everylabel.formats.records import Given, Show


def label_studio_tasks(
    ids: Sequence[str],
    answers: Iterable[Given],
    classes: Sequence[str],
    show: Show,
    *,
    kind: str = "text",
    control: str = "label",
) -> list[dict[str, Any]]:
    """Return a task for each answered item; its id is in data.id, 'cannot tell' is a cancelled annotation.

    Label Studio imports them into a project whose configuration has <Choices name="label"
    toName="text"> (or toName="image") on $text (or $image).
    """
    name = "image" if kind == "image" else "text"
    tasks: dict[int, dict[str, Any]] = {}
    for answer in answers:
        i = answer.item
        task = tasks.setdefault(i, {"data": {"id": ids[i], name: show(i)}, "annotations": []})
        at = datetime.fromtimestamp(answer.at, UTC).isoformat().replace("+00:00", "Z")
        result = []
        if answer.label is not None:
            value = {"choices": [classes[answer.label]]}
            result = [{"from_name": control, "to_name": name, "type": "choices", "value": value}]
        annotation = {
            "completed_by": {"email": answer.person},
            "result": result,
            "was_cancelled": answer.label is None,
            "created_at": at,
        }
        task["annotations"].append(annotation)
    return [{"id": number, **task} for number, task in enumerate(tasks.values(), 1)]
