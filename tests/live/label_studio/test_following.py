"""Sixty annotations, changes, deletions and skips: predictions and order follow each of them."""

from pathlib import Path

from tests.live.label_studio.figures import Figures, milliseconds
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.studio import Studio
from tests.live.label_studio.team import Team, labels_in, team

ANNOTATED = 60
TRAINED = 1e-5  # of a probability, reported to six digits


def test_predictions_and_order_follow_every_annotation(
    studio: Studio, messages: Messages, figures: Figures, tmp_path: Path
) -> None:
    token = studio.ask("POST", "/api/token/")["token"]  # a personal access token, as an account has it
    with team(studio, messages, tmp_path, "everything follows", token) as people:
        people.follows()
        times, right = [], 0
        for step in range(1, ANNOTATED + 1):
            people.annotate()
            times.append(people.follows())
            if step % 6 == 0:
                (people.change, people.delete, people.skip)[step // 6 % 3]()
                times.append(people.follows())
            right += _order_follows(people)
        _predictions_follow(people)
        figures["Following 60 annotations of 500 tasks"] = {
            "messages": messages.source,
            **milliseconds(people.proxy.webhooks(), "webhook answered"),
            **milliseconds(times, "label to its predictions shown"),
            "next task ranked first now": f"{right} of {ANNOTATED}",
            "predictions in Label Studio at the end": sum(
                task["total_predictions"] for task in people.project.tasks()
            ),
            "Label Studio's complaints of a locked database": sum(
                "locked" in line for line in studio.complaints()
            ),
        }
        _restarts(people)
    assert right == ANNOTATED


def _order_follows(people: Team) -> bool:
    """Return whether the stream would show the task that the backend ranks first."""
    best = people.ranking(people.opinions(), people.open_tasks())[0]
    return bool(people.project.next_task()["id"] == best)


def _predictions_follow(people: Team) -> None:
    """Predictions in Label Studio equal those of the backend."""
    version, opinions = people.backend.version(), people.opinions()
    shown = {
        one["task"]: one
        for one in people.studio.ask("GET", f"/api/predictions/?project={people.project.number}")
        if one["model_version"] == version
    }
    assert len(shown) >= 20
    for task, one in shown.items():
        assert one["score"] == opinions[task].score
        assert one["result"][0]["value"]["choices"] == [opinions[task].choice]


def _restarts(people: Team) -> None:
    """Both stop and start again, one after the other: everything continues."""
    people.backend.train()  # else that may come between the two looks
    before = people.opinions()
    people.studio.stop()
    people.studio.start()
    people.follows()
    people.backend.stop()
    people.backend.start()
    people.follows()
    after = people.opinions()
    assert {task: one.choice for task, one in after.items()} == {t: one.choice for t, one in before.items()}
    assert max(abs(after[task].probability - before[task].probability) for task in after) <= TRAINED
    people.annotate()
    people.follows()
    assert labels_in(people.backend.version()) == len(people.labels())
