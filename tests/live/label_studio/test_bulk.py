"""Predictions in Label Studio: written in bulk, made the project's, and removed."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.live.label_studio.figures import Figures
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.studio import Project, Studio

SIZES, REPEATED = (50, 100, 200, 500), 3


def test_label_studio_format(studio: Studio, messages: Messages, figures: Figures) -> None:
    project = Project.create(studio, "bulk", messages.config, messages.texts)
    tasks = [task["id"] for task in project.tasks()]
    path, found = f"/api/projects/{project.number}", {}
    for size in SIZES:
        wrote, switched, removed, waited = [], [], [], []
        for turn in range(REPEATED):
            version = f"{size} for the {turn}. time"
            rows = [_prediction(task, rank, version, messages) for rank, task in enumerate(tasks[:size])]
            wrote.append(_timed(partial(studio.ask, "POST", f"{path}/import/predictions", rows)))
            body = {"model_version": version}
            switched.append(_timed(partial(studio.ask, "PATCH", f"{path}/", body)))
            assert project.next_task()["id"] == tasks[0]
            remove = partial(studio.ask, "DELETE", f"{path}/model-versions/", body)
            seconds, longest = _meanwhile(remove, project.next_task)
            removed.append(seconds)
            waited.append(longest)
        found[f"{size} predictions written, ms"] = _middle(wrote)
        found[f"{size} made the project's version, ms"] = _middle(switched)
        found[f"{size} removed at once, ms"] = _middle(removed)
        found[f"longest wait for the next task meanwhile ({size}), ms"] = _middle(waited)
    figures["How long Label Studio takes for many predictions"] = found


def _prediction(task: int, rank: int, version: str, messages: Messages) -> dict[str, Any]:
    value = {"choices": [next(iter(messages.truth.values()))]}
    result = [{"from_name": "label", "to_name": "text", "type": "choices", "value": value, "score": 0.5}]
    return {"task": task, "result": result, "score": rank / 500, "model_version": version}


def _timed(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def _meanwhile(job: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of a job, and the longest of another one that is done again and again beside it."""
    times: list[float] = []
    thread = threading.Thread(target=lambda: times.append(_timed(job)))
    thread.start()
    others = []
    while thread.is_alive():
        others.append(_timed(other))
    thread.join()
    return times[0], max(others)


def _middle(seconds: list[float]) -> int:
    return round(sorted(seconds)[len(seconds) // 2] * 1000)
