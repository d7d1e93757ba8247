"""What people have for too long, by a clock that nobody sets."""

from everylabel.labelling.leases import LeaseClock
from everylabel.labelling.records import Lease


class Clocks:
    """A clock that counts, and one that shows the time of day and may be set."""

    def __init__(self) -> None:
        self.counted, self.shown = 5.0, 1e9

    def pass_by(self, seconds: float) -> None:
        self.counted += seconds
        self.shown += seconds


def test_a_clock_that_is_set_changes_nothing() -> None:
    clocks = Clocks()
    clock = LeaseClock(lambda: clocks.counted, lambda: clocks.shown)
    leases = {"ana": Lease(1, "chosen", clocks.shown)}

    def over() -> list[str]:
        return [person for person, _ in clock.over(leases, 600)]

    assert over() == []
    clocks.shown -= 3600
    clocks.pass_by(500)
    leases["ben"] = Lease(2, "chosen", clocks.shown)
    assert over() == []
    clocks.shown += 7200
    clocks.pass_by(101)
    assert over() == ["ana"]
    leases["ana"] = Lease(1, "chosen", clocks.shown)  # handed out again
    assert over() == []
    clocks.pass_by(500)
    assert over() == ["ben"]


def test_after_a_restart_the_log_tells_within_limits() -> None:
    clocks = Clocks()
    at = {"old": -1000.0, "new": -100.0, "to come": 5000.0}  # seconds from now, by the time of day
    leases = {who: Lease(i, "chosen", clocks.shown + after) for i, (who, after) in enumerate(at.items())}
    clock = LeaseClock(lambda: clocks.counted, lambda: clocks.shown)
    assert [person for person, _ in clock.over(leases, 600)] == ["old"]
    clocks.pass_by(501)
    assert [person for person, _ in clock.over(leases, 600)] == ["old", "new"]
    clocks.pass_by(100)
    assert len(list(clock.over(leases, 600))) == 3
