"""A person labels on Label Studio's real page: what comes next is what our backend ranks first."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.live.label_studio.backend import Opinion
from tests.live.label_studio.figures import Figures
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.stream import Stream, open_browser
from tests.live.label_studio.studio import Studio
from tests.live.label_studio.team import team
from tests.web.browser import pages

LABELS = 40
PACE = 2.0  # seconds that a person takes to read a message and choose
BAR = 0.95


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    if pages.CHROMIUM is None or pages.CHROMEDRIVER is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium chromium-driver)")
    driver = open_browser()
    yield driver
    driver.quit()


def test_the_next_task_is_the_one_ranked_first(
    studio: Studio, messages: Messages, figures: Figures, tmp_path: Path, driver: webdriver.Chrome
) -> None:
    with team(studio, messages, tmp_path, "the real page") as people:
        people.follows()
        stream = Stream(driver, studio)
        stream.size(1280, 820)
        stream.sign_in()
        stream.begin(people.project.number)
        texts = {task["data"]["text"]: number for number, task in people.tasks.items()}
        of_now = of_before = filled_in = 0
        left = set(people.tasks)
        for _ in range(LABELS):
            task = texts[stream.shown]
            filled_in += stream.filled_in is not None
            stream.choose(people.truth[stream.shown])
            time.sleep(PACE)
            best_before = _best(people.opinions(), left - {task})
            stream.submit()
            left.remove(task)
            shown = texts[stream.shown]
            now = _best(people.opinions(), left)
            of_now += shown == now
            of_before += shown in (best_before, now)
        people.follows()
        learned = len(people.labels())
        figures["Label Studio's own page"] = {
            "labels given on the page": LABELS,
            "next task ranked first, now or one label ago": f"{of_before} of {LABELS}",
            "next task ranked first now": f"{of_now} of {LABELS}",
            "tasks that came with a prediction filled in": f"{filled_in} of {LABELS}",
            "seconds a label": PACE,
        }
    assert learned == LABELS
    assert of_before >= BAR * LABELS


def _best(opinions: dict[int, Opinion], left: set[int]) -> int:
    """Return the task that the backend wants most among those that are left."""
    return min(left, key=lambda task: opinions[task].score)
