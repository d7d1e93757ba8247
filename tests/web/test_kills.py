"""kill -9 under load on a real server process; `make bench NAME=serving` does it 200 times."""

from pathlib import Path

import pytest

from benchmarks.kills import Growing, Killed, Learning, Outcome


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


def test_servers_killed_while_the_network_learns_lose_nothing(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    killed = Learning(tmp_path / "texts.csv.everylabel", None)
    found = killed.run(kills=1, seed=1, least=11)
    assert found.fine, found
    assert killed.during == 1


def test_runs_in_pieces_add_up() -> None:
    one, other = Outcome(1, 10, 0, 0, 5, 0, 2.0), Outcome(3, 20, 1, 0, 5, 0, 6.0)
    assert one.plus(other) == Outcome(4, 30, 1, 0, 10, 0, 5.0)
