"""Items are held out as a test set, by a number or by a column."""

from contextlib import closing
from pathlib import Path

import pytest

import everylabel as el
from everylabel.data.items import Items, Options
from everylabel.data.readers.table import read_table
from everylabel.labelling.state.reducer import apply
from everylabel.labelling.state.state import State
from everylabel.log.store import Store
from everylabel.projects.log import Label, held_out_items, items_to_hold_out
from tests.projects.starts import start


@pytest.fixture
def items(tmp_path: Path) -> Items:
    rows = [f"k{i},a text of number {i},{['train', 'Test', ''][i % 3]}" for i in range(9)]
    path = tmp_path / "some.csv"
    path.write_text("\n".join(["key,body,split", *rows]) + "\n")
    return read_table(path, Options(text_column="body", id_column="key"))


def test_held_out_items_are_given_by_number_or_column(items: Items) -> None:
    assert held_out_items(items, None) == 0
    assert held_out_items(items, "40") == 40
    assert held_out_items(items, "split") == ["k1", "k4", "k7"]
    with pytest.raises(el.EverylabelError, match=r"--test is 'spilt'; expected a number .* 'split'"):
        held_out_items(items, "spilt")


def test_held_out_items_are_drawn_from_unanswered_items() -> None:
    state = State([str(i) for i in range(50)])
    found = items_to_hold_out(state, 20)
    assert len(set(found)) == 20
    assert found == items_to_hold_out(state, 20)  # by the log alone
    assert found != sorted(found, key=int)
    with pytest.raises(el.EverylabelError, match="--test is 50, and 50 items have no answer; expected fewer"):
        items_to_hold_out(state, 50)


def test_labels_of_test_items_that_come_with_the_source_are_not_learned(tmp_path: Path) -> None:
    ids = [str(i) for i in range(10)]
    labels = [Label(name, "a" if int(name) % 2 else "b") for name in ids]
    split, told = {"split": ["test" if name in ("3", "4") else "" for name in ids]}, list[str]()
    with closing(Store(tmp_path / "log", "test")) as store:
        for _ in range(2):
            start(store, ids, source=labels, columns=split, test="split", note=told.append)
        state = State(ids)
        for event in store.read():
            apply(state, event)
        kinds = [event.body.kind for event in store.read()]
    assert state.test_labels == {3: state.names["a"], 4: state.names["b"]}
    assert set(state.labels) == set(range(10)) - {3, 4}
    assert kinds.count("held_out") == 2
    assert told == [
        "2 items are held out as a test set: the model never learns from them",
        "10 labels imported",
    ]
