"""Who has the page open now, and in which browser: as the pages say, in memory only.

A page says every so often that it is open, and when it closes; one that has gone without a word is
forgotten after a while. Who uses the API without a page is at work as long as they have an item that was
handed out since the server started: of those from before nobody knows.

A browser without a name is asked for one while the page is open in another browser, where several people
have labelled, and wherever a token is needed. Otherwise one person uses several browsers or ports: the page
goes on under the only name there is.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any, NamedTuple

from everylabel.labelling.desk import Desk
from everylabel.labelling.state.types import IMPORT

BELIEVED = 60.0  # seconds for which a page is open after it last said so
MOST = 1000  # tabs and people that are remembered


class Tab(NamedTuple):
    """An open page: random ids of its browser and of itself."""

    person: str
    browser: str
    id: str


class Presence:
    """The open pages of a project; looked at and changed by the desk's thread."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._tabs: dict[str, tuple[Tab, float]] = {}  # and when they last said so
        self._people: dict[str, None] = {}  # who ever had the page open
        self._before = dict(desk.state.leases)  # handed out by an earlier process

    def here(self, tab: Tab, *, named: bool, known: bool, asks: bool) -> Future[dict[str, Any]]:
        """Note that a page is open; return whether the person has to tell a name first.

        named : they have told one; known : this browser has labelled in the project before, without one
        asks : everybody has to tell one
        """

        def look() -> dict[str, Any]:
            people = {name for name in (+self._desk.state.by_person) if name != IMPORT}
            others = any(other.browser != tab.browser for other in self._open())
            ask = not named and (asks or others or (len(people) > 1 and not known))
            mine = tab
            if not named and not ask and len(people) == 1:
                mine = tab._replace(person=next(iter(people)))
            told = {"person": mine.person, "elsewhere": self._elsewhere(mine), "guest": self._guest(people)}
            if not ask or tab.id in self._tabs:  # one that was alone goes on meanwhile
                _put(self._tabs, tab.id, (mine, self._clock()))
                _put(self._people, mine.person, None)
            return {"ask": ask, **told}

        return self._desk.read(look)

    def leave(self, tab: str) -> Future[dict[str, Any]]:
        """Note that a page was closed."""

        def look() -> dict[str, Any]:
            return {"known": self._tabs.pop(tab, None) is not None}

        return self._desk.read(look)

    def at_work(self, has_item: Mapping[str, bool]) -> dict[str, bool]:
        """Return who of some people is labelling now; for the desk's thread."""
        here, leases = {tab.person for tab in self._open()}, self._desk.state.leases
        known = {*self._people}
        known |= {person for person, lease in self._before.items() if leases.get(person) == lease}
        return {person: person in here or (has and person not in known) for person, has in has_item.items()}

    def _elsewhere(self, tab: Tab) -> bool:
        """Return whether the name is used in another browser now."""
        return any(other.person == tab.person and other.browser != tab.browser for other in self._open())

    def _guest(self, people: set[str]) -> str:
        """Return a name that nobody has, for one who tells none."""
        taken = {*people, *self._people}
        return next(name for i in count(1) if (name := f"guest {i}") not in taken)

    def _open(self) -> list[Tab]:
        oldest = self._clock() - BELIEVED
        return [tab for tab, at in self._tabs.values() if at >= oldest]


def _put(known: dict[str, Any], name: str, value: Any) -> None:
    """Remember something as the latest, and forget the oldest of too many."""
    known.pop(name, None)
    known[name] = value
    if len(known) > MOST:
        del known[next(iter(known))]
