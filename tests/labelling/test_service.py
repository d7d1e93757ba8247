"""Requests of people (label, skip, undo, jump, several at once), and their errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.labelling.model.retrainer import Retrainer, retrain
from everylabel.labelling.model.training import prepare
from everylabel.labelling.service import Service
from everylabel.labelling.state.types import Refused
from everylabel.log.store import StoreError
from tests.labelling.desks import CLASSES, FEATURES, IDS, N, Y, fingerprint, label, service, truth, until


def first(made: Service, person: str = "me") -> str:
    item: str = made.next(person).result()["next"]["item"]["id"]
    return item


def test_labels_are_learned_and_the_next_is_there(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        items = label(made, 40)
        assert len(set(items)) == 40
        reply = made.next("me").result()
        assert reply["progress"]["labelled"] == 40
        assert reply["progress"]["left"] == N - 40
        assert sum(reply["next"]["probabilities"]) == pytest.approx(1.0, abs=1e-4)
        left = np.setdiff1d(np.arange(N), list(made.desk.read(made.desk.label_set).result().labels))
        assert np.mean(made.views.guesses.all()[left] == Y[left]) > 0.75


def test_the_same_item_is_shown_until_it_is_answered(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        assert first(made) == first(made)
    with service(tmp_path / "log") as made:
        item = first(made)
        assert made.skip("me", item).result()["next"]["item"]["id"] != item


def test_undo_takes_back_any_number_of_steps(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        label(made, 5)
        mean = np.array(made.desk.learner.pool.posterior.mean)
        items = label(made, 3)
        for item in reversed(items):
            reply = made.undo("me").result()
            assert reply["next"]["item"]["id"] == item
        assert reply["progress"]["labelled"] == 5
        np.testing.assert_allclose(made.desk.learner.pool.posterior.mean, mean, atol=1e-3)
        for _ in range(5):
            made.undo("me").result()
        with pytest.raises(Refused, match="me has given no answer"):
            made.undo("me").result()


def test_undo_of_a_second_label_restores_the_first(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        (item,) = label(made, 1)
        made.jump("me", item).result()
        assert made.next("me").result()["next"]["answer"] == truth(item)
        made.label("me", item, (truth(item) + 1) % 10).result()
        assert made.desk.read(made.views.item, item).result()["label"] == (truth(item) + 1) % 10
        made.undo("me").result()
        assert made.desk.read(made.views.item, item).result()["label"] == truth(item)


def test_a_stale_undo_is_refused(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made)
        saved = made.label("me", item, 1).result()["saved"]
        label(made, 1)
        with pytest.raises(Refused, match=f"saved is {saved}, but the last answer of me is"):
            made.undo("me", saved).result()


def test_skipped_items_come_back_at_the_end(tmp_path: Path) -> None:
    with service(tmp_path / "log", ids=IDS[:4], features=FEATURES[:4]) as made:
        item = first(made)
        made.skip("me", item).result()
        others = label(made, 3)
        assert item not in others
        reply = made.next("me").result()
        assert reply["next"]["item"]["id"] == item
        assert made.label("me", item, 0).result()["next"] is None


def test_cannot_tell_is_an_answer_that_is_not_learned(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made)
        reply = made.cannot_tell("me", item).result()
        assert reply["progress"]["cannot_tell"] == 1
        assert reply["progress"]["labelled"] == 0
        assert made.desk.read(made.views.item, item).result()["state"] == "cannot_tell"
        assert not np.any(made.desk.learner.pool.posterior.mean)


def test_a_request_sent_twice_counts_once(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made)
        one = made.label("me", item, 3, key="a").result()
        two = made.label("me", item, 3, key="a").result()
        assert one["saved"] == two["saved"]
        assert one["next"] == two["next"]
        made.undo("me", key="b").result()
        made.undo("me", key="b").result()
        assert made.next("me").result()["progress"]["answers"] == 0
    with service(tmp_path / "log") as made:
        assert made.label("me", item, 3, key="a").result()["saved"] == one["saved"]


def test_two_people_get_different_items_that_are_no_copies(tmp_path: Path) -> None:
    twice = np.concatenate([FEATURES[:100], FEATURES[:100]])
    ids = [f"{half}{i}" for half in "ab" for i in range(100)]
    with service(tmp_path / "log", ids=ids, features=twice, check_every=0, strategy="margin") as made:
        for i in range(20):
            made.label("me", f"a{i}", int(Y[i])).result()
        futures = [made.next(person) for person in ("anna", "ben", "carl", "dora")]
        items = [future.result()["next"]["item"]["id"][1:] for future in futures]
        items.append(first(made, "eve")[1:])
        assert len(set(items)) == 5


def test_an_item_of_another_person_cannot_be_answered(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made, "anna")
        for request in (made.label("ben", item, 1), made.jump("ben", item), made.skip("ben", item)):
            with pytest.raises(Refused, match="is leased to anna; nothing was saved"):
                request.result()
        assert made.next("ben").result()["progress"]["answers"] == 0


def test_answer_given_meanwhile_is_reported_and_kept(tmp_path: Path) -> None:
    with service(tmp_path / "log", lease_seconds=-1) as made:
        item = first(made, "anna")
        assert first(made, "ben")  # anna's time is over
        assert made.label("ben", item, 1).result()["meanwhile"] == []
        reply = made.label("anna", item, 2, key="a").result()
        assert reply["meanwhile"] == [{"person": "ben", "class": 1}]
        assert made.label("anna", item, 2, key="a").result()["meanwhile"] == reply["meanwhile"]
        assert made.desk.read(made.views.item, item).result()["answers"] == [
            {"person": "ben", "class": 1},
            {"person": "anna", "class": 2},
        ]
        assert [found["item"] for found in made.desk.read(made.views.disputed, 5).result()] == [item]
        made.jump("ben", item).result()  # shown as it is now
        assert made.cannot_tell("ben", item).result()["meanwhile"] == []
        made.undo("ben").result()
        assert made.label("ben", item, 2).result()["meanwhile"] == []


def test_an_own_answer_of_another_window_is_reported(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made)
        made.label("me", item, 1).result()
        assert made.label("me", item, 2).result()["meanwhile"] == [{"person": "me", "class": 1}]
        made.undo("me").result()
        assert made.desk.read(made.views.item, item).result()["label"] == 1
        assert made.skip("me", item).result()["meanwhile"] == []


def test_a_lease_ends(tmp_path: Path) -> None:
    with service(tmp_path / "log", lease_seconds=-1) as made:
        item = first(made, "anna")
        assert made.label("ben", item, 1).result()["progress"]["answers"] == 1
        assert made.label("anna", item, 2).result()["progress"]["answers"] == 2  # both are kept


def test_two_answers_an_item_are_asked_for_and_compared(tmp_path: Path) -> None:
    with service(tmp_path / "log", annotators_per_item=2, check_every=0) as made:
        item = first(made, "anna")
        made.label("anna", item, 1).result()
        reply = made.next("ben").result()
        assert (reply["next"]["item"]["id"], reply["next"]["reason"]) == (item, "second")
        reply = made.label("ben", item, 2).result()
        assert reply["progress"]["agreement"] == {"items": 1, "share": 0.0, "alpha": 0.0}
        assert made.desk.read(made.views.item, item).result()["label"] == 2  # of a tie, the last
        assert len(made.desk.read(made.views.item, item).result()["answers"]) == 2


def test_disputed_items_are_listed_until_they_are_settled(tmp_path: Path) -> None:
    with service(tmp_path / "log", lease_seconds=-1) as made:
        one, other = IDS[3], IDS[4]
        for person, item, value in (("anna", one, 1), ("ben", one, 2), ("anna", other, 1), ("ben", other, 1)):
            made.label(person, item, value).result()
        said = [{"person": "anna", "class": 1}, {"person": "ben", "class": 2}]
        assert made.desk.read(made.views.disputed, 10).result() == [
            {"item": one, "label": 2, "answers": said}
        ]
        assert made.label("anna", other, 0).result()["progress"]["disputed"] == 2
        assert [found["item"] for found in made.desk.read(made.views.disputed, 1).result()] == [
            other
        ]  # the latest first
        assert made.undo("anna").result()["progress"]["disputed"] == 1
        made.label("clara", one, 1).result()  # two against one
        assert made.desk.read(made.views.disputed, 10).result() == []
        made.cannot_tell("clara", one).result()
        assert [found["item"] for found in made.desk.read(made.views.disputed, 10).result()] == [one]
        made.cannot_tell("ben", one).result()
        assert made.desk.read(made.views.disputed, 10).result() == []


def test_classes_are_added_and_renamed(tmp_path: Path) -> None:
    with service(tmp_path / "log", classes=[]) as made:
        item = first(made)
        with pytest.raises(Refused, match="class is 0; expected a class: add one first"):
            made.label("me", item, 0).result()
        assert made.classes.add("me", "  even ").result()["class"] == 0
        assert made.classes.add("me", "odd", key="k").result()["class"] == 1
        assert made.classes.add("me", "odd", key="k").result()["class"] == 1
        with pytest.raises(Refused, match="there is a class 'odd' already"):
            made.classes.add("me", "odd").result()
        with pytest.raises(Refused, match="expected 1 to 200 printable characters"):
            made.classes.add("me", " \n").result()
        for _ in range(10):
            item = first(made)
            reply = made.label("me", item, ["even", "odd"][truth(item) % 2]).result()
        made.classes.change("me", 1, name="uneven").result()
        assert [c["name"] for c in made.desk.read(made.views.classes).result()["classes"]] == [
            "even",
            "uneven",
        ]
        with pytest.raises(Refused, match="class is 7; expected 0 to 1"):
            made.classes.change("me", 7, name="x").result()
        assert len(reply["next"]["probabilities"]) == 2
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before


def test_unknown_things_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made)
        before = fingerprint(made)
        bad: list[tuple[Any, str]] = [
            (made.label("me", "nothing", 1), "item is 'nothing'; expected an id"),
            (made.label("me", item, 10), "class is 10; expected 0 to 9"),
            (made.label("me", item, "ten"), "class is 'ten'; expected 0 to 9"),
            (made.jump("me", "nothing"), "item is 'nothing'"),
            (
                made.change_settings("me", {"strategy": "best"}),
                "strategy is 'best'; expected one of herding",
            ),
        ]
        for request, message in bad:
            with pytest.raises(Refused, match=message):
                request.result()
        assert fingerprint(made) == before


@pytest.mark.parametrize("seed", range(2))
def test_random_checks_are_an_unbiased_estimate(tmp_path: Path, seed: int) -> None:
    surplus, variance, n = 0.0, 0.0, 0
    for part in range(3):
        with service(tmp_path / f"log{part}", check_every=2, strategy="margin") as made:
            made.desk.state.seed = 10 * seed + part
            label(made, 8)
            for _ in range(50):
                task = made.next("me").result()["next"]
                pool = made.desk.learner.pool
                asked = np.append(pool.free_idx, made.desk.state.leases["me"].item)
                accuracy = np.mean(pool.logits(asked).argmax(axis=1) == Y[asked])
                made.label("me", task["item"]["id"], truth(task["item"]["id"])).result()
                if task["reason"] == "check":
                    check = made.desk.state.standing_checks()[-1]
                    surplus += (check.guess == Y[check.item]) - accuracy
                    variance, n = variance + accuracy * (1 - accuracy), n + 1
    assert n == 75
    assert abs(surplus) < 3 * np.sqrt(variance)


def test_the_background_training_takes_over_and_nothing_goes_backwards(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        retrainer, first_model = Retrainer(made.desk), made.desk.learner
        versions, counts = [], []
        reply = made.next("me").result()
        for _ in range(80):
            item = reply["next"]["item"]["id"]
            reply = made.label("me", item, truth(item)).result()
            versions.append(reply["progress"]["version"])
            counts.append(reply["progress"]["labelled"])
        until(lambda: made.desk.assessment is not None)
        retrainer.close()
        assert made.desk.learner is not first_model
        assert counts == list(range(1, 81))
        assert versions == sorted(versions)
        assert made.desk.state.assessed[-1].gain is not None
        before = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == before


def test_a_failure_in_the_model_is_reported_and_the_state_is_that_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path / "log") as made:
        label(made, 4)
        item = first(made)
        before = fingerprint(made)
        with monkeypatch.context() as broken:
            broken.setattr(made.desk.learner.pool, "put", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                made.label("me", item, 1).result()
        assert fingerprint(made) == before
        made.label("me", item, 1).result()
        assert made.next("me").result()["progress"]["labelled"] == 5


def test_every_strategy_of_the_page_picks(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        strategies = [s["name"] for s in made.desk.read(made.views.session, "me").result()["strategies"]]
        for strategy in strategies:
            made.change_settings("me", {"strategy": strategy}).result()
            label(made, 4)
        assert made.next("me").result()["progress"]["labelled"] == 4 * len(strategies)
        assert made.desk.read(made.views.session, "me").result()["classes"][3]["name"] == CLASSES[3]


def test_features_are_brought_to_the_scale_of_the_prior() -> None:
    raw = 3.0 + 50.0 * np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float16)
    prepared = prepare(raw)
    scaled = prepared.features
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, prepared.scaling(raw.astype(float)), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(np.mean(np.sum(scaled.astype(float) ** 2, axis=1))), 5.0, rtol=0.02)


def test_the_guess_of_a_check_is_hidden_from_everybody(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2) as made:
        label(made, 9)
        task = made.next("me").result()["next"]
        assert task["reason"] == "check"
        assert task["probabilities"] is None
        item = task["item"]["id"]
        assert made.desk.read(made.views.item, item).result()["probabilities"] is None
        assert made.desk.read(made.views.states, [made.views.position(item)]).result()[0]["guess"] is None
        reply = made.label("me", item, truth(item)).result()
        assert made.undo("me").result()["next"]["probabilities"] is None  # a check stays a check
        assert reply["next"]["probabilities"] is not None


def test_the_accuracy_shown_is_that_of_the_model_now(tmp_path: Path) -> None:
    covered, estimates, truths = [], [], []
    for run in range(8):
        with service(tmp_path / f"log{run}", check_every=3, strategy="margin") as made:
            made.desk.state.seed = run
            label(made, 90)
            retrain(made.desk)
            shown = made.next("me").result()["progress"]["accuracy"]
            left = np.flatnonzero(made.desk.learner.pool.labels < 0)
            truth = np.mean(made.desk.learner.pool.logits(left).argmax(axis=1) == Y[left])
            covered.append(shown["low"] <= truth <= shown["high"])
            estimates.append(shown["estimate"])
            truths.append(truth)
    assert sum(covered) >= 7  # a model that is right on all that is left is above every interval
    assert abs(np.mean(estimates) - np.mean(truths)) < 0.03
    assert max(estimates) < 1.0


def test_a_key_belongs_to_one_request(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item, other = first(made, "anna"), first(made, "ben")
        made.label("anna", item, 1, key="1").result()
        for request in (made.label("ben", other, 2, key="1"), made.undo("anna", key="1")):
            with pytest.raises(Refused, match="key is '1', which another request has used"):
                request.result()
        assert made.label("ben", other, 2, key="2").result()["progress"]["answers"] == 2


def test_a_key_sent_again_with_something_else_is_refused(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        items = label(made, 3)
        last = made.state.last("me")
        assert last is not None
        saved = last.seq
        made.label("me", items[0], 1, key="label").result()
        made.skip("me", IDS[-1], key="skip").result()
        made.cannot_tell("me", IDS[-2], key="tell").result()
        made.undo("me", key="undo").result()
        made.jump("me", IDS[-3], key="jump").result()
        made.classes.add("me", "ten", key="class").result()
        before = fingerprint(made)
        others = [
            made.label("me", items[0], 2, key="label"),
            made.label("me", items[0], "2", key="label"),
            made.label("me", items[0], "no such class", key="label"),
            made.label("me", items[1], 1, key="label"),
            made.skip("me", IDS[-2], key="skip"),
            made.cannot_tell("me", IDS[-1], key="skip"),
            made.cannot_tell("me", IDS[-1], key="tell"),
            made.undo("me", saved, key="undo"),
            made.jump("me", IDS[-1], key="jump"),
            made.classes.add("me", "eleven", key="class"),
        ]
        for request in others:
            with pytest.raises(Refused, match="which another request has used") as told:
                request.result()
            assert told.value.status == 409
        assert fingerprint(made) == before


def test_a_request_sent_again_is_answered_as_the_first_time(tmp_path: Path) -> None:
    with service(tmp_path / "log", classes=["a", "b"]) as made:
        item = first(made)
        assert made.jump("me", item, key="jump").result() == made.jump("me", item, key="jump").result()
        saved = made.label("me", item, "a", key="label").result()["saved"]
        number = made.classes.add("me", "c", key="class").result()["class"]
        made.classes.change("me", 0, name="alpha").result()
        made.classes.change(
            "me", number, name="gamma"
        ).result()  # meanwhile: they are known by their old names, too
        assert made.label("me", item, "a", key="label").result()["saved"] == saved
        assert made.classes.add("me", "c", key="class").result()["class"] == number


def test_a_skipped_second_opinion_does_not_come_straight_back(tmp_path: Path) -> None:
    with service(tmp_path / "log", annotators_per_item=2, check_every=0) as made:
        item = first(made, "anna")
        made.label("anna", item, 1).result()
        assert first(made, "ben") == item
        assert made.skip("ben", item).result()["next"]["item"]["id"] != item


def test_skipped_items_come_back_in_turn(tmp_path: Path) -> None:
    with service(tmp_path / "log", ids=IDS[:3], features=FEATURES[:3]) as made:
        shown = []
        for _ in range(7):
            shown.append(first(made))
            made.skip("me", shown[-1]).result()
        assert shown[:3] == shown[3:6]
        assert len(set(shown[:3])) == 3


def test_more_answers_can_be_wanted_later(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        (item,) = label(made, 1, "anna")
        made.change_settings("anna", {"annotators_per_item": 2}).result()
        assert made.next("ben").result()["next"]["reason"] == "second"
        made.change_settings("anna", {"annotators_per_item": 1}).result()
        assert not made.desk.state.tally.wanting
        assert first(made, "ben") == item  # it was handed out before


def test_cannot_tell_is_no_answer_to_agree_on(tmp_path: Path) -> None:
    with service(tmp_path / "log", annotators_per_item=2, check_every=0) as made:
        item = first(made, "anna")
        made.cannot_tell("anna", item).result()
        reply = made.cannot_tell("ben", item).result()
        assert reply["progress"]["agreement"] is None


def test_a_skipped_check_stays_a_check(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2) as made:
        label(made, 9)
        item = first(made)
        reply = made.skip("me", item).result()
        assert reply["progress"]["accuracy"]["unanswered"] == 1
        task = made.undo("me").result()["next"]
        assert (task["item"]["id"], task["reason"], task["probabilities"]) == (item, "check", None)


def test_undo_before_a_row_was_removed_replays(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        items = label(made, 4)
        made.undo("me").result()
    gone = [i for i, name in enumerate(IDS) if name != items[3]]
    with service(tmp_path / "log", ids=[IDS[i] for i in gone], features=FEATURES[gone]) as made:
        assert made.next("me").result()["progress"]["labelled"] == 3


def test_keyed_label_is_repeated_after_its_row_was_removed(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        item = first(made)
        saved = made.label("me", item, 3, "key").result()["saved"]
    there = [i for i, name in enumerate(IDS) if name != item]
    with service(tmp_path / "log", ids=[IDS[i] for i in there], features=FEATURES[there]) as made:
        again = made.label("me", item, 3, "key").result()
        assert (again["saved"], again["meanwhile"]) == (saved, [])


def test_a_log_that_cannot_be_read_either_is_read_before_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path / "log") as made:
        items = label(made, 3)
        item, before = first(made), fingerprint(made)

        def gone(*_: Any) -> None:
            raise StoreError("gone")

        with monkeypatch.context() as broken:
            broken.setattr(made.desk.log, "append", gone)
            broken.setattr(made.desk.log, "read", gone)
            for request in (made.label("me", item, 1), made.undo("me"), made.next("anna")):
                with pytest.raises(StoreError, match="gone"):
                    request.result()
        assert fingerprint(made) == before
        assert made.undo("me").result()["next"]["item"]["id"] == items[2]


def test_reading_continues_while_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path / "log", lease_seconds=-1) as made:
        first(made)
        with monkeypatch.context() as broken:
            broken.setattr(made.desk.log, "append", lambda *_: 1 / 0)
            assert made.desk.read(made.views.session, "me").result()["items"] == N
            assert made.views.progress("me")["items"] == N


def test_desk_survives_cancelled_requests_and_refuses_after_close(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        future = made.next("me")
        future.cancel()
        cancelled = [made.next("me") for _ in range(20)]
        for request in cancelled:
            request.cancel()
        assert made.next("me").result(timeout=120)["next"] is not None
    with pytest.raises(Refused, match="the server is stopping"):
        made.next("me").result(timeout=120)


def test_names_of_classes_are_cleaned_once(tmp_path: Path) -> None:
    with service(tmp_path / "log", classes=[]) as made:
        assert made.classes.add("me", "a  b").result()["class"] == 0
        assert made.classes.change("me", 0, name=" a   b ").result()["classes"][0]["name"] == "a b"
