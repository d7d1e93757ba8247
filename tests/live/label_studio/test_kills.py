"""Fifty times kill -9 while a person annotates: nothing is lost, nothing is learned twice."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.live.label_studio.backend import Opinion
from tests.live.label_studio.figures import Figures, milliseconds
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.studio import Studio
from tests.live.label_studio.team import Team, labels_in, team

KILLS, STUDIO_RESTARTS_EVERY = 50, 20
TRAINED = 1e-5  # of a probability, reported to six digits
LEARNED = 0.02  # of one, where a label's exact update ends its search


def test_nothing_is_lost_or_learned_twice(
    studio: Studio, messages: Messages, figures: Figures, tmp_path: Path
) -> None:
    with team(studio, messages, tmp_path, "fifty kills") as people:
        people.follows()
        missed = 0
        for number in range(1, KILLS + 1):
            before = len(people.proxy.seen)
            (_before, _during, _after)[number % 3](people)
            if number % STUDIO_RESTARTS_EVERY == 0:
                studio.stop()
                studio.start()
            people.backend.start()
            people.follows()
            missed += sum(one.status == 0 for one in people.proxy.seen[before:] if one.action)
        labels, version, twice = people.labels(), people.backend.version(), _learned_twice(people)
        fresh = people.retrained()
        fresh_version = fresh.version()
        as_learned = _difference(people.opinions(), people.opinions(fresh))
        people.backend.train()
        fresh.train()
        trained = _difference(people.opinions(), people.opinions(fresh))
        fresh.stop()
        figures["Fifty times kill -9"] = {
            "kills": KILLS,
            "webhooks sent while the backend was down": missed,
            "annotations at the end": len(labels),
            "labels in the model at the end": labels_in(version),
            "annotations learned twice": twice,
            "version of a model trained from scratch on all annotations": fresh_version,
            "version": version,
            "tasks that the two models predict differently": as_learned.others,
            "largest difference of a probability, as learned": as_learned.largest,
            "largest difference after the training button": trained.largest,
            **milliseconds(people.proxy.webhooks(), "webhook answered"),
            **milliseconds(people.backend.starts, "restart until the first reply"),
        }
    assert labels_in(version) == len(labels)
    assert twice == 0
    assert fresh_version == version
    assert trained.others == 0
    assert trained.largest <= TRAINED
    assert as_learned.largest < LEARNED


class Difference(NamedTuple):
    """How far two models are apart: tasks with another class, and the largest difference of a probability."""

    others: int
    largest: float


def _difference(these: dict[int, Opinion], those: dict[int, Opinion]) -> Difference:
    others = sum(these[task].choice != those[task].choice for task in these)
    return Difference(others, max(abs(these[task].probability - those[task].probability) for task in these))


def _before(people: Team) -> None:
    """Nobody is there when the webhook comes."""
    people.backend.kill()
    people.do_something()


def _during(people: Team) -> None:
    """The backend is killed with the webhook in its hands."""
    moment = people.random.uniform(0.0, 0.03)
    killers: list[threading.Thread] = []

    def kill() -> None:
        time.sleep(moment)
        people.backend.kill()

    def first(action: str) -> None:
        if action.startswith("ANNOTATION") and not killers:
            killers.append(threading.Thread(target=kill))
            killers[0].start()

    people.proxy.first = first
    people.do_something()
    people.proxy.first = lambda action: None
    killers[0].join()


def _after(people: Team) -> None:
    """The backend is killed while it renews predictions, or some time later."""
    people.do_something()
    time.sleep(people.random.uniform(0.0, 1.0))
    people.backend.kill()


def _learned_twice(people: Team) -> int:
    """Return how many states of annotations the log has more than once."""
    keys = [event.key for event in people.backend.events() if (event.key or "").startswith("annotation ")]
    return sum(times > 1 for times in Counter(str(key).rsplit(" ", 1)[0] for key in keys).values())
