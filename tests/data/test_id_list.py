"""Ids in little memory: the same as a list and a dictionary, whatever they are."""

import numpy as np
import pytest

from everylabel.data import id_list as module
from everylabel.data.digests import Digests
from everylabel.data.id_list import IdList

MANY = {
    "numbers": [str(i) for i in range(300)],
    "words": [f"image {i % 7}/{i}.png" for i in range(300)],
    "odd": ["", "0", "00", "-1", "١", "1e3", " 2", "\udc80", "\n", "ä" * 50, *map(str, range(1, 200))],
    "few": ["b", "a"],
    "none": [],
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKED_FROM", 20)


@pytest.mark.parametrize("kind", MANY)
def test_names_are_a_list_that_knows_its_places(kind: str) -> None:
    plain = MANY[kind]
    names = IdList(plain)
    assert list(names) == plain
    assert len(names) == len(plain)
    assert names == plain
    assert plain == names
    assert names == IdList(plain)
    assert names[3:50] == plain[3:50]
    assert names[:] == plain
    assert [names[i] for i in range(-len(plain), len(plain))] == 2 * plain
    position = {name: i for i, name in enumerate(plain)}
    assert dict(names.position) == position
    for other in ("nobody", "301", "007", "٣", "9" * 30):
        assert (other in names) == (other in position)
        assert names.position.get(other) == position.get(other)
    with pytest.raises(KeyError):
        names.position["nobody"]
    with pytest.raises(IndexError):
        names[len(plain)]
    assert names.find(3) is None


@pytest.mark.parametrize("kind", MANY)
def test_what_is_appended_is_found_and_packed_in_time(kind: str) -> None:
    plain = MANY[kind]
    names, position = IdList(plain), IdList(plain).position
    copy = IdList(names)
    position = names.position
    more = [f"later {i}" for i in range(200)]
    for name in more[:150]:
        names.append(name)
    names.extend(more[150:])
    assert list(names) == plain + more
    assert all(position[name] == i for i, name in enumerate(plain + more))
    assert copy == plain
    assert names != copy


@pytest.mark.parametrize("kind", MANY)
def test_what_is_noted_gives_the_same_names(kind: str) -> None:
    names = IdList(MANY[kind])
    assert IdList.of_noted(names.noted()) == names
    names.append("one more")
    assert IdList.of_noted(names.noted()) == [*MANY[kind], "one more"]


def test_names_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash", lambda name: len(name), raising=False)
    plain = MANY["words"]
    names = IdList(plain)
    assert all(names.position[name] == i for i, name in enumerate(plain))
    assert "image 9/9.png" not in names


def test_numbers_take_no_room() -> None:
    names = IdList.numbered(10**12)
    assert names[123_456_789_012] == "123456789012"
    assert names.position["999999999999"] == 10**12 - 1
    assert str(10**12) not in names
    assert names == IdList.numbered(10**12)


@pytest.mark.parametrize("texts", [["00ff00ff00ff00ff", "f" * 16], ["?", "z" * 16], ["00FF00FF00FF00FF"], []])
def test_digests_are_the_texts_they_were(texts: list[str]) -> None:
    digests = Digests(texts)
    assert list(digests) == texts
    assert digests == texts
    assert digests == Digests(iter(texts))
    assert Digests.of_noted(digests.noted()) == digests
    assert digests != Digests([*texts, "0" * 16])
    assert list(digests[:1]) == texts[:1]
    assert Digests(np.array([255], np.uint64))[0] == "00000000000000ff"
