"""People who have the page open, and people who are asked for a name."""

from pathlib import Path
from typing import Any

from everylabel.labelling import views as module
from everylabel.labelling.service import Service
from everylabel.labelling.views import Presence, Tab
from tests.labelling.desks import label, service


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def come(
    made: Presence, person: str, browser: str, *, named: bool = True, known: bool = False, asks: bool = False
) -> dict[str, Any]:
    reply: dict[str, Any] = made.here(
        Tab(person, browser, f"tab of {browser}"), named=named, known=known, asks=asks
    )
    return reply


def here(made: Service) -> dict[str, bool]:
    people = made.next("watching").result()["progress"]["people"]
    return {each["name"]: each["here"] for each in people if each["name"] != "watching"}


def test_the_first_browser_is_not_asked_and_every_other_is(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        presence = made.views.presence
        assert not come(presence, "me", "a", named=False)["ask"]
        asked = come(presence, "me", "b", named=False)
        assert asked["ask"]
        assert asked["guest"] == "guest 1"
        assert not come(presence, "ben", "b")["ask"]
        assert come(presence, "me", "a", named=False, known=True)["ask"]  # no longer alone
        assert not come(presence, "me", "a")["ask"]
        come(presence, "guest 1", "c")
        assert come(presence, "me", "d", named=False)["guest"] == "guest 2"


def test_one_person_continues_in_another_browser_under_the_same_name(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        label(made, 1, "ana")
    with service(tmp_path / "log") as made:
        presence = made.views.presence
        reply = come(presence, "me", "new", named=False)
        assert (reply["ask"], reply["person"]) == (False, "ana")
        made.next("ana").result()
        assert here(made) == {"ana": True}
        assert come(presence, "me", "another", named=False)["ask"]  # while the page is open elsewhere
        presence.leave("tab of new")
        assert not come(presence, "me", "another", named=False)["ask"]
        presence.leave("tab of another")
        label(made, 1, "ben")
        assert come(presence, "me", "third", named=False)["ask"]  # several people label here
        assert not come(presence, "me", "third", named=False, known=True)["ask"]


def test_a_guest_who_gives_a_name_does_not_continue_as_guest(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        come(made.views.presence, "guest 1", "a")
        made.next("guest 1").result()
        assert here(made) == {"guest 1": True}
        come(made.views.presence, "ana", "a")
        made.next("ana").result()
        assert here(made) == {"guest 1": False, "ana": True}


def test_labels_that_came_with_the_source_are_nobody(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        made.label("import", "digit 1", 1).result()
        assert not come(made.views.presence, "me", "a", named=False)["ask"]


def test_a_token_asks_everybody(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        assert come(made.views.presence, "me", "a", named=False, known=True, asks=True)["ask"]
        assert not come(made.views.presence, "ana", "a", asks=True)["ask"]


def test_a_name_that_is_used_in_another_browser_is_reported(tmp_path: Path) -> None:
    clock = Clock()
    with service(tmp_path / "log") as made:
        presence = Presence(made.desk, clock)
        assert not come(presence, "ana", "a")["elsewhere"]
        assert not come(presence, "ana", "a")["elsewhere"]
        assert come(presence, "ana", "b")["elsewhere"]
        clock.now = 2 * module.OPEN_AFTER_REPORT
        assert not come(presence, "ana", "c")["elsewhere"]


def test_labelling_ends_when_the_page_closes(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        presence = made.views.presence
        for person in ("ana", "ben", "script"):
            made.next(person).result()
        come(presence, "ana", "a")
        presence.here(Tab("ana", "a", "second tab"), named=True, known=False, asks=False)
        come(presence, "ben", "b")
        assert here(made) == {"ana": True, "ben": True, "script": False}
        presence.leave("tab of a")
        presence.leave("tab of b")
        assert here(made) == {"ana": True, "ben": False, "script": False}
        presence.leave("second tab")
        assert here(made) == {"ana": False, "ben": False, "script": False}


def test_nobody_is_labelling_after_a_restart_before_they_say_so(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        made.next("ana").result()
        come(made.views.presence, "ana", "a")
        assert here(made) == {"ana": True}
    with service(tmp_path / "log") as made:
        assert here(made) == {"ana": False}  # whose item she still has
        come(made.views.presence, "ana", "a")
        assert here(made) == {"ana": True}


def test_page_that_stops_reporting_is_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    with service(tmp_path / "log") as made:
        made.next("ana").result()
        presence = made.views.presence = Presence(made.desk, clock)
        come(presence, "ana", "a")
        clock.now = module.OPEN_AFTER_REPORT
        assert here(made) == {"ana": True}
        clock.now += 1
        assert here(made) == {"ana": False}
        come(presence, "ana", "a")
        assert here(made) == {"ana": True}


def test_only_person_continues_while_asked_for_a_name(tmp_path: Path) -> None:
    clock = Clock()
    with service(tmp_path / "log") as made:
        made.next("me").result()
        presence = made.views.presence = Presence(made.desk, clock)
        come(presence, "me", "a", named=False)
        come(presence, "ben", "b")
        clock.now = module.OPEN_AFTER_REPORT + 1
        come(presence, "ben", "b")
        assert come(presence, "me", "a", named=False, known=True)["ask"]
        assert here(made)["me"]
