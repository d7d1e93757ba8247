"""Removing, merging and ordering classes on a running desk changes model, exports and replays."""

from pathlib import Path

import numpy as np
import pytest

from everylabel.core import fit_map
from everylabel.labelling.model.learner import Learner
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.service import Service
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import Refused
from everylabel.models.scaling import suited_precision
from tests.labelling.desks import fingerprint, label, service, truth


def go_on(made: Service, n: int) -> None:
    """Label n items; those of a class that was removed as a 5."""
    reply = made.next("me").result()
    for _ in range(n):
        item = reply["next"]["item"]["id"]
        known = truth(item) if truth(item) in made.state.columns else 5
        reply = made.label("me", item, known).result()


def trained(made: Service) -> np.ndarray:
    """Return the weights of a model trained on the current classes only."""
    columns = list(made.state.columns)
    idx, y = zip(*sorted(made.state.labels.items()), strict=True)
    x = made.desk.features[list(idx)].astype(float)
    k = len(columns)
    return np.asarray(fit_map(x, [columns.index(c) for c in y], k, suited_precision(k)))


@pytest.mark.parametrize("into", [None, 4])
def test_after_removing_a_class_the_model_equals_training_without_it(
    tmp_path: Path, into: int | None
) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 30)
        given = dict(made.state.labels)
        made.classes.remove("me", 3, into).result()
        moved = {item: c if c != 3 else into for item, c in given.items()}
        assert made.state.labels == {item: c for item, c in moved.items() if c is not None}
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, trained(made), atol=1e-4)
        go_on(made, 5)
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, trained(made), atol=0.01)
        item = made.next("me").result()["next"]
        assert item["probabilities"][3] == 0.0
        assert sum(item["probabilities"]) == pytest.approx(1.0, abs=1e-5)
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before


def test_a_class_brought_back_leaves_all_as_it_was(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 20)
        retrain(made.desk)
        before = dict(made.state.labels), np.asarray(made.desk.learner.pool.posterior.mean)
        made.classes.remove("me", 3, 5).result()
        reply = made.classes.remove("me", 2).result()
        assert [each["into"] for each in reply["removed"]] == [5, None]
        made.classes.undo("me", reply["last"]["saved"]).result()
        made.classes.restore("anna", 3).result()
        assert made.state.labels == before[0]
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, before[1], atol=1e-4)
        retrain(made.desk)
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


def test_a_training_that_began_before_a_class_went_is_dropped(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 20)
        training = made.desk.read(made.desk.training_set).result()
        trained_before = Learner(made.desk.rows, made.desk.ids, training)
        made.classes.remove("me", 3).result()

        def replace_model() -> object:
            made.desk.replace_model(trained_before)
            return lambda: None

        made.desk.submit(replace_model, alone=True).result()  # type: ignore[arg-type]
        assert made.desk.learner.pool.n_classes == 9
        assert made.desk.learned.is_set()  # it is trained again
        go_on(made, 3)
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before


def test_the_order_is_shown_and_exported_and_the_model_does_not_move(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 20)
        made.classes.remove("me", 0).result()
        mean = np.asarray(made.desk.learner.pool.posterior.mean)
        reply = made.classes.arrange("me", [9, 8, 7, 6, 5, 4, 3, 2, 1]).result()
        assert [each["id"] for each in reply["classes"]] == [9, 8, 7, 6, 5, 4, 3, 2, 1]
        assert np.array_equal(made.desk.learner.pool.posterior.mean, mean)
        shot = LabelSet.of(made.state, {})
        assert shot.classes == ["9", "8", "7", "6", "5", "4", "3", "2", "1"]
        assert {item: shot.classes[j] for item, j in shot.labels.items()} == {
            item: str(c) for item, c in made.state.labels.items()
        }
        page = made.views.guesses.page(None, 0, 5)
        assert page["classes"] == shot.classes
        probs = made.desk.learner.pool.probs(np.array([made.state.position[name] for name in page["ids"]]))
        np.testing.assert_allclose(page["probabilities"], probs[:, ::-1], atol=1e-6)
        counts = {each["id"]: each["predicted"] for each in made.views.progress("me")["classes"]}
        guesses = made.views.guesses.all()
        assert counts == {c: int(np.sum(guesses == c)) for c in range(1, 10)}


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_class_added_while_guesses_are_counted_does_not_mix_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, multi_label: bool
) -> None:
    with service(tmp_path / "log", ["even", "odd"], multi_label=multi_label, check_every=0) as made:
        for _ in range(6):
            item = made.next("me").result()["next"]["item"]["id"]
            number = truth(item) % 2
            saved = made.label_set("me", item, [number]) if multi_label else made.label("me", item, number)
            saved.result()
        if not multi_label:  # a column after those of the classes
            made.none_of_these("me", made.next("me").result()["next"]["item"]["id"]).result()
        before = made.views.guesses.all().copy()
        made.skip("me", made.next("me").result()["next"]["item"]["id"]).result()  # another version
        combined = Learner.combined

        def add_class(learner: Learner, items: np.ndarray, logits: np.ndarray) -> np.ndarray:
            monkeypatch.setattr(Learner, "combined", combined)
            made.classes.add("ann", "neither").result()
            return combined(learner, items, logits)

        monkeypatch.setattr(Learner, "combined", add_class)
        np.testing.assert_array_equal(made.views.guesses.all(), before)


def test_a_name_that_hardly_differs_is_asked_about(tmp_path: Path) -> None:
    with service(tmp_path / "log", ["card", "cash"]) as made:
        with pytest.raises(Refused, match="class 'card' already; is 'Card' another") as caught:
            made.classes.add("me", "Card").result()
        assert caught.value.code == "class_alike"
        assert made.classes.add("me", "Card", sure=True).result()["class"] == 2
        with pytest.raises(Refused, match="class 'cash'"):
            made.classes.change("me", 0, name="Cash").result()
        made.classes.change("me", 1, name="CASH").result()  # its own name in capitals is no other


def test_keys_and_colours(tmp_path: Path) -> None:
    with service(tmp_path / "log", ["card", "cash"]) as made:
        made.classes.change("me", 0, own_key="q", colour="#aabbcc").result()
        with pytest.raises(Refused, match="key 'q' is that of 'card'"):
            made.classes.change("me", 1, own_key="q").result()
        reply = made.classes.change("me", 0, own_key="").result()
        assert [(each["key"], each["colour"]) for each in reply["classes"]] == [("", "#aabbcc"), ("", "")]
        seq = made.state.seq
        made.classes.change("me", 0, own_key="", colour="#aabbcc").result()  # nothing has changed
        assert made.state.seq == seq
    with service(tmp_path / "log") as made:
        assert made.state.book.colours == {0: "#aabbcc"}


def test_impossible_change_is_refused(tmp_path: Path) -> None:
    with service(tmp_path / "log", ["a", "b", "c"]) as made:
        made.classes.remove("me", 2).result()
        item = made.next("me").result()["next"]["item"]["id"]
        refusals = [
            (made.label("me", item, 2), "class 'c' was removed"),
            (made.label("me", item, "c"), "class is 'c'; expected one of 0, 1"),
            (made.classes.remove("me", 2), "was removed"),
            (made.classes.remove("me", 0, 0), "the class itself"),
            (made.classes.remove("me", 0, 2), "was removed"),
            (made.classes.restore("me", 1), "expected one that was removed"),
            (made.classes.arrange("me", [0, 1, 2]), "expected each of 0, 1 once"),
            (made.classes.undo("me", 1), "not the last change"),
        ]
        for refused, match in refusals:
            with pytest.raises(Refused, match=match):
                refused.result()
        made.classes.add("me", "c").result()
        with pytest.raises(Refused, match="class 'c' already"):
            made.classes.restore("me", 2).result()


def test_history_shows_the_classes_of_now(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 20)
        made.classes.remove("me", 3, 5).result()
        made.classes.remove("me", 2).result()
        made.classes.change("me", 5, name="five").result()
        told = {
            (each["class"], each["class_name"])
            for each in made.desk.read(made.views.history, "me", 50, None).result()
        }
        assert (5, "five") in told
        assert (None, "2") in told
        assert not any(number == 3 for number, _ in told)


def test_all_classes_can_go(tmp_path: Path) -> None:
    with service(tmp_path / "log", ["a", "b"]) as made:
        item = made.next("me").result()["next"]["item"]["id"]
        made.label("me", item, 0).result()
        for number in (0, 1):
            made.classes.remove("me", number).result()
        reply = made.next("me").result()
        assert (reply["next"]["probabilities"], reply["progress"]["labelled"]) == (None, 0)
        made.classes.add("me", "new").result()
        made.label("me", reply["next"]["item"]["id"], 2).result()
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before
