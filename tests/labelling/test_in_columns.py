"""What lies in columns, beside its slow twin, a dictionary."""

import numpy as np
import pytest

from everylabel.labelling import columns, events
from everylabel.labelling.answers import Answers
from everylabel.labelling.columns import Numbers
from everylabel.labelling.events import Event
from everylabel.labelling.left_out import LeftOut, LeftOuts
from everylabel.labelling.record import Record
from everylabel.labelling.records import Answer


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_a_dictionary_of_lists(seed: int) -> None:
    rng, record = np.random.default_rng(seed), Record([str(i) for i in range(9)])
    made, twin, said = Answers(record), dict[int, list[Answer]](), dict[int, list[Answer]]()
    for seq in range(1, 300):
        item, person, value = (int(n) for n in rng.integers([9, 4, 5]))
        record.add(
            Event(seq, seq, 0.0, f"person {person}", events.Label(str(item), 0)), item, events.Label("", 0)
        )
        said.setdefault(item, []).append(Answer(seq, f"person {person}", value))
        some = [one._replace(value=int(rng.integers(5))) for one in said[item] if rng.random() < 0.4]
        if rng.random() < 0.2 and item in twin:
            del made[item], twin[item]
        else:
            made[item], twin[item] = some, some
        assert made == twin
        assert (list(made), len(made)) == (sorted(twin), len(twin))
        assert [i in made for i in range(9)] == [i in twin for i in range(9)]
    assert max(map(len, twin.values())) > 3
    assert Answers.unpacked(record, made.packed()) == twin


@pytest.mark.parametrize("last", [50, 10**9])
def test_numbers_are_a_dictionary_in_order(last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ALWAYS", 10)
    rng, made, twin, kinds = np.random.default_rng(0), Numbers(), dict[int, int](), set()
    for n in range(2000):
        far = rng.random() < 0.2 and n < 500  # most are near from then on: they become a column again
        item, value = int(rng.integers(last if far else 300)), int(rng.integers(9))
        if rng.random() < 0.3:
            assert made.pop(item, None) == twin.pop(item, None)
        else:
            made[item], twin[item] = value, value
        if n == 1000:
            for each in [i for i in twin if i >= 300]:
                del made[each], twin[each]
            made = Numbers.unpacked(made.packed())
        if n % 50 == 0:
            assert list(made.items()) == sorted(twin.items())
            assert made.as_dict() == Numbers.unpacked(made.packed()).as_dict() == twin
        assert (len(made), made.get(item), item in made) == (len(twin), twin.get(item), item in twin)
        kinds.add(made.packed().ndim)
    assert kinds == ({1} if last == 50 else {1, 2})
    assert made.packed().ndim == 1


def test_few_numbers_among_very_many_take_little() -> None:
    made = Numbers()
    for item in range(0, 10**9, 10**6):
        made[item] = item % 7
    assert made.packed().nbytes == 16 * 1000
    assert Numbers.unpacked(made.packed()) == made


def test_verdicts_are_a_dictionary() -> None:
    rng = np.random.default_rng(0)
    items = np.sort(rng.choice(50, 20, replace=False))
    given = rng.integers(-2, 5, 20), rng.random(20), rng.integers(-2, 5, 20), rng.random(20)
    rows = zip(*(column.tolist() for column in given), strict=True)
    made, twin = (
        LeftOuts(items, *given),
        dict(zip(items.tolist(), (LeftOut(*row) for row in rows), strict=True)),
    )
    assert made == twin
    assert list(made.items()) == list(twin.items())
    assert [made.get(i) for i in range(-1, 51)] == [twin.get(i) for i in range(-1, 51)]
    assert len(LeftOuts(items[:0], *(column[:0] for column in given))) == 0
