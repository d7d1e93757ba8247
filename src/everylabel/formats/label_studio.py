"""Label Studio's JSON: tasks with annotations of Choices, one for each person's answer.

Label Studio imports what is written here. Reading its exports skips cancelled annotations.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, listed
from everylabel.data.classes import list_text
from everylabel.data.items import Items
from everylabel.formats.label_tables import Imported, Matcher
from everylabel.formats.records import Given
from everylabel.formats.tables import OWN_ID, ROW
from everylabel.labelling.state.types import classes_of
from everylabel.projects.log import Label

Entry = dict[str, Any]


def label_studio_tasks(
    items: Items, answers: Iterable[Given], classes: Sequence[str], show: Callable[[int], str]
) -> list[Entry]:
    """Return a task for each answered item; 'cannot tell' is a cancelled annotation.

    Its own id is in data.id; its place in the source, if that has no ids, in data.row.

    Label Studio imports them into a project whose configuration has <Choices name="label"
    toName="text"> (or toName="image") on $text (or $image), with choice="multiple" if items have several
    classes.
    """
    name = "image" if items.kind == "image" else "text"
    known = ROW if items.own_ids is None else OWN_ID
    tasks: dict[int, dict[str, Any]] = {}
    for answer in answers:
        i = answer.item
        task = tasks.setdefault(i, {"data": {known: items.known_as(i), name: show(i)}, "annotations": []})
        at = datetime.fromtimestamp(answer.at, UTC).isoformat().replace("+00:00", "Z")
        result = []
        if answer.label is not None:
            value = {"choices": [classes[number] for number in classes_of(answer.label)]}
            result = [{"from_name": "label", "to_name": name, "type": "choices", "value": value}]
        annotation = {
            "completed_by": {"email": answer.person},
            "result": result,
            "was_cancelled": answer.label is None,
            "created_at": at,
        }
        task["annotations"].append(annotation)
    return [{"id": number, **task} for number, task in enumerate(tasks.values(), 1)]


def read_tasks(
    path: Path, tasks: list[Entry], matcher: Matcher, control: str | None, several: bool = False
) -> Imported:
    """Return the labels of tasks; by their own ids only if neither data.id nor a text matches any item.

    several : an annotation may have several choices, or none
    """
    _check_control(path, tasks, "annotations", control)
    by_data = _collect(tasks, matcher, control, several, by_task=False)
    return by_data if by_data.labels else _collect(tasks, matcher, control, several, by_task=True)


def _collect(
    tasks: list[Entry], matcher: Matcher, control: str | None, several: bool, by_task: bool
) -> Imported:
    imported = Imported()
    for number, task in enumerate(tasks, 1):
        items = _items(task, matcher, by_task)
        if not items:
            imported.unmatched.append(f"task {task.get('id', number)}")
            continue
        for annotation in _entries(task, "annotations"):
            label = _choice(annotation, control, imported, several)
            if label is not None:
                person = _person(annotation.get("completed_by"))
                imported.labels += [Label(item, label, person) for item in items]
    return imported


def _items(task: Entry, matcher: Matcher, by_task: bool) -> list[str]:
    """Return the items of a task."""
    data = task.get("data")
    values = data if isinstance(data, dict) else {}
    ids = [str(values["id"])] if "id" in values else []
    if by_task and "id" in task:
        ids.append(str(task["id"]))
    texts = (value for value in values.values() if isinstance(value, str))
    return matcher.find(ids, texts, str(values.get(ROW, "")))


def predictions_of(
    path: Path, tasks: list[Entry], matcher: Matcher
) -> Iterator[tuple[list[str], str, str | None, Any, Any]]:
    """Yield the predictions of tasks: items, the task's name, single choice if any, score, model version."""
    _check_control(path, tasks, "predictions")
    by_task = not any(_items(task, matcher, False) for task in tasks)
    for number, task in enumerate(tasks, 1):
        items, name = _items(task, matcher, by_task), f"task {task.get('id', number)}"
        for one in _entries(task, "predictions"):
            choice = _choice(one, None, Imported())
            yield items, name, choice, one.get("score"), one.get("model_version")


def _entries(task: Entry, name: str) -> list[Entry]:
    """Return the "annotations" or "predictions" of a task."""
    stored = task.get(name)
    return [entry for entry in stored if isinstance(entry, dict)] if isinstance(stored, list) else []


def _choice(annotation: Entry, control: str | None, imported: Imported, several: bool = False) -> str | None:
    """Return the one choice of an annotation (all of them as a list), or count why there is none."""
    if annotation.get("was_cancelled"):
        imported.skipped["cancelled"] += 1
        return None
    chosen = [
        choice for name, values in choices_in(annotation) if control in (None, name) for choice in values
    ]
    if several:
        return list_text([str(choice).strip() for choice in chosen])
    if len(chosen) == 1 and str(chosen[0]).strip():
        return str(chosen[0]).strip()
    imported.skipped["no choice" if not chosen else "several choices"] += 1
    return None


def choices_in(annotation: Entry) -> Iterator[tuple[str, list[Any]]]:
    """Yield the choices in an annotation's or prediction's results, each with the name of its Choices."""
    results = annotation.get("result")
    for result in results if isinstance(results, list) else ():
        value = result.get("value") if isinstance(result, dict) else None
        choices = value.get("choices") if isinstance(value, dict) else None
        if isinstance(choices, list):
            yield str(result.get("from_name")), choices


def _person(completed_by: Any) -> str | None:
    """Return a name for a user: an address, or a number."""
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("username") or completed_by.get("id")
    if completed_by is None or completed_by == "":
        return None
    return f"annotator {completed_by}" if isinstance(completed_by, int) else str(completed_by)


def _check_control(path: Path, tasks: Iterable[Entry], kind: str, control: str | None = None) -> None:
    """Raise if there are several Choices and none is named, or the named one is missing."""
    entries = (entry for task in tasks for entry in _entries(task, kind))
    names = list(dict.fromkeys(name for entry in entries for name, _ in choices_in(entry)))
    if control is not None and names and control not in names:
        raise EverylabelError(
            f"{str(path)!r} has no Choices named {control!r}; expected one of {listed(names)}"
        )
    if control is None and len(names) > 1:
        raise EverylabelError(
            f"{str(path)!r} holds several Choices, {listed(names)}; pass which one (label_column, "
            "--import-label-column)"
        )
