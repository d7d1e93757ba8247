"""Tasks with several choices: annotations become sets of classes, and predictions name several."""

import time
from pathlib import Path

from everylabel.labelling.state.reducer import apply_all
from everylabel.labelling.state.state import new_state
from everylabel.labelling.state.types import classes_of
from tests.live.label_studio.backend import Backend
from tests.live.label_studio.messages import made_up
from tests.live.label_studio.studio import Project, Studio
from tests.live.label_studio.team import PATIENCE, labels_in
from tests.projects.postgres import free_port

ANNOTATED = 24


def test_annotations_with_several_choices_are_learned(studio: Studio, tmp_path: Path) -> None:
    single = made_up(120)
    half = len(single.texts) // 2
    pairs = zip(single.texts[:half], single.texts[half:][::-1], strict=True)
    truth = {f"{a} {b}": sorted({single.truth[a], single.truth[b]}) for a, b in pairs}
    config = single.config.replace('choice="single"', 'choice="multiple"')
    project = Project.create(studio, "several classes", config, list(truth))
    tasks = {task["id"]: task["data"]["text"] for task in project.tasks()}
    folder = tmp_path / "kept"
    backend = Backend(project, folder, free_port(), "--model", "tfidf").start()
    try:
        chosen = list(tasks)[:ANNOTATED]
        annotations = [project.annotate(task, *truth[tasks[task]]) for task in chosen]
        corrected, _, *kept = chosen
        none = next(task for task in tasks if task not in chosen)
        project.update(annotations[0], truth[tasks[corrected]][0])
        project.delete(annotations[1])
        project.annotate(none)  # none of the classes
        expected = {corrected: truth[tasks[corrected]][:1], none: []}
        expected |= {task: truth[tasks[task]] for task in kept}
        _wait_for_predictions(backend, len(expected))
        backend.kill()
        backend.start()
        _wait_for_predictions(backend, len(expected))
        assert _labels(backend, list(tasks)) == expected
        shown = studio.ask("GET", f"/api/predictions/?project={project.number}")
        predicted = [
            choices for one in shown for each in one["result"] for choices in [each["value"]["choices"]]
        ]
        assert any(len(choices) > 1 for choices in predicted)
        assert {name for choices in predicted for name in choices} <= set(single.truth.values())
    finally:
        backend.stop()


def _wait_for_predictions(backend: Backend, labels: int) -> None:
    """Wait until the backend has learned this many labels and Label Studio shows its predictions."""
    end = time.monotonic() + PATIENCE
    while True:
        version = backend.version()
        if labels_in(version) == labels and backend.project.get()["model_version"] == version:
            return
        assert time.monotonic() < end, f"{version!r} after {PATIENCE} s: {backend.printed()[-2000:]}"
        time.sleep(0.1)


def _labels(backend: Backend, tasks: list[int]) -> dict[int, list[str]]:
    """Return the classes of each labelled task, as the backend's log has them."""
    stored = backend.events()
    state = apply_all(new_state(stored, [str(task) for task in tasks]), stored, "log")
    return {
        int(state.ids[item]): sorted(state.classes[number] for number in classes_of(label))
        for item, label in state.labels.items()
    }
