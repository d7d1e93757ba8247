"""kill -9 under load on a real server process; `make bench NAME=serving` does it 200 times."""

from pathlib import Path

from benchmarks.kills import Growing, Killed


def test_killed_servers_lose_nothing(where: str, tmp_path: Path) -> None:
    killed = Killed(tmp_path / "digits.everylabel", where)
    found = killed.run(kills=1, seed=1, least=11)
    assert found.fine, found
    assert found.acknowledged > 10
    assert found.states > 3


def test_killed_servers_lose_nothing_that_joins(tmp_path: Path) -> None:
    killed = Growing(tmp_path / "inbox.csv.everylabel", None)
    found = killed.run(kills=1, seed=1, least=4)
    assert found.fine, found
    assert len(killed.sent) > 3
