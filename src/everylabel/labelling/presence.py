"""The people who have the page open now, and in which browser; reported by the pages, kept in memory only.

A page reports regularly that it is open, and reports when it closes; a page that stops reporting is forgotten
after a while. People who use the API without a page count as present while they have an item leased since the
server started; older leases say nothing about presence.

A browser without a name is asked for one in three cases: the page is open in another browser, several people
have labelled, or a token is needed. Otherwise one person is assumed to use several browsers or ports, and the
page continues under the only name there is.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any, NamedTuple

from everylabel.labelling.desk import Desk
from everylabel.labelling.state.types import IMPORT

BELIEVED = 60.0  # seconds for which a page counts as open after its last report
MOST = 1000  # maximum number of tabs and of people that are remembered


class Tab(NamedTuple):
    """An open page: its person, and random ids of its browser and of itself."""

    person: str
    browser: str
    id: str


class Presence:
    """The open pages of a project; read and changed by the desk's thread only."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._tabs: dict[str, tuple[Tab, float]] = {}  # id -> tab and time of its last report
        self._people: dict[str, None] = {}  # everybody who ever had the page open
        self._before = dict(desk.state.leases)  # leases by an earlier process

    def here(self, tab: Tab, *, named: bool, known: bool, asks: bool) -> Future[dict[str, Any]]:
        """Note that a page is open; return whether the person has to give a name first.

        named : the person has given a name; known : this browser has labelled in the project before, unnamed
        asks : everybody has to give a name
        """

        def look() -> dict[str, Any]:
            people = {name for name in (+self._desk.state.by_person) if name != IMPORT}
            others = any(other.browser != tab.browser for other in self._open())
            ask = not named and (asks or others or (len(people) > 1 and not known))
            mine = tab
            if not named and not ask and len(people) == 1:
                mine = tab._replace(person=next(iter(people)))
            reply = {"person": mine.person, "elsewhere": self._elsewhere(mine), "guest": self._guest(people)}
            if not ask or tab.id in self._tabs:  # a page that was open alone may continue
                _put(self._tabs, tab.id, (mine, self._clock()))
                _put(self._people, mine.person, None)
            return {"ask": ask, **reply}

        return self._desk.read(look)

    def leave(self, tab: str) -> Future[dict[str, Any]]:
        """Note that a page was closed."""

        def look() -> dict[str, Any]:
            return {"known": self._tabs.pop(tab, None) is not None}

        return self._desk.read(look)

    def at_work(self, has_item: Mapping[str, bool]) -> dict[str, bool]:
        """Return which of these people are labelling now; call on the desk's thread."""
        here, leases = {tab.person for tab in self._open()}, self._desk.state.leases
        known = {*self._people}
        known |= {person for person, lease in self._before.items() if leases.get(person) == lease}
        return {person: person in here or (has and person not in known) for person, has in has_item.items()}

    def _elsewhere(self, tab: Tab) -> bool:
        """Return whether another browser uses the same name now."""
        return any(other.person == tab.person and other.browser != tab.browser for other in self._open())

    def _guest(self, people: set[str]) -> str:
        """Return an unused name, for a person who gives none."""
        taken = {*people, *self._people}
        return next(name for i in count(1) if (name := f"guest {i}") not in taken)

    def _open(self) -> list[Tab]:
        oldest = self._clock() - BELIEVED
        return [tab for tab, at in self._tabs.values() if at >= oldest]


def _put(known: dict[str, Any], name: str, value: Any) -> None:
    """Store a value as the latest, and forget the oldest one above MOST."""
    known.pop(name, None)
    known[name] = value
    if len(known) > MOST:
        del known[next(iter(known))]
