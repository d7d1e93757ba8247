"""Presence, kept in memory only: who has the page open now, and in which browser.

A page reports regularly that it is open, and reports when it closes; a page that stops reporting counts as
closed after a while.

A browser without a name is asked for one in three cases: the page is open in another browser, several people
have labelled, or a token is needed. Otherwise one person is assumed to use several browsers or ports, and the
page continues under the only name there is.
"""

import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from everylabel.labelling.desk import Desk
from everylabel.labelling.state.types import IMPORT

OPEN_AFTER_REPORT = 60.0  # seconds for which a page counts as open after its last report


class Tab(NamedTuple):
    """An open page: its person, and random ids of its browser and of itself."""

    person: str
    browser: str
    id: str


class Presence:
    """The open pages of a project; call all methods on the desk's thread."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._tabs: dict[str, tuple[Tab, float]] = {}  # id -> tab and time of its last report

    def here(self, tab: Tab, *, named: bool, known: bool, asks: bool) -> dict[str, Any]:
        """Note that a page is open; return whether the person has to give a name first.

        named : the person has given a name; known : this browser has labelled in the project before, unnamed
        asks : everybody has to give a name
        """
        people = {name for name in (+self._desk.state.tally.by_person) if name != IMPORT}
        others = any(other.browser != tab.browser for other in self._open())
        ask = not named and (asks or others or (len(people) > 1 and not known))
        if not named and not ask and len(people) == 1:
            tab = tab._replace(person=next(iter(people)))
        reply = {"ask": ask, "person": tab.person, "elsewhere": self._elsewhere(tab)}
        reply["guest"] = self._guest(people)
        if not ask or tab.id in self._tabs:  # a page that was open alone may continue
            self._tabs[tab.id] = tab, self._clock()
        return reply

    def leave(self, tab: str) -> dict[str, Any]:
        """Note that a page was closed."""
        return {"known": self._tabs.pop(tab, None) is not None}

    def at_work(self) -> set[str]:
        """Return the people who have the page open."""
        return {tab.person for tab in self._open()}

    def _elsewhere(self, tab: Tab) -> bool:
        """Return whether another browser uses the same name now."""
        return any(other.person == tab.person and other.browser != tab.browser for other in self._open())

    def _guest(self, people: set[str]) -> str:
        """Return an unused name, for a person who gives none."""
        taken = {*people, *(tab.person for tab, _ in self._tabs.values())}
        return next(name for i in count(1) if (name := f"guest {i}") not in taken)

    def _open(self) -> list[Tab]:
        oldest = self._clock() - OPEN_AFTER_REPORT
        return [tab for tab, at in self._tabs.values() if at >= oldest]
