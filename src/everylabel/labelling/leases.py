"""How long people have had what they have, by a clock that nobody sets.

The log notes the time of day, which may be put back an hour: nothing would be taken back for that long. So
the age of what was handed out is counted by the process from then on; after a restart it begins with what the
times in the log say, at least nothing and at most as long as people may keep things.
"""

import time
from collections.abc import Callable, Iterator, Mapping

from everylabel.labelling.records import Lease


class LeaseClock:
    """Since when each person has what they have."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, day: Callable[[], float] = time.time
    ) -> None:
        self._clock, self._day = clock, day
        self._since: dict[str, tuple[Lease, float]] = {}

    def over(self, leases: Mapping[str, Lease], seconds: float) -> Iterator[tuple[str, Lease]]:
        """Yield who has had something for longer than that, and what."""
        now = self._clock()
        self._since = {person: self._known(person, lease, now, seconds) for person, lease in leases.items()}
        for person, (lease, since) in self._since.items():
            if now - since > seconds:
                yield person, lease

    def _known(self, person: str, lease: Lease, now: float, seconds: float) -> tuple[Lease, float]:
        before = self._since.get(person)
        if before is not None and before[0] == lease:
            return before
        return lease, now - min(max(self._day() - lease.at, 0.0), max(seconds, 0.0) + 1.0)
