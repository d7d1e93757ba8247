"""Views while people label are complete, and delay nobody."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everylabel.labelling import guesses
from tests.labelling.desks import FEATURES, IDS, N, label, service, truth


def pages(made: Any, limit: int, after_each: Any) -> list[str]:
    """Return the ids of all pages of predictions."""
    page = made.views.guesses.page(None, 0, limit)
    ids = list(page["ids"])
    while page["after"] is not None:
        after_each()
        page = made.views.guesses.page(page["after"], 0, limit)
        ids += page["ids"]
    return ids


def test_pages_of_predictions_hold_all_that_has_no_label(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        items = label(made, 7)
        for limit in (1, 50, N - 7, N):
            found = pages(made, limit, lambda: None)
            assert found == [item for item in IDS if item not in items]
        page = made.views.guesses.page(None, 5, 3)
        assert page["ids"] == found[5:8]
        assert page["total"] == N - 7
        logits = made.desk.learner.pool.logits([made.views.position(item) for item in page["ids"]])
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        np.testing.assert_allclose(page["probabilities"], odds / odds.sum(axis=1, keepdims=True), atol=1e-5)


def test_predictions_share_out_none_of_these_as_exports_do(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        items = label(made, 12)
        made.none_of_these("me", items[0]).result()
        page = made.views.guesses.page(None, 0, 20)
        rows = np.array(page["probabilities"])
        assert rows.shape == (20, 10)
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-4)


def test_pages_are_small_where_classes_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path / "log") as made:
        label(made, 7)
        whole = made.views.guesses.page(None, 0, N)
        monkeypatch.setattr(guesses, "MOST_NUMBERS", 400)
        assert pages(made, N, lambda: None) == whole["ids"]
        page = made.views.guesses.page(None, 0, N)
        assert len(page["ids"]) == 40  # of ten classes
        assert page["probabilities"] == whole["probabilities"][:40]


def test_pages_skip_nothing_while_people_label(tmp_path: Path) -> None:
    with service(tmp_path / "log") as made:
        found = pages(made, 40, lambda: label(made, 5))
        left = {item for i, item in enumerate(IDS) if i not in made.state.labels}
        assert left <= set(found)
        assert len(found) == len(set(found))


class Watched(np.ndarray):
    """Logits that record the thread that compares them."""

    threads: list[str]

    def argmax(self, *args: Any, **options: Any) -> Any:
        Watched.threads.append(threading.current_thread().name)
        return super().argmax(*args, **options)


def test_the_desk_does_not_count_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path / "log") as made:
        label(made, 12)
        pool, Watched.threads = made.desk.learner.pool, []
        logits = pool.logits
        monkeypatch.setattr(pool, "logits", lambda *idx: logits(*idx).view(Watched))
        shown = made.views.progress("me")
        counts = np.bincount(np.asarray(logits()).argmax(axis=1), minlength=10)
        assert [each["predicted"] for each in shown["classes"]] == counts.tolist()
        assert "desk" not in Watched.threads
        assert made.views.guesses.all() is made.views.guesses.all()  # compared once a version
        made.classes.add("me", "ten").result()
        assert made.views.progress("me")["classes"][10]["predicted"] == 0
        assert len(made.views.guesses.all()) == N


def test_nothing_is_predicted_before_the_first_label(tmp_path: Path) -> None:
    with service(tmp_path / "log", classes=[]) as made:
        assert made.views.progress("me")["classes"] == []
        made.classes.add("me", "a").result()
        assert made.views.progress("me")["classes"][0]["predicted"] is None


def test_the_map_has_all_labelled_instances_and_some_of_the_others(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2) as made:
        items = label(made, 9)
        check = made.state.leases["me"]
        assert check.reason == "check"
        for most in (20, N, 2 * N):
            shown = made.views.guesses.points(most)
            assert len(shown["idx"]) == len(set(shown["idx"])) == min(most, N)
            labels = dict(zip(shown["idx"].tolist(), shown["label"], strict=True))
            assert {IDS[i]: c for i, c in labels.items() if c is not None} == {i: truth(i) for i in items}
            guesses = dict(zip(shown["idx"].tolist(), shown["guess"], strict=True))
            assert guesses.get(check.item) is None  # not reported
            assert all(guesses[i] == made.views.guesses.all()[i] for i in guesses if i != check.item)
        assert made.views.guesses.points(4)["label"].count(None) == 0


def test_items_and_their_states(tmp_path: Path) -> None:
    with service(tmp_path / "log", ids=IDS[:5], features=FEATURES[:5], check_every=0) as made:
        made.label("me", IDS[0], 3).result()
        made.cannot_tell("me", IDS[1]).result()
        held = made.state.leases["me"].item
        (free,) = {2, 3, 4} - {held, *made.state.answers} - {max({2, 3, 4} - {held})}
        states = [found["state"] for found in made.desk.read(made.views.states, [0, 1, held, free]).result()]
        assert states == ["labelled", "cannot_tell", "out", "free"]
        assert made.desk.read(made.views.item, IDS[0]).result()["answers"] == [{"person": "me", "class": 3}]
