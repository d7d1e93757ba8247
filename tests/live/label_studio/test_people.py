"""Two people label at once: each gets the best task that the other does not have."""

import sqlite3
from pathlib import Path

from tests.live.label_studio.figures import Figures
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.studio import TOKEN, Studio
from tests.live.label_studio.team import team

TURNS = 5


def test_two_people_share_the_best_tasks(
    studio: Studio, messages: Messages, figures: Figures, tmp_path: Path
) -> None:
    other = _another_user(studio)
    with team(studio, messages, tmp_path, "two people") as people:
        right = 0
        for _ in range(TURNS):
            people.follows()
            best = people.ranking(people.opinions(), people.open_tasks())[:2]
            shown = [people.project.next_task(token) for token in (TOKEN, other)]
            right += [task["id"] for task in shown] == best
            for task, token in zip(shown, (TOKEN, other), strict=True):
                people.project.annotate(task["id"], people.truth[task["data"]["text"]], token=token)
        people.follows()
        assert len(people.labels()) == 2 * TURNS
    figures["Two people at once"] = {
        "turns in which they got the two tasks ranked first": f"{right} of {TURNS}"
    }
    assert right == TURNS


def _another_user(studio: Studio) -> str:
    """Make one and return their token, which the API tells nobody but them."""
    body = {"email": "two@example.com", "username": "two", "password": "not-a-secret-either"}
    number = studio.ask("POST", "/api/users/", {**body, "first_name": "Two", "last_name": "Example"})["id"]
    with sqlite3.connect(studio.folder / "label_studio.sqlite3") as database:
        (found,) = database.execute("SELECT key FROM authtoken_token WHERE user_id = ?", [number]).fetchone()
    database.close()
    return str(found)
